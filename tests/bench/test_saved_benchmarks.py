"""A saved benchmark is read back whole, or refused in one line that names the place."""

import io
import json
from typing import Any

import pytest
from bench_samples import ledger

from attncli.bench.baseline import Change
from attncli.bench.report import bench_view
from attncli.bench.results import Cell
from attncli.documents.reading import read_run
from attncli.errors import ReadError
from attncli.record import Provenance
from attncli.render import Options, json_format
from attncli.view import Curves


def view() -> Curves:
    made = ledger()
    made.cells.append(Cell("full", 8192, "too large", "cpu", reason="needs 34 GiB, 20 GiB free", flops=1))
    made.noise_floors, made.controls = {256: float("inf")}, {256: None}
    return bench_view(made, Provenance("0.1.0", argv=("bench",)), [Change("full", 256, 1.0, 1.5)])


def read(document: Any) -> Any:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read_run(io.BytesIO(content), "old.json")


def test_what_is_read_is_what_was_written() -> None:
    made = view()
    back = read(json_format.render(made, Options()))
    assert (back.header, back.plots, back.tables) == (made.header, made.plots, made.tables)
    assert [list(row) for row in back.data.rows] == [
        [list(value) if isinstance(value, tuple) else value for value in row] for row in made.data.rows
    ]
    assert json_format.render(back, Options()) == json_format.render(made, Options())


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("settings.clock", "sun", "settings.clock: unknown word 'sun'"),
        ("settings", [], "settings: expected object, got list"),
        ("cells.0.median", None, "cells[0].median is missing, though there were rounds"),
        ("cells.0.median", 0, "cells[0].median is missing, though there were rounds"),
        ("cells.1.iqr", "x", "cells[1].iqr: expected number | null, got text"),
        ("cells.1.seq_len", -1, "cells[1].seq_len: expected whole number >= 1"),
        ("cells.1.ratio_interval", [1], "cells[1].ratio_interval: expected list of length >= 2"),
        ("cells.1.ratio_interval", [1, None], "cells[1].ratio_interval[1]: expected number, got null"),
        ("cells.2.peak_share", None, "cells[2].peak_share is missing"),
        ("fits.0.exponent", None, "fits[0].exponent"),
        ("crossovers.0.interval", ["a", 1], "crossovers[0].interval[0]: expected number | null, got text"),
        ("changes.0.before", True, "changes[0].before: expected number, got true or false"),
    ],
)
def test_a_damaged_benchmark_is_refused_with_its_place(path: str, value: Any, words: str) -> None:
    document = json.loads(json_format.render(view(), Options()))
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    inner = document
    for part in way:
        inner = inner[part]
    inner[last] = value
    with pytest.raises(ReadError) as caught:
        read(document)
    assert words in caught.value.message, caught.value.message


def test_a_missing_number_of_a_cell_is_told() -> None:
    document = json.loads(json_format.render(view(), Options()))
    del document["cells"][1]["noise"]
    with pytest.raises(ReadError, match=r"cells\[1\].noise is missing"):
        read(document)
