"""Holds a benchmark against an older one, so that a script learns who got slower."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attncli.bench.results import BenchRequest, BenchResults
from attncli.errors import ReadError, UsageError
from attncli.labels import safe_label

_MUST_AGREE = ("batch", "heads", "head_dim", "dtype", "device", "causal", "backward", "threads", "clock")


@dataclass(frozen=True, slots=True)
class Baseline:
    """The medians of an older run, in seconds, by variant and length."""

    name: str
    medians: Mapping[tuple[str, int], float]


@dataclass(frozen=True, slots=True)
class Change:
    """One cell, then and now.

    Args:
        ratio: The time now divided by the time then.
    """

    variant: str
    seq_len: int
    before: float
    now: float

    @property
    def ratio(self) -> float:
        """How many times as long it takes."""
        return self.now / self.before


def read_baseline(name: str, question: BenchRequest, threads: int) -> Baseline:
    """Read an older run's JSON, and check that the two can be compared.

    Raises:
        ReadError: The file cannot be read, or holds no benchmark.
        UsageError: It measured something else.
    """
    shown = safe_label(name)
    document = _load(name, shown)
    _check_same(document, question, threads, shown)
    medians = {
        (str(cell["variant"]), int(cell["seq_len"])): float(cell["median"])
        for cell in document["cells"]
        if cell.get("median")
    }
    wanted = {(one.name, seq_len) for one in question.contenders for seq_len in question.lengths}
    if not wanted & set(medians):
        raise UsageError(
            f"--baseline {shown}: it measured none of these variants at these lengths",
            "give the --variants and --seq-len that it was made with",
        )
    return Baseline(name, medians)


def _load(name: str, shown: str) -> dict[str, Any]:
    try:
        document = json.loads(Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise ReadError(f"{shown}: {error.strerror or error}") from error
    except ValueError as error:
        raise ReadError(f"{shown}: not JSON", "make it with: attncli bench -o old.json") from error
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list) or document.get("command") != "bench" or not all(map(_is_cell, cells)):
        raise ReadError(f"{shown}: not a result of attncli bench", "make it with: attncli bench -o old.json")
    return dict(document)


def _is_cell(cell: object) -> bool:
    if not isinstance(cell, dict) or not isinstance(cell.get("variant"), str):
        return False
    median = cell.get("median")
    return isinstance(cell.get("seq_len"), int) and (median is None or isinstance(median, int | float))


def _check_same(document: dict[str, Any], question: BenchRequest, threads: int, shown: str) -> None:
    then = document.get("settings")
    if not isinstance(then, dict):
        return
    now = settings_of(question, threads)
    for name in _MUST_AGREE:
        if name in then and then[name] != now[name]:
            option = name.replace("_", "-")
            raise UsageError(
                f"--baseline {shown}: it was measured with {option} {_word(then[name])}, this run has "
                f"{_word(now[name])}",
                "measure both alike",
            )


def _word(value: object) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def settings_of(question: BenchRequest, threads: int) -> dict[str, Any]:
    """Return what was measured, for a document."""
    workload = question.workload
    return {
        "batch": workload.batch,
        "heads": workload.heads,
        "head_dim": workload.head_dim,
        "dtype": workload.dtype,
        "device": workload.device,
        "causal": workload.causal,
        "backward": workload.backward,
        "threads": threads,
        "clock": question.clock,
        "seed": workload.seed,
        "reference": question.reference.name,
        "seq_lens": list(question.lengths),
        "precision": question.precision,
        "max_time": question.max_time,
        "budget": question.budget,
        "variants": {one.name: dict(one.settings) for one in question.contenders},
    }


def compare(ledger: BenchResults, baseline: Baseline) -> list[Change]:
    """Compare each cell that both have."""
    changes = []
    for cell in ledger.cells:
        before = baseline.medians.get((cell.variant, cell.seq_len))
        if cell.median is not None and before is not None:
            changes.append(Change(cell.variant, cell.seq_len, before, cell.median))
    return changes
