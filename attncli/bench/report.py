"""Makes of a ledger the document that it is saved as; what is shown is made of that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from attncli.bench.baseline import Change, settings_of
from attncli.bench.findings import Overtaking, crossovers, fits, warnings
from attncli.bench.fit import Fit
from attncli.bench.results import BenchResults, Cell
from attncli.bench.views import CLOCKS, curves_of
from attncli.record import Provenance
from attncli.view import Curves, Header


def bench_view(ledger: BenchResults, provenance: Provenance, changes: Sequence[Change] = ()) -> Curves:
    """Show what was found.

    Args:
        changes: Against an older run, where there is one.
    """
    header = Header(command="bench", title=_title(ledger), provenance=provenance, notes=tuple(_notes(ledger)))
    return curves_of(_document(ledger, fits(ledger), crossovers(ledger), changes), header)


def _title(ledger: BenchResults) -> str:
    question, workload, threads = ledger.question, ledger.question.workload, ledger.environment.threads
    parts = [
        "causal" if workload.causal else "not causal",
        *(["forward and backward"] if workload.backward else []),
        f"{workload.heads} heads × {workload.head_dim}",
        f"batch {workload.batch}",
        workload.dtype,
        f"{workload.device}, {threads} thread{'s' * (threads != 1)}"
        if workload.device == "cpu"
        else workload.device,
        CLOCKS[question.clock],
    ]
    return f"attention, {' · '.join(parts)}"


def _notes(ledger: BenchResults) -> list[str]:
    question, environment = ledger.question, ledger.environment
    floors = ", ".join(
        f"{floor:.1%} at {n:,}" for n, floor in ledger.noise_floors.items() if floor < math.inf
    )
    notes = [
        *([] if ledger.complete else ["interrupted: this is what was done until then"]),
        *(
            f"{name} ran {text}" if name == "sdpa" else f"{name}: {text}"
            for name, text in ledger.about.items()
        ),
        *(
            [
                f"≈ is no difference: {question.reference.name} against itself came out as far apart as {floors}"
            ]
            * bool(floors)
        ),
        "memory is what a call allocates at its peak, its output included; error is the largest difference from "
        "float64 (an approximation's from its own plain form)",
        f"the fastest matrix product here does {environment.peak_flops / 1e9:.3g} GFLOP/s; the percentage is of that",
        *(f"left out {text}" for text in ledger.left_out),
        *(f"noise: {text}" for text in warnings(ledger)),
    ]
    return notes


def _cell(cell: Cell, ledger: BenchResults) -> dict[str, Any]:
    speed = cell.flops_per_second
    return {
        "variant": cell.variant,
        "seq_len": cell.seq_len,
        "status": cell.status,
        "clock": cell.clock,
        "rounds": len(cell.readings),
        "median": cell.median,
        "iqr": cell.iqr,
        "ratio": cell.ratio,
        "ratio_interval": None if cell.ratio_interval is None else list(cell.ratio_interval),
        "noise": cell.noise,
        "peak_bytes": cell.peak_bytes,
        "predicted_bytes": cell.predicted_bytes,
        "flops": cell.flops,
        "flops_per_second": speed,
        "peak_share": None if speed is None else speed / ledger.environment.peak_flops,
        "max_abs_error": cell.max_abs_error,
        "reason": cell.reason,
        "seconds": cell.seconds,
        "wall_seconds": [reading.wall for reading in cell.readings],
        "cpu_seconds": [reading.cpu for reading in cell.readings],
    }


def _document(
    ledger: BenchResults, found: dict[str, Fit], overtakings: list[Overtaking], changes: Sequence[Change]
) -> dict[str, Any]:
    return {
        "complete": ledger.complete,
        "environment": asdict(ledger.environment),
        "settings": settings_of(ledger.question, ledger.environment.threads),
        "elapsed_seconds": ledger.elapsed_seconds,
        "timed_share": ledger.timed_seconds / ledger.elapsed_seconds if ledger.elapsed_seconds else 0.0,
        "controls": [
            {
                "seq_len": n,
                "ratio_interval": None if found_ is None else list(found_),
                "noise_floor": ledger.noise_floors[n],
            }
            for n, found_ in ledger.controls.items()
        ],
        "cells": [_cell(cell, ledger) for cell in ledger.cells],
        "fits": [{"variant": name, **asdict(fit)} for name, fit in found.items()],
        "crossovers": [
            {
                "variant": one.variant,
                "faster_than": one.other,
                "seq_len": one.crossover.seq_len,
                "interval": list(one.crossover.interval),
            }
            for one in overtakings
        ],
        "warnings": list(warnings(ledger)),
        "left_out": list(ledger.left_out),
        **({"changes": [{**asdict(change), "ratio": change.ratio} for change in changes]} if changes else {}),
    }
