"""From the document of ``diff`` to what is shown of it: table, map, rows. Without torch, as for saved runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from attncli.documents.checked import body_of, checked, damaged, header_of
from attncli.documents.forms.diff import Differences, DifferentHead
from attncli.view import Column, Header, HeadMap, HeadRanking, Table

FEW = 10
"""So many heads stand in a table for people."""

_COLUMNS = {
    "distance": Column("distance", "Jensen–Shannon distance"),
    "divergence": Column("divergence", "Jensen–Shannon divergence", "bits"),
    "max_abs": Column("max_abs", "largest difference of a weight"),
}
_NUMBERS = ("distance", "divergence", "max_abs", "rows", "stderr", "baseline")


def read_view(parsed: Mapping[str, Any], name: str) -> HeadRanking:
    """Make the view that a document of ``diff`` was written from.

    Raises:
        ReadError: Something in it is not as it should be.
    """
    document = checked(parsed, Differences, name)
    for place, entry in enumerate(document["maps"]):
        if [len(row) for row in entry["values"]] != [len(entry["heads"])] * len(entry["layers"]):
            raise damaged(name, f"maps[{place}].values", "is no table of its layers and heads")
    return ranking_of(body_of(parsed), header_of(document))


def ranking_of(document: Mapping[str, Any], header: Header) -> HeadRanking:
    """Make the view of ranked heads.

    Args:
        document: The keys of its JSON document, besides those that all documents have.
    """
    heads = cast(list[DifferentHead], document["heads"])
    maps = tuple(
        HeadMap(
            entry["kind"],
            tuple(entry["layers"]),
            tuple(entry["heads"]),
            np.array(
                [[np.nan if one is None else one for one in row] for row in entry["values"]], np.float32
            ),
        )
        for entry in document["maps"]
    )
    count = max(sum(int(np.isfinite(one.values).sum()) for one in maps), len(heads))
    shown = heads if document.get("top") is not None else heads[:FEW]
    people = _people(shown, count, document, header)
    return HeadRanking(header, _COLUMNS[document["by"]], maps, (people,), _data(heads, header), document)


def _people(heads: list[DifferentHead], count: int, document: Mapping[str, Any], header: Header) -> Table:
    over_corpus = document["corpus"]["texts"] > 1
    columns = [Column("rank"), Column("head"), Column("distance"), Column("max_abs", "largest difference")]
    if over_corpus:
        columns += [Column("stderr"), Column("baseline")]
    else:
        columns += [Column("row", "at row"), Column("there", "distance there")]
    rows = []
    for rank, head in enumerate(heads, 1):
        metrics, largest = head["metrics"], head.get("largest_row")
        last: tuple[object, ...] = (metrics["stderr"], metrics["baseline"])
        if not over_corpus:
            last = (None, None) if largest is None else (largest["label"], largest["distance"])
        rows.append((rank, _name(head), metrics["distance"], metrics["max_abs"], *last))
    which = f"All {count} heads" if len(rows) == count else f"The first {len(rows)} of {count} heads"
    title = f"{which}, by {document['by'].replace('_', ' ')}"
    return Table(replace(header, title=title, notes=()), tuple(columns), tuple(rows))


def _name(head: DifferentHead) -> str:
    name = f"L{head['layer']}H{head['head']}"
    other = head["other"]
    if (other["layer"], other["head"]) == (head["layer"], head["head"]):
        return name
    return f"{name} / L{other['layer']}H{other['head']}"


def _data(heads: list[DifferentHead], header: Header) -> Table:
    names = ("kind", "layer", "head", "other_layer", "other_head", *_NUMBERS, "row", "row_distance")
    rows = []
    for head in heads:
        largest = head.get("largest_row")
        numbers = cast(Mapping[str, object], head["metrics"])
        rows.append(
            (
                *(head["kind"], head["layer"], head["head"], head["other"]["layer"], head["other"]["head"]),
                *(numbers[name] for name in _NUMBERS),
                *((None, None) if largest is None else (largest["position"], largest["distance"])),
            )
        )
    return Table(header, tuple(map(Column, names)), tuple(rows), "heads")
