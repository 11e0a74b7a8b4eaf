import pytest

from attncli.cli.common import tell_checks
from attncli.cli.options import OutputOptions
from attncli.record import AttentionLayer, LayerReport, Run, SourceInfo

FIRST, SECOND = AttentionLayer("encoder", 0, 2, 2), AttentionLayer("decoder", 1, 2, 2)


def test_of_all_layers_the_largest_numbers_of_the_checks_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    reports = (
        LayerReport(FIRST, 1e-3, 0.25, None, 0, "interface"),
        LayerReport(SECOND, 1e-7, 0.5, 0.125, 0, "interface"),
        LayerReport(SECOND, 1e-8, 0.0, 0.0625, 0, "interface"),
    )
    run = Run(SourceInfo("tiny", "pretrained", family="t5"), (FIRST, SECOND, SECOND), {}, {}, reports)
    tell_checks(run, OutputOptions())
    assert capsys.readouterr().err == ""
    tell_checks(run, OutputOptions(verbose=True))
    told = capsys.readouterr().err.splitlines()
    assert told[1].startswith("attention operations: 1 encoder, 2 decoder, 0 cross; looked into 3")
    assert told[2:] == [
        "largest distance of a row's sum from 1: 0.001",
        "largest weight on a forbidden key: 0.5",
        "largest difference from the model's own output, of its largest value: 0.12",
    ]
