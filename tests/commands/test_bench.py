"""attncli bench, as a user runs it. No time is asserted; where one matters, the clock is told what to say."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import jsonschema
import pexpect
import pytest
import torch
from commandline import Cli, Result

from attncli import registry
from attncli.bench.clock import Reading

QUICK = ("--heads", "2", "--head-dim", "8", "--max-time", "0.01", "-q")


@pytest.fixture(autouse=True)
def quick_peak(monkeypatch: pytest.MonkeyPatch) -> object:
    """Take no time for the machine's peak, and give torch its threads back."""
    threads = torch.get_num_threads()
    monkeypatch.setattr("attncli.bench.environment.PATIENCE", 0.0)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.bench.rounds.time_call", lambda call, number, device: Reading(1.0, 1.0))


def test_everything_that_fits_is_measured_and_follows_the_schema(cli: Cli) -> None:
    result = cli("bench", "--seq-len", "16,24,40", *QUICK, "--json")
    assert (result.code, result.err) == (0, "")
    document = result.json
    jsonschema.Draft202012Validator(cli("schema", "bench").json).validate(document)
    causal = {name for name, entry in registry.entries("variants").items() if entry.attributes["causal"]}
    assert {cell["variant"] for cell in document["cells"]} >= causal | {
        "sdpa",
        "flex",
        "recurrent",
        "convolution",
    }
    assert document["complete"] and 0 < document["timed_share"] < 1
    for cell in document["cells"]:
        assert cell["status"] == "ok" and len(cell["seconds"]) == len(cell["cpu_seconds"]) >= 3, cell
        assert min(cell["seconds"]) <= cell["median"] <= max(cell["seconds"]) and cell["peak_bytes"] > 0


def test_equal_things_print_as_no_different(cli: Cli, steady: None) -> None:
    result = cli("bench", "-n", "16", "--variants", "full", *QUICK, "--format", "table", "--width", "80")
    (line,) = [line for line in result.out.splitlines() if line.split()[:2] == ["16", "full"]]
    assert "≈1.00" in line and max(map(len, result.out.splitlines())) <= 80


def test_a_pipe_gets_rows_and_files_get_their_forms(cli: Cli, tmp_path: Path) -> None:
    names = ("b.png", "b.svg", "b.pdf", "b.json", "b.csv", "b.md")
    files = [part for name in names for part in ("-o", str(tmp_path / name))]
    result = cli("bench", "-n", "16,24", "--variants", "full", *QUICK, *files, "-o", "-")
    assert result.code == 0 and result.out.splitlines()[0].startswith("variant\tseq_len\tstatus")
    assert len(result.out.splitlines()) == 5 and all((tmp_path / name).stat().st_size > 100 for name in names)
    assert json.loads((tmp_path / "b.json").read_text())["cells"][0]["variant"] == "sdpa"


def test_a_wrong_implementation_is_told_and_not_timed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from attncli.attention.variants import full

    monkeypatch.setattr(full, "attend", lambda q, k, v, causal: v)
    result = cli("bench", "-n", "16", "--variants", "full", *QUICK, "--format", "table", "--width", "100")
    assert result.code == 0 and "wrong: differs from full attention in float64" in result.out


def test_a_length_that_needs_too_much_is_printed_with_what_it_needs(cli: Cli) -> None:
    result = cli("bench", "-n", "16,1000000", "--variants", "full", *QUICK, "--json")
    huge = {cell["variant"]: cell for cell in result.json["cells"] if cell["seq_len"] == 10**6}
    assert result.code == 0 and huge["sdpa"]["status"] == "too slow" and not huge["sdpa"]["seconds"]
    # Two heads, 10⁶ × 10⁶ scores of 4 bytes, at least two of them at once: over 14 TiB.
    needed = re.match(r"needs ([0-9.]+) TiB, [0-9.]+ GiB free", huge["full"]["reason"])
    assert huge["full"]["status"] == "too large" and needed and float(needed[1]) > 14


def test_an_interruption_prints_what_is_done_and_ends_with_130(cli: Cli, monkeypatch, tmp_path: Path) -> None:
    ticks = iter(range(10**6))

    def interrupted(call, number, device):
        if next(ticks) == 20:
            raise KeyboardInterrupt
        return Reading(1.0, 1.0)

    monkeypatch.setattr("attncli.bench.rounds.time_call", interrupted)
    result = cli(
        "bench", "-n", "8,16", "--variants", "full", *QUICK, "--json", "-o", str(tmp_path / "b.json")
    )
    assert result.code == 130
    document = json.loads((tmp_path / "b.json").read_text())
    assert document["complete"] is False and {cell["seq_len"] for cell in document["cells"]} == {8}
    assert list(tmp_path.iterdir()) == [tmp_path / "b.json"]


def listen_to_ctrl_c() -> None:
    """A shell lets what it runs in the background ignore Ctrl-C, and a child inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_on_a_terminal_leaves_whole_files_and_a_clean_line(tmp_path: Path) -> None:
    # Neither the time nor the 200 rounds run out before the key is pressed, however busy the machine is.
    patient = ["--precision", "1e-9", "--max-time", "3600", "--budget", "36000"]
    arguments = ["-m", "attncli", "bench", "-n", "2048", "--variants", "full", *patient, "-o", "b.json"]
    child = pexpect.spawn(sys.executable, arguments, cwd=tmp_path, dimensions=(50, 80), encoding="utf-8", timeout=600,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                          preexec_fn=listen_to_ctrl_c)  # fmt: skip
    child.expect("n = 2,048: round [0-9]+")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130 and "Traceback" not in child.before
    assert json.loads((tmp_path / "b.json").read_text())["complete"] is False
    assert [path.name for path in tmp_path.iterdir()] == ["b.json"]


@pytest.fixture
def old(cli: Cli, steady: None, tmp_path: Path) -> Path:
    """An older run in which full was twice as fast."""
    path = tmp_path / "old.json"
    assert cli("bench", "-n", "16,24", "--variants", "full", *QUICK, "-o", str(path)).code == 0
    document = json.loads(path.read_text())
    for cell in document["cells"]:
        cell["median"] /= 2 if cell["variant"] == "full" else 1
    path.write_text(json.dumps(document))
    return path


def test_who_got_slower_than_the_baseline_ends_with_3_by_name(cli: Cli, old: Path) -> None:
    run = ("bench", "-n", "16,24", "--variants", "full", *QUICK, "--json", "--baseline", str(old))
    slow = cli(*run, "--fail-over", "1.2")
    assert (
        slow.code == 3
        and "error: slower than 1.2× the baseline: full at 16 2.00×, full at 24 2.00×" in slow.err
    )
    assert [change["ratio"] for change in slow.json["changes"]] == [1.0, 2.0, 1.0, 2.0]
    assert cli(*run, "--fail-over", "2.5").code == 0 and cli(*run).code == 0


BAD: list[tuple[tuple[str, ...], int, str]] = [
    (("--variants", "flsh,ful"), 2, "no variant named 'flsh'"),
    (("--variants", "full", "--set", "full.window=3"), 2, "full has no parameter 'window'"),
    (("--variants", "convolution", "--set", "kernl=3"), 2, 'did you mean "kernel"?'),
    (("--variants", "convolution", "--set", "kernel=0"), 2, "kernel must be at least 1"),
    (("--variants", "sliding-window", "--set", "sliding-window.window=0"), 2, "window must be at least 1"),
    (("--variants", "dsa", "-n", "16", "--set", "dsa.top_k=17"), 2, "dsa: "),
    (("--variants", "retention", "-n", "16", "--head-dim", "7"), 2, "retention: "),
    (("--variants", "bigbird"), 2, "bigbird: has no causal form"),
    (("--variants", "retention", "--no-causal"), 2, "retention: has only a causal form"),
    (("--seq-len", "1.5"), 2, "'1.5' is no whole number"),
    (("--seq-len", "512,256"), 2, "lengths must rise"),
    (("--seq-len", "512:1024:/2"), 2, "a range is first:last"),
    (("--seq-len", "0"), 2, "at least 1"),
    (("--heads", "0"), 2, "--heads: must be at least 1"),
    (("--heads", "x"), 2, "--heads: must be a whole number"),
    (("--dtype", "float23"), 2, 'did you mean "float32"?'),
    (("--device", "tpu9"), 2, "--device tpu9: not available here"),
    (("--reference", "sdp"), 2, 'did you mean "sdpa"?'),
    (("--precision", "0"), 2, "--precision 0: must be more than 0"),
    (("--precision", "nan"), 2, "--precision nan: must be more than 0"),
    (("--budget", "-1"), 2, "--budget -1: must be more than 0"),
    (("--fail-over", "1.2"), 2, "--fail-over needs --baseline"),
    (("--baseline", "/no/such.json", "--fail-over", "1.2"), 1, "/no/such.json: No such file"),
    (("--format", "heatmap"), 2, "not available for this command"),
    (("-o", "b.npz"), 2, "this command cannot write .npz files"),
    (("-o", "/no/such/b.png"), 1, "No such file or directory"),
]


@pytest.mark.parametrize(
    ("arguments", "code", "words"), BAD, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_a_mistake_is_told_before_any_work(
    cli: Cli, monkeypatch, arguments: tuple[str, ...], code: int, words: str
) -> None:
    missing = [
        name
        for name in ("sliding-window", "dsa", "retention", "bigbird")
        if name in arguments and name not in registry.entries("variants")
    ]
    if missing:
        pytest.skip(f"there is no {missing[0]} yet")
    monkeypatch.setattr("attncli.bench.environment.measure_peak", lambda *_: pytest.fail("work was done"))
    monkeypatch.setattr("attncli.bench.run.run_bench", lambda *_: pytest.fail("work was done"))
    result: Result = cli("bench", *arguments)
    assert (result.code, result.out) == (code, ""), result
    assert result.err.startswith("error: ") and words in result.err and len(result.err.splitlines()) <= 3


def test_peers_are_listed(cli: Cli) -> None:
    assert set(cli("list", "peers", "--json").json["details"]) == {"sdpa", "flex", "recurrent", "convolution"}
