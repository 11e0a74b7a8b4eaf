"""What ``find`` found, read back into its table and map."""

from __future__ import annotations

from attncli.documents.fields import Fields
from attncli.find.document import ALIGNED, LINK, SHARE, found_of
from attncli.record import KINDS
from attncli.view import Header, HeadRanking


def read_view(document: Fields, header: Header) -> HeadRanking:
    """Make the view that a document of ``find`` was written from.

    Raises:
        ReadError: Something in it is not as it should be.
    """
    by = document.choice("by", ("excess", "weight", "accuracy", "aer"))
    heads = document.parts("heads")
    if not heads:
        raise document.wrong("heads", "is empty: there is nothing to draw")
    for head in heads:
        _check_site(head)
        check = {"accuracy": _check_share, "aer": _check_aligned}.get(by, _check_link)
        check(head.part("metrics"), "accuracy")
    if by == "accuracy":
        _check_pairs(document)
    elif by == "aer":
        _check_aligned(document.part("diagonal"), "diagonal")
    else:
        _require(document.part("searched"), "rivals")
    for entry in document.parts("maps") if "maps" in document.values else ():
        _check_map(entry)
    document.count("top")
    return found_of(document.body, header)


def _check_site(fields: Fields) -> None:
    fields.choice("kind", KINDS)
    _require(fields, "layer", "head")


def _require(fields: Fields, *counts: str) -> None:
    for name in counts:
        fields.get(name, int)
        fields.count(name)


def _check_link(metrics: Fields, _: str) -> None:
    _require(metrics, "place")
    for name in LINK[:-1]:
        metrics.real(name)
        if name not in metrics.values or (name == "weight" and metrics.values[name] is None):
            raise metrics.wrong(name, "is missing")


def _check_aligned(metrics: Fields, _: str) -> None:
    _require(metrics, "links")
    for name in ALIGNED[:-1]:
        if metrics.real(name) is None:
            raise metrics.wrong(name, "is missing")


def _check_share(metrics: Fields, name: str) -> None:
    share = metrics.part(name)
    for number in SHARE[:3]:
        if share.number(number) is None:
            raise share.wrong(number, "is missing")
    _require(share, *SHARE[3:])


def _check_pairs(document: Fields) -> None:
    _check_offset(document)
    if "held_out" not in document.values:
        raise document.wrong("held_out", "is missing")
    if document.maybe("held_out", dict) is not None:
        held = document.part("held_out")
        _check_site(held)
        _check_share(held, "scored")
        _check_offset(held)


def _check_offset(fields: Fields) -> None:
    _check_share(fields, "offset")
    fields.part("offset").get("offset", int)


def _check_map(entry: Fields) -> None:
    entry.choice("kind", KINDS)
    rows, columns = len(entry.counts("layers")), len(entry.counts("heads"))
    values = entry.get("values", list)
    if len(values) != rows or any(not isinstance(row, list) or len(row) != columns for row in values):
        raise entry.wrong("values", f"is no table of {rows} rows and {columns} columns")
    for row, numbers in enumerate(values):
        named = {str(column): value for column, value in enumerate(numbers)}
        for column in named:
            Fields(named, entry.file, f"{entry.path}values[{row}].").real(column)
