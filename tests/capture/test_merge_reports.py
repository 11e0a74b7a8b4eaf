from attncli.capture.merge_reports import joined_reports
from attncli.record import AttentionLayer, LayerReport

FIRST, SECOND = AttentionLayer("encoder", 0, 2, 2), AttentionLayer("encoder", 1, 2, 2)


def report(
    layer: AttentionLayer, row_sum: float, forbidden: float, output: float | None, dead: int
) -> LayerReport:
    return LayerReport(layer, row_sum, forbidden, output, dead, "interface")


def test_of_several_passes_each_number_is_the_worst_and_dead_rows_add_up() -> None:
    passes = [
        report(FIRST, 0.1, 0.5, 0.2, 1),
        report(SECOND, 0.9, 0.9, 0.9, 9),
        report(FIRST, 0.3, 0.4, 0.6, 2),
    ]
    assert joined_reports(passes) == [report(FIRST, 0.3, 0.5, 0.6, 3), report(SECOND, 0.9, 0.9, 0.9, 9)]
    assert joined_reports(passes[::-1])[0] == report(FIRST, 0.3, 0.5, 0.6, 3)


def test_an_output_seen_in_one_pass_alone_counts() -> None:
    one, other = report(FIRST, 0.0, 0.0, 0.2, 0), report(FIRST, 0.0, 0.0, None, 0)
    assert [joined_reports(pair)[0].output_error for pair in ([one, other], [other, one])] == [0.2, 0.2]
    assert joined_reports([other, other])[0].output_error is None
