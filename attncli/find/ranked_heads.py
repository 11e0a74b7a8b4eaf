"""What views of ranked heads have in common: names, maps, objects of the JSON document, and how to see the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from attncli.record import Provenance, Run
from attncli.view import Column, Header, HeadMap

Head = tuple[str, int, int]
"""Kind, layer and head."""

FEW = 10
"""So many heads stand in a table for people."""

WORDS_RULE = "words: weights on a word's tokens are summed, those of its rows averaged"

LAYER = (Column("kind"), Column("layer"), Column("head"))


def found_header(run: Run, made: Provenance, title: str, notes: Sequence[str]) -> Header:
    """Head a view of ``find``; what the run has to say comes first."""
    return Header(command="find", title=title, provenance=made, source=run.source, notes=(*run.notes, *notes))


def head_name(head: Head) -> str:
    """Name a head: ``L4H7``."""
    return f"L{head[1]}H{head[2]}"


def head_entry(head: Head, metrics: Mapping[str, object]) -> dict[str, object]:
    """Return a head's object in the JSON document."""
    kind, layer, number = head
    return {"kind": kind, "layer": layer, "head": number, "metrics": metrics, "labels": []}


def command_note(command: str, best: Head) -> str:
    """Return which head is first, and how to see it."""
    return f"{head_name(best)} is first; to see it: {command} --layer {best[1]} --head {best[2]} --words"


def head_maps(values: Mapping[Head, float | None]) -> tuple[HeadMap, ...]:
    """Lay numbers out by layer and head."""
    maps = []
    for kind in dict.fromkeys(kind for kind, _, _ in values):
        layers = sorted({layer for its, layer, _ in values if its == kind})
        heads = sorted({head for its, _, head in values if its == kind})
        grid = [[values.get((kind, layer, head)) for head in heads] for layer in layers]
        numbers = np.array([[np.nan if v is None else v for v in row] for row in grid], np.float32)
        maps.append(HeadMap(kind, tuple(layers), tuple(heads), numbers))
    return tuple(maps)


def how_many(shown: int, count: int, metric: str) -> str:
    """Return how many heads a table has."""
    return f"{'All' if shown == count else f'The first {shown} of'} {count} heads, by {metric}"


def where(distance: int) -> str:
    """Return a distance.

    >>> where(-7), where(1)
    ('7 words before', '1 word after')
    """
    size = abs(distance)
    if not size:
        return "at the place of"
    return f"{size} word{'s' if size > 1 else ''} {'before' if distance < 0 else 'after'}"
