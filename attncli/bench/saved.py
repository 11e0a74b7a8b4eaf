"""A saved benchmark, read back into its tables and plots."""

from __future__ import annotations

from attncli.bench.views import CLOCKS, curves_of
from attncli.documents.fields import Fields
from attncli.view import Curves, Header

_NUMBERS = (
    "iqr",
    "peak_bytes",
    "predicted_bytes",
    "flops",
    "flops_per_second",
    "peak_share",
    "max_abs_error",
)


def read_view(document: Fields, header: Header) -> Curves:
    """Make the view that a benchmark's document was written from.

    Raises:
        ReadError: Something in it is not as it should be.
    """
    settings = document.part("settings")
    settings.get("reference", str)
    settings.choice("clock", tuple(CLOCKS))
    settings.get("variants", dict)
    for cell in document.parts("cells"):
        _check_cell(cell)
    for fit in document.parts("fits"):
        _check(fit, texts=("variant",), counts=("from_seq_len", "lengths"), numbers=("exponent", "stderr"))
    for crossover in document.parts("crossovers"):
        _check(crossover, texts=("variant", "faster_than"), numbers=("seq_len",))
        _check_interval(crossover, "interval", open_ends=True)
    if "changes" in document.values:
        for change in document.parts("changes"):
            _check(change, texts=("variant",), counts=("seq_len",), numbers=("before", "now", "ratio"))
    return curves_of(document.body, header)


def _check_cell(cell: Fields) -> None:
    _check(cell, texts=("variant", "status", "clock", "reason"), counts=("seq_len", "rounds"))
    cell.get("noise", bool)
    for name in ("median", "ratio", *_NUMBERS):
        cell.number(name)
        if name not in cell.values:
            raise cell.wrong(name, "is missing")
    if cell.values["rounds"] and not (cell.number("median") and cell.number("iqr") is not None):
        raise cell.wrong("median", "is missing, though there were rounds")
    if cell.values["flops_per_second"] is not None and cell.values["peak_share"] is None:
        raise cell.wrong("peak_share", "is missing")
    if cell.values.get("ratio_interval") is not None:
        _check_interval(cell, "ratio_interval")
    elif "ratio_interval" not in cell.values:
        raise cell.wrong("ratio_interval", "is missing")


def _check(
    fields: Fields, texts: tuple[str, ...] = (), counts: tuple[str, ...] = (), numbers: tuple[str, ...] = ()
) -> None:
    for name in texts:
        fields.get(name, str)
    for name in counts:
        fields.get(name, int)
        fields.count(name)
    for name in numbers:
        if name != "exponent" and fields.number(name) is None:
            raise fields.wrong(name, "is missing")
        fields.get(name, float if isinstance(fields.values.get(name), float) else int)


def _check_interval(fields: Fields, key: str, *, open_ends: bool = False) -> None:
    ends = fields.get(key, list)
    if len(ends) != 2:
        raise fields.wrong(key, "is no pair of numbers")
    pair = Fields({"low": ends[0], "high": ends[1]}, fields.file, f"{fields.path}{key}.")
    if None in (pair.number("low"), pair.number("high")) and not open_ends:
        raise fields.wrong(key, "is no pair of numbers")
