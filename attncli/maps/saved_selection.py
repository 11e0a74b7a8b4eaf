"""Picks layers, heads, rows and columns of a saved run, from what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncli.documents.numbers import filled
from attncli.errors import UsageError
from attncli.inputs.token_selection import pick
from attncli.maps.views import source_title, what_is_shown
from attncli.observers.selection import Selection, parse_heads
from attncli.record import Tokens
from attncli.view import NO_COLUMN, Matrix, MatrixGrid


def choose_heads(grid: MatrixGrid, layer: str, head: str) -> MatrixGrid:
    """Keep some layers and heads, in the order asked for, or their mean.

    Args:
        layer: As ``--layer``: ``3``, ``0,2,5-7``, ``-1`` (the last saved), ``all``, ``mean``. A range takes what is
            there of it.
        head: As ``--head``.

    Raises:
        UsageError: One that was asked for was not saved.
    """
    if (layer, head) == ("all", "all"):
        return grid
    layers, heads = parse_heads(layer, head)
    kept = _named(heads, grid.matrices) if heads.named else _in_layers(layers, heads, grid.matrices)
    matrices = tuple(grid.matrices[index] for index in kept)
    facts = tuple(grid.facts[index] for index in kept) if grid.facts else ()
    how = None if grid.pooled is None else grid.pooled.how
    wanted = {heads.merged, "mean" if layers.mean else ""} - {"", how}
    if how is not None and wanted:
        raise UsageError(
            f"the {min(wanted)} of heads or layers needs all weights, but only each cell's {how} was saved",
            f"save the run again, with the {min(wanted)} or with --pool {min(wanted)}",
        )
    if heads.merged and heads.named:
        matrices, facts = (
            _merged(matrices, lambda m: m.kind, heads.merged, ("layer", "head"), heads.label),
            (),
        )
    elif heads.merged:
        matrices, facts = _merged(matrices, lambda m: (m.kind, m.layer), heads.merged, ("head",)), ()
    if layers.mean:
        matrices, facts = _merged(matrices, lambda m: (m.kind, m.head), "mean", ("layer",)), ()
    return _retitled(replace(grid, matrices=matrices, facts=facts))


def _named(heads: Selection, matrices: Sequence[Matrix]) -> list[int]:
    """Return the places of heads that are named with their layers."""
    found = {(matrix.layer, matrix.head): index for index, matrix in enumerate(matrices)}
    for layer, head in heads.named:
        if (layer, head) not in found:
            raise UsageError(f"--head L{layer}H{head}: not in the run")
    order = list(dict.fromkeys(layer for layer, _ in heads.named))
    return [found[site] for site in sorted(heads.named, key=lambda site: order.index(site[0]))]


def _in_layers(layers: Selection, heads: Selection, matrices: Sequence[Matrix]) -> list[int]:
    """Return the places of some heads of some layers, in the order asked for."""
    order = places(layers, [m.layer for m in matrices])
    kept = [index for index, m in enumerate(matrices) if m.layer in order]
    kept.sort(key=lambda index: order[matrices[index].layer])
    order = places(heads, [matrices[index].head for index in kept])
    kept = [index for index in kept if matrices[index].head in order]
    # Sorting is stable: within a layer the heads come in their order, and the layers stay in theirs.
    return [
        index
        for _, same in groupby(kept, key=lambda index: matrices[index].layer)
        for index in sorted(same, key=lambda index: order[matrices[index].head])
    ]


def choose_tokens(grid: MatrixGrid, query: str | None, key: str | None) -> MatrixGrid:
    """Keep some rows and columns, by position or by text.

    Raises:
        UsageError: One that was asked for was not saved.
    """
    if query is None and key is None:
        return grid
    if grid.pooled is not None:
        option = "--key" if query is None else "--query"
        raise UsageError(f"{option}: this run is pooled: a cell is of many tokens", "leave it out")
    rows = _columns(grid.query_tokens, query, "query")
    columns = _columns(grid.key_tokens, key, "key")
    matrices = tuple(
        replace(
            m,
            values=m.values[np.ix_(rows, columns)],
            allowed=None if m.allowed is None else m.allowed[np.ix_(rows, columns)],
        )
        for m in grid.matrices
    )
    return replace(
        grid,
        matrices=matrices,
        query_tokens=tuple(grid.query_tokens[row] for row in rows),
        key_tokens=tuple(grid.key_tokens[column] for column in columns),
    )


def choose_top(grid: MatrixGrid, top: int) -> MatrixGrid:
    """List only the strongest keys of each row.

    Raises:
        UsageError: Fewer were saved.
    """
    if grid.top is not None and top > grid.top and holds_only_strongest(grid):
        raise UsageError(f"--top {top}: only the {grid.top} strongest keys of each row were saved")
    return replace(grid, top=top)


def holds_only_strongest(grid: MatrixGrid) -> bool:
    """Return whether just the strongest keys of each row were saved: the others are undefined."""
    return grid.top is not None and any(map(_lacks_keys, grid.matrices))


def fill(grid: MatrixGrid) -> MatrixGrid:
    """Fill matrices of which only the strongest keys were saved; what is not known is NaN."""
    return replace(grid, matrices=tuple(map(filled, grid.matrices)))


def places(selection: Selection, saved: Sequence[int | str | None]) -> dict[int | str | None, int]:
    """Return each saved layer (or head) that is chosen its place in the order asked for.

    Raises:
        UsageError: One was not saved.
    """
    have = list(dict.fromkeys(saved))
    if selection.ranges is None:
        return {index: rank for rank, index in enumerate(have)}
    numbers = [index for index in have if isinstance(index, int)]
    if not numbers:
        only = next((f"their {how}" for how in ("mean", "max") if how in have), "none")
        raise UsageError(f"--{selection.what}: the run has no single {selection.what}s ({only} was saved)")
    chosen: dict[int | str | None, int] = {}
    for first, last in selection.ranges:
        for index in _in_range(first, last, numbers, selection.what):
            chosen.setdefault(index, len(chosen))
    return chosen


def _lacks_keys(matrix: Matrix) -> bool:
    if matrix.listed is None:
        return bool(np.isnan(matrix.values).any())
    listed = (matrix.listed.columns != NO_COLUMN).sum(axis=1).tolist()
    spans = matrix.listed.spans
    may = [matrix.listed.width] * len(listed) if spans is None else [_length(runs) for runs in spans]
    return any(count < most for count, most in zip(listed, may, strict=True))


def _length(runs: NDArray[np.integer[Any]]) -> int:
    return int((runs[:, 1] - runs[:, 0] + 1).sum())


def _in_range(first: int, last: int, numbers: Sequence[int], what: str) -> list[int]:
    """Return what was saved between two ends, the way the ends run; negative ends count back from the last saved."""
    ends = [end if end >= 0 else 1 + max(numbers) + end for end in (first, last)]
    found = sorted(index for index in numbers if min(ends) <= index <= max(ends))
    if not found:
        named = str(first) if first == last else f"{first}-{last}"
        raise UsageError(f"--{what} {named}: not in the run", f"saved {what}s: {_listed(numbers)}")
    return found if ends[0] <= ends[1] else found[::-1]


def _columns(tokens: Tokens, spec: str | None, what: str) -> list[int]:
    """Return the places of the tokens that are named, in the order named."""
    if spec is None:
        return list(range(len(tokens)))
    places = {token.position: place for place, token in reversed(list(enumerate(tokens)))}
    named = pick(tuple(sorted(tokens, key=lambda token: token.position)), spec)
    found = [places[position] for position in named if position in places]
    if not found:
        raise UsageError(f"--{what} {spec}: not in the run", f"saved positions: {_listed(places)}")
    return found


def _merged(
    matrices: Sequence[Matrix],
    same: Callable[[Matrix], object],
    how: str,
    over: Sequence[str],
    label: str | None = None,
) -> tuple[Matrix, ...]:
    """Take the mean, or the largest, of matrices that are alike but for their head, or their layer.

    Args:
        over: What they differ in.
        label: What to call the result.
    """
    groups: dict[object, list[Matrix]] = {}
    for matrix in matrices:
        groups.setdefault(same(matrix), []).append(matrix)
    if over == ("layer",) and len({len(group) for group in groups.values()}) > 1:
        raise UsageError("layers differ in their heads, so there is no mean over layers", "add --head mean")
    return tuple(replace(_one(group, how, over), label=label) for group in groups.values())


def _one(group: Sequence[Matrix], how: str, over: Sequence[str]) -> Matrix:
    stacked = np.stack([m.values for m in group])
    values = stacked.mean(axis=0) if how == "mean" else stacked.max(axis=0)
    masks = [m.allowed for m in group if m.allowed is not None]
    allowed = np.logical_or.reduce(masks) if len(masks) == len(group) else None
    changed: dict[str, Any] = dict.fromkeys(over, how)
    if len({m.layer for m in group}) == 1 and "head" in over:
        changed["layer"] = group[0].layer
    kv_head = None if "head" in over else group[0].kv_head
    return replace(group[0], values=values, allowed=allowed, kv_head=kv_head, **changed)


def _retitled(grid: MatrixGrid) -> MatrixGrid:
    """Name in the title the weights that are left."""
    header, kind = grid.header, grid.matrices[0].kind
    if header.command != "show" or header.source is None or kind is None:
        return grid
    title = f"{source_title(header.source)} · {what_is_shown(grid.matrices, kind)}"
    return replace(grid, header=replace(header, title=title))


def _listed(numbers: Iterable[int]) -> str:
    """Name whole numbers, runs of them by their ends: ``0-5, 8``."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
