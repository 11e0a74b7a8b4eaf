"""From the document of ``find`` to what is shown of it: table, map, rows. Without torch, as for saved ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attncli.find.ranked_heads import FEW, LAYER, Head, head_maps, head_name, how_many, where
from attncli.view import Column, Header, HeadMap, HeadRanking, Table

Document = Mapping[str, Any]

LINK = ("weight", "average", "excess", "ratio", "place")
"""The numbers of a head that links two words."""

SHARE = ("mean", "low", "high", "hits", "rows")
"""The numbers of how often an answer was right."""


def found_of(document: Document, header: Header) -> HeadRanking:
    """Make the view of what ``find`` found.

    Args:
        document: The keys of its JSON document, besides those that all documents have.
    """
    form = _FORMS.get(document["by"], _OF_WORDS)
    heads = document["heads"]
    maps = tuple(map(_map, document["maps"])) if "maps" in document else head_maps(_values(document))
    count = sum(int(np.isfinite(map_.values).sum()) for map_ in maps)
    shown = heads if document.get("top") is not None else heads[:FEW]
    title = how_many(len(shown), max(count, len(heads)), document["by"])
    people = Table(
        replace(header, title=title, notes=()),
        form.columns,
        tuple(
            (rank, head_name(_head(head)), *form.cells(head, document)) for rank, head in enumerate(shown, 1)
        ),
    )
    data = Table(
        header,
        (*LAYER, *map(Column, form.names)),
        tuple((*_head(head), *form.numbers(head["metrics"])) for head in heads),
        "heads",
    )
    tables = (people, *(() if form.beside is None else (form.beside(document, header),)))
    return HeadRanking(header, Column(document["by"]), maps, tables, data, document)


@dataclass(frozen=True)
class _Form:
    """How one kind of answer is shown.

    Args:
        columns: For people; `cells` after rank and head.
        names: For programs; `numbers` after kind, layer and head.
        beside: What the best head is held against.
    """

    columns: tuple[Column, ...]
    cells: Callable[[Document, Document], tuple[object, ...]]
    names: tuple[str, ...]
    numbers: Callable[[Document], tuple[object, ...]]
    beside: Callable[[Document, Header], Table] | None = None


def map_entry(map_: HeadMap) -> dict[str, object]:
    """Return a map for the JSON document."""
    return {"kind": map_.kind, "layers": map_.layers, "heads": map_.heads, "values": list(map_.values)}


def _map(entry: Document) -> HeadMap:
    values = np.array(
        [[np.nan if value is None else value for value in row] for row in entry["values"]], np.float32
    )
    return HeadMap(entry["kind"], tuple(entry["layers"]), tuple(entry["heads"]), values)


def _values(document: Document) -> dict[Head, float | None]:
    """Return what heads are ranked by, where no map says it of those that are not listed too."""
    by = document["by"]
    return {
        _head(head): head["metrics"]["accuracy"]["mean"] if by == "accuracy" else head["metrics"][by]
        for head in document["heads"]
    }


def _head(head: Document) -> Head:
    return head["kind"], head["layer"], head["head"]


# Two words of a text

_LINK_COLUMNS = (
    Column("rank"),
    Column("head"),
    Column("weight"),
    Column("average"),
    Column("excess"),
    Column("ratio", digits=1),
    Column("place", right=True),
)


def _link_cells(head: Document, document: Document) -> tuple[object, ...]:
    *numbers, place = _link(head["metrics"])
    return *numbers, f"{place} of {1 + document['searched']['rivals']}"


def _link(metrics: Document) -> tuple[object, ...]:
    """Return a head's numbers in as many digits as the weights after them have."""
    short = (None if metrics[name] is None else np.float32(metrics[name]) for name in LINK[:-1])
    return *short, metrics["place"]


# Labelled pairs

_PAIR_COLUMNS = (
    Column("rank"),
    Column("head"),
    Column("right", right=True),
    Column("accuracy"),
    Column("interval", "95 % interval", right=True),
    Column("above_offset"),
)


def _pair_cells(head: Document, document: Document) -> tuple[object, ...]:
    share = head["metrics"]["accuracy"]
    return *_share_cells(share), share["mean"] - document["offset"]["mean"]


def _share(share: Document) -> tuple[object, ...]:
    return tuple(share[name] for name in SHARE)


def _share_cells(share: Document) -> tuple[str, float, str]:
    return f"{share['hits']}/{share['rows']}", share["mean"], f"{share['low']:.3f}–{share['high']:.3f}"


def _comparison(document: Document, header: Header) -> Table:
    """Put the best head beside the best constant offset, on all texts and on those that had no say."""
    best, offset, held = document["heads"][0], document["offset"], document["held_out"]
    rows = [
        ("all", f"best head, {head_name(_head(best))}", best["metrics"]["accuracy"]),
        ("all", f"best offset, {where(offset['offset'])}", offset),
    ]
    if held is not None:
        rows += [
            ("held out", f"head, {head_name(_head(held))}", held["scored"]),
            ("held out", f"offset, {where(held['offset']['offset'])}", held["offset"]),
        ]
    columns = (
        Column("texts"),
        Column("answer"),
        Column("right", right=True),
        Column("accuracy"),
        Column("interval", "95 % interval", right=True),
    )
    header = replace(header, title="The best head beside the best constant answer", notes=())
    return Table(header, columns, tuple((texts, what, *_share_cells(share)) for texts, what, share in rows))


# Gold alignments

ALIGNED = ("aer", "precision", "recall", "links")
"""The numbers of how far links agree with gold ones."""


def _aligned_cells(head: Document, document: Document) -> tuple[object, ...]:
    found = head["metrics"]
    return *(found[name] for name in ALIGNED), document["diagonal"]["aer"] - found["aer"]


def _beside_diagonal(document: Document, header: Header) -> Table:
    best = document["heads"][0]
    answers = {f"best head, {head_name(_head(best))}": best["metrics"], "the diagonal": document["diagonal"]}
    columns = (Column("answer"), *map(Column, ALIGNED))
    rows = tuple((answer, *(found[name] for name in ALIGNED)) for answer, found in answers.items())
    return Table(replace(header, title="The best head beside the diagonal", notes=()), columns, rows)


_OF_WORDS = _Form(_LINK_COLUMNS, _link_cells, LINK, _link)
_FORMS = {
    "accuracy": _Form(
        _PAIR_COLUMNS,
        _pair_cells,
        ("accuracy", "low", "high", "hits", "pairs"),
        lambda metrics: _share(metrics["accuracy"]),
        _comparison,
    ),
    "aer": _Form(
        (Column("rank"), Column("head"), *map(Column, ALIGNED), Column("below_diagonal")),
        _aligned_cells,
        ALIGNED,
        lambda metrics: tuple(metrics[name] for name in ALIGNED),
        _beside_diagonal,
    ),
}
