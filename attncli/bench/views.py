"""From a benchmark's document to what is shown of it: tables, plots, rows. Without torch, so that a saved one is drawn.

A cell is the document's own: a mapping as `attncli schema bench` describes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attncli import registry
from attncli.memory import human_bytes
from attncli.view import Column, Curve, Curves, Header, Plot, Table

Cell = Mapping[str, Any]
Document = Mapping[str, Any]

_DATA = (
    "variant", "seq_len", "status", "clock", "rounds", "median", "iqr", "ratio", "ratio_low", "ratio_high", "noise",
    "peak_bytes", "predicted_bytes", "flops", "flops_per_second", "peak_share", "max_abs_error", "reason",
)  # fmt: skip

CLOCKS = {"cpu": "CPU time", "wall": "wall time", "cuda": "GPU time"}


def curves_of(document: Document, header: Header) -> Curves:
    """Make the view of a benchmark.

    Args:
        document: The keys of its JSON document, besides those that all documents have.
    """
    data = tuple(_data_row(cell) for cell in document["cells"])
    return Curves(
        header,
        plots=_plots(document),
        tables=tuple(_tables(document, header)),
        data=Table(header, tuple(map(Column, _DATA)), data, "cells"),
        document=document,
    )


# For people


def _tables(document: Document, header: Header) -> Iterator[Table]:
    reference = document["settings"]["reference"]
    yield _table(
        header,
        "time and memory, the fastest first",
        _people_columns(reference),
        _people_rows(document["cells"], reference),
    )
    for title, columns, rows in (
        ("not measured", ">n variant why", _skipped(document["cells"])),
        ("growth", "variant >time >stderr >from_n >lengths", _growth(document["fits"])),
        ("crossovers", "variant faster_than >from_n >95_%", _overtakings(document["crossovers"])),
        ("against the baseline", ">n variant >before >now >ratio", _changes(document.get("changes", ()))),
    ):
        if rows:
            yield _table(header, title, tuple(map(_column, columns.split())), rows)


def _table(
    header: Header, title: str, columns: tuple[Column, ...], rows: Sequence[Sequence[object]]
) -> Table:
    titled = Header(command=header.command, title=title, provenance=header.provenance)
    return Table(titled, columns, tuple(rows))


def _column(word: str) -> Column:
    """Make a column of a word: ``>`` before it stands for the right side, ``_`` for a space."""
    name = word.removeprefix(">").replace("_", " ")
    return Column(name, "time grows as" if name == "time" else None, right=word.startswith(">"))


def _skipped(cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    return [(f"{cell['seq_len']:,}", cell["variant"], _why(cell)) for cell in cells if not cell["rounds"]]


def _growth(fits: Sequence[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    return [
        (
            fit["variant"],
            f"n^{fit['exponent']:.2f}",
            f"± {fit['stderr']:.2f}",
            f"{fit['from_seq_len']:,}",
            fit["lengths"],
        )
        for fit in sorted(fits, key=lambda fit: float(fit["exponent"]))
    ]


def _overtakings(crossovers: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    return [
        (one["variant"], one["faster_than"], f"≈ {one['seq_len']:,.0f}", _interval(one["interval"]))
        for one in crossovers
    ]


def _interval(ends: Sequence[float | None]) -> str:
    return "–".join("…" if end is None else f"{end:,.0f}" for end in ends)


def _changes(changes: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    return [
        (
            f"{change['seq_len']:,}",
            change["variant"],
            human_seconds(change["before"]),
            human_seconds(change["now"]),
            f"{change['ratio']:.2f}",
        )
        for change in changes
    ]


def _people_columns(reference: str) -> tuple[Column, ...]:
    names = ("n", "time", "IQR", f"/{reference}", "95 %", "memory", "GFLOP/s", "error")
    columns = [Column(name, right=True) for name in names]
    return columns[0], Column("variant"), *columns[1:]


def _people_rows(cells: Sequence[Cell], reference: str) -> list[tuple[str, ...]]:
    timed = [cell for cell in cells if cell["median"] is not None]
    return [
        _people_row(cell, cell["variant"] == reference)
        for cell in sorted(timed, key=lambda cell: (int(cell["seq_len"]), float(cell["median"])))
    ]


def _people_row(cell: Cell, alone: bool) -> tuple[str, ...]:
    ratio, interval, error = cell["ratio"], cell["ratio_interval"], cell["max_abs_error"]
    return (
        str(cell["seq_len"]),
        cell["variant"],
        human_seconds(cell["median"]),
        f"{cell['iqr'] / cell['median']:.0%}",
        "" if ratio is None else ("1" if alone else ("≈" if cell["noise"] else "") + short_ratio(ratio)),
        "" if interval is None or alone else "–".join(map(short_ratio, interval)),
        "" if cell["peak_bytes"] is None else human_bytes(cell["peak_bytes"]),
        _speed(cell),
        "" if error is None else f"{error:.0e}".replace("e-0", "e-"),
    )


def human_seconds(seconds: float) -> str:
    """Return a time as people do.

    >>> human_seconds(0.00123), human_seconds(12.3), human_seconds(300), human_seconds(40000)
    ('1.23 ms', '12.3 s', '5 min', '11.1 h')
    """
    if seconds == 0:
        return "0 s"
    for limit, size, unit in ((1e-3, 1e-6, "µs"), (1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min")):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 3600:.3g} h"


def short_ratio(ratio: float) -> str:
    """Write a ratio in at most four characters, up to a thousand.

    >>> [short_ratio(ratio) for ratio in (0.0451, 0.567, 4.321, 43.21, 432.1)]
    ['.045', '0.57', '4.32', '43.2', '432']
    """
    if ratio < 0.0995:
        return f"{ratio:.3f}"[1:]
    return f"{ratio:.{2 if ratio < 9.995 else 1 if ratio < 99.95 else 0}f}"


def _speed(cell: Cell) -> str:
    if cell["flops_per_second"] is None:
        return ""
    billions = cell["flops_per_second"] / 1e9
    digits = 0 if billions >= 9.95 else 1
    return f"{billions:.{digits}f} {cell['peak_share']:.0%}"


def _why(cell: Cell) -> str:
    status, reason = str(cell["status"]), str(cell["reason"])
    return reason if status in ("too large", "too slow") else f"{status}: {reason}"


# For programs


def _data_row(cell: Cell) -> tuple[object, ...]:
    low, high = cell["ratio_interval"] or (None, None)
    values = {**cell, "ratio_low": low, "ratio_high": high}
    return tuple(values[name] for name in _DATA)


# For pictures


def _plots(document: Document) -> tuple[Plot, ...]:
    settings, peers = document["settings"], registry.entries("peers")
    grows = {fit["variant"]: f"n^{fit['exponent']:.2f}" for fit in document["fits"]}
    time, memory = [], []
    for name in settings["variants"]:
        cells = [cell for cell in document["cells"] if cell["variant"] == name and cell["rounds"]]
        quiet = name in peers
        if cells:
            time.append(_curve(name, cells, "median", grows.get(name, ""), quiet))
        sized = [cell for cell in cells if cell["peak_bytes"]]
        if sized:
            memory.append(_curve(name, sized, "peak_bytes", "", quiet))
    x_name, slopes = "sequence length n", (1, 2)
    plots = [Plot(f"{CLOCKS[settings['clock']]} of a call", "seconds", x_name, tuple(time), slopes)]
    if memory:
        title = "peak memory of a call, output included"
        plots.append(Plot(title, "bytes", x_name, tuple(memory), slopes))
    return tuple(plots)


def _curve(name: str, cells: Sequence[Cell], what: str, about: str, quiet: bool) -> Curve:
    x, y = (tuple(float(cell[key] or 0) for cell in cells) for key in ("seq_len", what))
    return Curve(name, x, y, about, quiet)
