"""Where each of many matrices stands in a picture: by layer and head, or one after another as they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attncli.render.grid_text import short_names
from attncli.view import Matrix


@dataclass(frozen=True, slots=True)
class Place:
    """One matrix's place: its number in the grid, its row and column in the picture, its name there."""

    index: int
    row: int
    column: int
    name: str


def arrange(matrices: Sequence[Matrix], columns: Callable[[int, int], int]) -> list[Place]:
    """Lay matrices out, layers down and heads across, each kind below the last.

    Matrices with labels, one head of many layers, and a choice of heads that would leave most places empty, go
    one after another; those that belong to the same head stand side by side.

    Args:
        columns: How many stand side by side of so many a line in so many lines.
    """
    names = short_names(matrices)
    kinds = list(dict.fromkeys(matrix.kind for matrix in matrices))
    places: list[Place] = []
    for kind in kinds:
        members = [index for index, matrix in enumerate(matrices) if matrix.kind == kind]
        first = 1 + max((place.row for place in places), default=-1)
        prefix = f"{kind} " if len(kinds) > 1 and kind else ""
        laid = by_layer_and_head(matrices, members)
        if laid is None:
            of_head = _alike([matrices[index] for index in members])
            across = of_head or columns(len(members), 1)
            laid = {index: divmod(number, across) for number, index in enumerate(members)}
        else:
            lines, each = (1 + max(place) for place in zip(*laid.values(), strict=True))
            across = columns(each, lines)
            folds = -(-each // across)
            laid = {
                index: (row * folds + column // across, column % across)
                for index, (row, column) in laid.items()
            }
        for index, (row, column) in laid.items():
            places.append(Place(index, first + row, column, prefix + names[index]))
    return places


def _alike(matrices: Sequence[Matrix]) -> int:
    """Return how many labelled matrices each head has, where all have as many and more than one; 0 otherwise."""
    counts = Counter((matrix.layer, matrix.head) for matrix in matrices)
    same = len(set(counts.values())) == 1 and len(counts) < len(matrices) and labelled(matrices)
    return next(iter(counts.values())) if same and all(layer is not None for layer, _ in counts) else 0


def by_layer_and_head(
    matrices: Sequence[Matrix], members: Sequence[int]
) -> dict[int, tuple[int, int]] | None:
    """Return each matrix the row of its layer and the column of its head; None where that is no good layout."""
    if labelled([matrices[index] for index in members]):
        return None
    layers = list(dict.fromkeys(matrices[index].layer for index in members))
    heads = list(dict.fromkeys(matrices[index].head for index in members))
    laid = {
        index: (layers.index(matrices[index].layer), heads.index(matrices[index].head)) for index in members
    }
    distinct = len(set(laid.values())) == len(members)
    crowded = 2 * len(members) > len(layers) * len(heads)
    return laid if distinct and crowded and len(heads) > 1 else None


def labelled(matrices: Sequence[Matrix]) -> bool:
    """Return whether matrices go by labels rather than by layer and head."""
    return any(matrix.label is not None for matrix in matrices)
