"""Makes of a ledger what is shown: tables for people, rows and a document for programs, plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from attncli.bench.baseline import Change, settings_of
from attncli.bench.findings import Overtaking, crossovers, fits, warnings
from attncli.bench.fit import Fit
from attncli.bench.record import Cell, Ledger
from attncli.bench.run import human_seconds
from attncli.memory import human_bytes
from attncli.record import Provenance
from attncli.view import Column, Curve, Curves, Header, Plot, Table

_DATA = (
    "variant", "seq_len", "status", "clock", "rounds", "median", "iqr", "ratio", "ratio_low", "ratio_high", "noise",
    "peak_bytes", "predicted_bytes", "flops", "flops_per_second", "peak_share", "max_abs_error", "reason",
)  # fmt: skip

_CLOCKS = {"cpu": "CPU time", "wall": "wall time", "cuda": "GPU time"}


def bench_view(ledger: Ledger, provenance: Provenance, changes: Sequence[Change] = ()) -> Curves:
    """Show what was found.

    Args:
        changes: Against an older run, where there is one.
    """
    found, overtakings = fits(ledger), crossovers(ledger)
    header = Header(command="bench", title=_title(ledger), provenance=provenance, notes=tuple(_notes(ledger)))
    return Curves(
        header,
        plots=_plots(ledger, found),
        tables=tuple(_tables(ledger, found, overtakings, changes, header)),
        data=Table(
            header,
            tuple(map(Column, _DATA)),
            tuple(_data_row(cell, ledger) for cell in ledger.cells),
            "cells",
        ),
        document=_document(ledger, found, overtakings, changes),
    )


def _title(ledger: Ledger) -> str:
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
        _CLOCKS[question.clock],
    ]
    return f"attention, {' · '.join(parts)}"


def _notes(ledger: Ledger) -> list[str]:
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


# For people


def _tables(
    ledger: Ledger,
    found: dict[str, Fit],
    overtakings: list[Overtaking],
    changes: Sequence[Change],
    header: Header,
) -> list[Table]:
    reference = ledger.question.reference.name
    cells = Table(
        _titled(header, "time and memory, the fastest first"),
        _people_columns(reference),
        tuple(_people_rows(ledger)),
    )
    growth = [
        (name, f"n^{fit.exponent:.2f}", f"± {fit.stderr:.2f}", f"{fit.from_seq_len:,}", fit.lengths)
        for name, fit in sorted(found.items(), key=lambda pair: pair[1].exponent)
    ]
    tables = [cells]
    skipped = [(f"{c.seq_len:,}", c.variant, _why(c)) for c in ledger.cells if not c.readings]
    if skipped:
        columns = Column("n", right=True), Column("variant"), Column("why")
        tables.append(Table(_titled(header, "not measured"), columns, tuple(skipped)))
    if growth:
        columns5 = (
            Column("variant"),
            Column("time", "time grows as", right=True),
            Column("stderr", right=True),
            Column("from n", right=True),
            Column("lengths", right=True),
        )
        tables.append(Table(_titled(header, "growth"), columns5, tuple(growth)))
    if overtakings:
        rows = tuple((one.variant, one.other, *_where(one)) for one in overtakings)
        columns4 = (
            Column("variant"),
            Column("faster than"),
            Column("from n", right=True),
            Column("95 %", right=True),
        )
        tables.append(Table(_titled(header, "crossovers"), columns4, rows))
    if changes:
        then = tuple(
            (f"{c.seq_len:,}", c.variant, human_seconds(c.before), human_seconds(c.now), f"{c.ratio:.2f}")
            for c in changes
        )
        columns6 = (
            Column("n", right=True),
            Column("variant"),
            Column("before", right=True),
            Column("now", right=True),
            Column("ratio", right=True),
        )
        tables.append(Table(_titled(header, "against the baseline"), columns6, then))
    return tables


def _titled(header: Header, title: str) -> Header:
    return Header(command=header.command, title=title, provenance=header.provenance)


def _people_columns(reference: str) -> tuple[Column, ...]:
    names = ("n", "time", "IQR", f"/{reference}", "95 %", "memory", "GFLOP/s", "error")
    columns = [Column(name, right=True) for name in names]
    return columns[0], Column("variant"), *columns[1:]


def _people_rows(ledger: Ledger) -> list[tuple[str, ...]]:
    timed = [cell for cell in ledger.cells if cell.median is not None]
    return [
        _people_row(cell, ledger)
        for cell in sorted(timed, key=lambda cell: (cell.seq_len, cell.median or 0.0))
    ]


def _people_row(cell: Cell, ledger: Ledger) -> tuple[str, ...]:
    assert cell.median is not None and cell.iqr is not None
    alone = cell.variant == ledger.question.reference.name
    return (
        str(cell.seq_len),
        cell.variant,
        human_seconds(cell.median),
        f"{cell.iqr / cell.median:.0%}",
        ""
        if cell.ratio is None
        else ("1" if alone else ("≈" if cell.noise else "") + short_ratio(cell.ratio)),
        "" if cell.ratio_interval is None or alone else "–".join(map(short_ratio, cell.ratio_interval)),
        "" if cell.peak_bytes is None else human_bytes(cell.peak_bytes),
        _speed(cell, ledger),
        "" if cell.max_abs_error is None else f"{cell.max_abs_error:.0e}".replace("e-0", "e-"),
    )


def short_ratio(ratio: float) -> str:
    """Write a ratio in at most four characters, up to a thousand.

    >>> [short_ratio(ratio) for ratio in (0.0451, 0.567, 4.321, 43.21, 432.1)]
    ['.045', '0.57', '4.32', '43.2', '432']
    """
    if ratio < 0.0995:
        return f"{ratio:.3f}"[1:]
    return f"{ratio:.{2 if ratio < 9.995 else 1 if ratio < 99.95 else 0}f}"


def _speed(cell: Cell, ledger: Ledger) -> str:
    speed = cell.flops_per_second
    if speed is None:
        return ""
    billions = speed / 1e9
    digits = 0 if billions >= 9.95 else 1
    return f"{billions:.{digits}f} {speed / ledger.environment.peak_flops:.0%}"


def _why(cell: Cell) -> str:
    return cell.reason if cell.status in ("too large", "too slow") else f"{cell.status}: {cell.reason}"


def _where(one: Overtaking) -> tuple[str, str]:
    low, high = one.crossover.interval
    ends = f"{low:,.0f}" if low is not None else "…", f"{high:,.0f}" if high is not None else "…"
    return f"≈ {one.crossover.seq_len:,.0f}", "–".join(ends)


# For programs


def _data_row(cell: Cell, ledger: Ledger) -> tuple[object, ...]:
    values = _cell(cell, ledger)
    low, high = cell.ratio_interval or (None, None)
    values |= {"ratio_low": low, "ratio_high": high}
    return tuple(values[name] for name in _DATA)


def _cell(cell: Cell, ledger: Ledger) -> dict[str, Any]:
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
    ledger: Ledger, found: dict[str, Fit], overtakings: list[Overtaking], changes: Sequence[Change]
) -> dict[str, Any]:
    return {
        "complete": ledger.complete,
        "environment": ledger.environment.as_json(),
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
        "fits": [
            {
                "variant": name,
                "exponent": fit.exponent,
                "stderr": fit.stderr,
                "scale": fit.scale,
                "from_seq_len": fit.from_seq_len,
                "lengths": fit.lengths,
            }
            for name, fit in found.items()
        ],
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
        **({"changes": [_change(change) for change in changes]} if changes else {}),
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "variant": change.variant,
        "seq_len": change.seq_len,
        "before": change.before,
        "now": change.now,
        "ratio": change.ratio,
    }


# For pictures


def _plots(ledger: Ledger, found: dict[str, Fit]) -> tuple[Plot, ...]:
    time, memory = [], []
    for contender in ledger.question.contenders:
        cells = ledger.timed(contender.name)
        if not cells:
            continue
        about = f"n^{found[contender.name].exponent:.2f}" if contender.name in found else ""
        x = tuple(float(cell.seq_len) for cell in cells)
        time.append(
            Curve(contender.name, x, tuple(cell.median or 0.0 for cell in cells), about, contender.peer)
        )
        sized = [cell for cell in cells if cell.peak_bytes]
        if sized:
            x = tuple(float(cell.seq_len) for cell in sized)
            y = tuple(float(cell.peak_bytes or 0) for cell in sized)
            memory.append(Curve(contender.name, x, y, quiet=contender.peer))
    title = f"{_CLOCKS[ledger.question.clock]} of a call"
    plots = [Plot(title, "seconds", "sequence length n", tuple(time), (1, 2))]
    if memory:
        plots.append(
            Plot(
                "peak memory of a call, output included", "bytes", "sequence length n", tuple(memory), (1, 2)
            )
        )
    return tuple(plots)
