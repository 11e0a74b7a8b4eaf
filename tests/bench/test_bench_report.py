import json
from dataclasses import replace

import jsonschema
import pytest
from bench_samples import cell, ledger

from attncli.bench.baseline import Change, compare, read_baseline
from attncli.bench.findings import crossovers, fits, warnings
from attncli.bench.report import bench_view
from attncli.bench.results import Cell
from attncli.bench.views import short_ratio
from attncli.commands.schema import schema_text
from attncli.errors import ReadError, UsageError
from attncli.record import Provenance
from attncli.render import Options
from attncli.render.json_format import render as render_json
from attncli.render.table import render as render_table

MADE_WITH = Provenance("0.1.0", argv=("bench",))


def document(made=None, changes=()) -> dict:
    return json.loads(render_json(bench_view(made or ledger(), MADE_WITH, changes), Options()))


def test_exponents_and_crossovers_follow_from_the_times() -> None:
    made = ledger()
    assert {name: round(fit.exponent, 3) for name, fit in fits(made).items()} == {
        "sdpa": 2.0,
        "full": 2.0,
        "linear": 1.0,
    }
    # At 1024 linear takes just as long as sdpa, and at 4096 a quarter; full takes four times as long.
    found = {(one.variant, one.other): one.crossover.seq_len for one in crossovers(made)}
    assert found[("linear", "sdpa")] == pytest.approx(1024) and ("full", "sdpa") not in found


def test_the_document_follows_its_schema_and_holds_every_reading() -> None:
    made = ledger()
    made.cells.append(Cell("full", 8192, "too large", "cpu", reason="needs 34 GiB, 20 GiB free", flops=1))
    made.noise_floors, made.controls = {256: float("inf")}, {256: None}
    found = document(made, [Change("full", 256, 1.0, 1.5)])
    jsonschema.Draft202012Validator(json.loads(schema_text("bench"))).validate(found)
    assert found["cells"][0]["seconds"] == made.cells[0].seconds and found["timed_share"] == 0.8
    assert found["cells"][-1]["median"] is None and found["changes"][0]["ratio"] == 1.5
    assert found["controls"][0]["noise_floor"] is None


def test_a_table_fits_80_columns_and_says_all() -> None:
    made = ledger()
    made.cells.append(Cell("full", 8192, "too large", "cpu", reason="needs 34 GiB, 20 GiB free"))
    made.cells[2] = replace(made.cells[2], noise=True, ratio=1.01)
    text = render_table(bench_view(made, MADE_WITH), Options(terminal=True, width=80)).decode()
    assert max(map(len, text.splitlines())) <= 80
    assert "needs 34 GiB, 20 GiB free" in text and "≈1.01" in text and "n^1.00" in text
    assert "linear   sdpa         ≈ 1,024" in text and "interrupted" not in text


def test_an_interrupted_run_says_so() -> None:
    made = ledger()
    made.complete = False
    view = bench_view(made, MADE_WITH)
    assert view.header.notes[0].startswith("interrupted") and document(made)["complete"] is False


def test_ratios_are_short() -> None:
    assert [short_ratio(ratio) for ratio in (0.0994, 0.0996, 9.994, 9.996, 1234.0)] == [
        ".099",
        "0.10",
        "9.99",
        "10.0",
        "1234",
    ]


def test_noise_is_told_with_its_remedy() -> None:
    assert list(warnings(ledger())) == []
    loud = ledger([cell("sdpa", 256, [1.0, 2.0, 3.0, 3.0, 4.0, 5.0])])
    loud.environment = replace(loud.environment, load=2.1)
    told = list(warnings(loud))
    assert [
        any(word in line for line in told)
        for word in ("load was 2.1", "spreads over more than 10%", "slower from")
    ] == [True] * 3
    waited = ledger()
    waited.cells = [
        replace(one, readings=tuple(replace(r, wall=2 * r.cpu) for r in one.readings)) for one in waited.cells
    ]
    assert "held the processor for 50%" in next(warnings(waited))


@pytest.fixture
def old(tmp_path):
    """A file with an older run in which linear was twice as fast at 4096."""
    found = document()
    found["cells"][-1]["median"] /= 2
    path = tmp_path / "old.json"
    path.write_text(json.dumps(found))
    return path


def test_a_baseline_is_compared_cell_by_cell(old) -> None:
    made = ledger()
    changes = compare(made, read_baseline(str(old), made.question, 1))
    assert {(c.variant, c.seq_len): round(c.ratio, 6) for c in changes}[("linear", 4096)] == 2.0
    assert sum(round(c.ratio, 6) == 1.0 for c in changes) == 8


def test_a_baseline_of_something_else_is_refused(old, tmp_path) -> None:
    made = ledger()
    with pytest.raises(UsageError, match="measured with threads 1, this run has 2"):
        read_baseline(str(old), made.question, 2)
    with pytest.raises(UsageError, match="with causal on, this run has off"):
        read_baseline(
            str(old), replace(made.question, workload=replace(made.question.workload, causal=False)), 1
        )
    with pytest.raises(UsageError, match="none of these variants at these lengths"):
        read_baseline(str(old), replace(made.question, lengths=(7,)), 1)


NO_BENCH = (
    "",
    "\x00",
    "[]",
    "{}",
    '{"command": "show", "cells": []}',
    '{"command": "bench", "cells": [{}]}',
    '{"command": "bench", "cells": [{"variant": "full", "seq_len": 1, "median": "x"}]}',
)


@pytest.mark.parametrize("content", NO_BENCH)
def test_a_file_that_holds_no_benchmark_is_refused(content: str, tmp_path) -> None:
    path = tmp_path / "old.json"
    path.write_text(content)
    with pytest.raises(ReadError, match="not"):
        read_baseline(str(path), ledger().question, 1)
    with pytest.raises(ReadError, match="No such file"):
        read_baseline(str(tmp_path / "none.json"), ledger().question, 1)
