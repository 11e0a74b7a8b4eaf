"""Makes large matrices fit a picture: pooled by maximum, since a mean washes sinks and diagonals away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from attncli.axis_cells import SIDE, cell_tokens, even_cuts
from attncli.view import Matrix, MatrixGrid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BAND = 2**22
"""So many numbers are pooled at once: copies of more would cost as much memory as the matrix."""


@dataclass(frozen=True, slots=True)
class Field:
    """What to draw: a number in each cell, and which cells have one.

    Args:
        values: ``(…, rows, columns)``; NaN or infinite where undefined.
        allowed: Of the same shape; a cell that may not attend has no number, whatever `values` holds there.
    """

    values: NDArray[np.float32]
    allowed: NDArray[np.bool_] | None = None


def field_of(matrix: Matrix, unit: str) -> Field:
    """Return what to draw of a matrix."""
    return Field(matrix.values, matrix.values > 0 if unit == "mask" else matrix.allowed)


def pooled_fields(
    matrices: Sequence[Matrix], unit: str, rows: Sequence[int], columns: Sequence[int]
) -> Field:
    """Return what to draw of several matrices, each pooled by itself: ``(matrices, rows, columns)``."""
    import numpy as np

    fields = [pool(field_of(matrix, unit), rows, columns) for matrix in matrices]
    values = np.stack([field.values for field in fields])
    if all(field.allowed is None for field in fields):
        return Field(values)
    everywhere = np.ones(values.shape[1:], np.bool_)
    return Field(
        values, np.stack([everywhere if field.allowed is None else field.allowed for field in fields])
    )


def size_text(grid: MatrixGrid) -> str:
    """Return how many tokens the matrices are of.

    >>> from attncli.view import Pooling
    >>> size_text(MatrixGrid(None, (), (), (), pooled=Pooling("max", 8000, 8000)))
    '8,000×8,000'
    """
    if grid.pooled is None:
        return f"{len(grid.query_tokens)}×{len(grid.key_tokens)}"
    return f"{grid.pooled.queries:,}×{grid.pooled.keys:,}"


def shown_size(grid: MatrixGrid, rows: int, columns: int, how: str) -> str:
    """Return how many tokens a drawing of fewer cells shows, and how they were pooled: maybe once already.

    >>> from attncli.view import Pooling
    >>> shown_size(MatrixGrid(None, (), (), (), pooled=Pooling("mean", 8000, 8000)), 37, 74, "max")
    'pooled by mean, then by max: 37×74 cells show 8,000×8,000'
    """
    before = "" if grid.pooled is None or grid.pooled.how == how else f"{grid.pooled.how}, then by "
    return f"pooled by {before}{how}: {rows}×{columns} cells show {size_text(grid)}"


def fit_to_draw(grid: MatrixGrid) -> MatrixGrid:
    """Pool a grid of more than `SIDE` rows or columns, and say so in a note; return any other as it is."""
    rows, columns = len(grid.query_tokens), len(grid.key_tokens)
    if max(rows, columns) <= SIDE:
        return grid
    starts = even_cuts(rows, SIDE), even_cuts(columns, SIDE)
    how = "largest absolute value" if grid.unit == "signed" else "max"
    size = shown_size(grid, len(starts[0]), len(starts[1]), how)
    header = replace(
        grid.header, notes=(*grid.header.notes, f"{size} tokens; a label is its cell's first position")
    )
    return replace(
        grid,
        header=header,
        matrices=tuple(_pooled(matrix, grid.unit, *starts) for matrix in grid.matrices),
        query_tokens=cell_tokens(grid.query_tokens, starts[0]) if rows > SIDE else grid.query_tokens,
        key_tokens=cell_tokens(grid.key_tokens, starts[1]) if columns > SIDE else grid.key_tokens,
    )


def _pooled(matrix: Matrix, unit: str, rows: Sequence[int], columns: Sequence[int]) -> Matrix:
    field = pool(field_of(matrix, unit), rows, columns)
    return replace(matrix, values=field.values, allowed=field.allowed)


def pool(field: Field, rows: Sequence[int], columns: Sequence[int]) -> Field:
    """Shrink the last two axes to cells that begin at these rows and columns, the first of which are 0.

    Each shows what is largest in absolute value of its allowed numbers, with its sign; of ``-x`` and ``x`` the
    latter. It may attend where any pair in it may. An undefined number makes it undefined, so that none is hidden.
    """
    import numpy as np

    values, allowed = field.values, field.allowed
    if (len(rows), len(columns)) == values.shape[-2:]:
        return field
    cells = max(1, _BAND * len(rows) // max(values.size, 1))
    ends = [*rows[cells::cells], values.shape[-2]]
    bands = [
        _pool_band(values, allowed, rows[first : first + cells], stop, columns)
        for first, stop in zip(range(0, len(rows), cells), ends, strict=True)
    ]
    joined = np.concatenate([band.values for band in bands], axis=-2)
    masks = [band.allowed for band in bands if band.allowed is not None]
    return Field(joined, np.concatenate(masks, axis=-2) if masks else None)


def _pool_band(
    values: NDArray[np.float32],
    allowed: NDArray[np.bool_] | None,
    rows: Sequence[int],
    stop: int,
    columns: Sequence[int],
) -> Field:
    """Shrink the rows from the first of `rows` up to `stop`."""
    import numpy as np

    starts = [row - rows[0] for row in rows]
    shown = values[..., rows[0] : stop, :]
    if allowed is not None:
        allowed = allowed[..., rows[0] : stop, :]
        shown = np.where(allowed, shown, np.float32(0))
        allowed = _reduce(np.logical_or, allowed, starts, columns)
    high = _reduce(np.maximum, shown, starts, columns)
    low = _reduce(np.minimum, shown, starts, columns)
    return Field(np.where(high >= -low, high, low), allowed)


def _reduce(
    operation: np.ufunc, array: NDArray[Any], rows: Sequence[int], columns: Sequence[int]
) -> NDArray[Any]:
    if len(rows) < array.shape[-2]:
        array = operation.reduceat(array, rows, axis=-2)
    if len(columns) < array.shape[-1]:
        array = operation.reduceat(array, columns, axis=-1)
    return array
