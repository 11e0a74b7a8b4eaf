"""Prints what was measured beside what was promised, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement.

    Args:
        bar: What it may be at most; None where nothing is promised.
        interval: 95 %, where there is one.
        unit: Behind the numbers.
    """

    name: str
    at: str
    value: float | None
    bar: float | None = None
    interval: tuple[float, float] | None = None
    unit: str = "×"
    why: str = ""


def print_table(title: str, names: Sequence[str], rows: Iterable[Row]) -> None:
    """Print a table with a verdict in each row."""
    print(f"\n**{title}**\n")
    print(f"| {names[0]} | {names[1]} | measured | 95 % | bar | |")
    print("| --- | --- | ---: | ---: | ---: | --- |")
    for row in rows:
        measured = f"{row.value:.3g}{row.unit}" if row.value is not None else f"– {row.why}"
        interval = "–".join(f"{end:.3g}" for end in row.interval) if row.interval else ""
        bar = "" if row.bar is None else f"≤ {row.bar:g}{row.unit}"
        print(f"| {row.name} | {row.at} | {measured} | {interval} | {bar} | {verdict(row)} |", flush=True)


def verdict(row: Row) -> str:
    """Say whether a promise is kept."""
    if row.bar is None:
        return ""
    return "pass" if row.value is not None and row.value <= row.bar else "**miss**"
