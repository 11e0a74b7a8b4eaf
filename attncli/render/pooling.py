"""Makes large matrices fit a picture: pooled by maximum, since a mean washes sinks and diagonals away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attncli.view import Matrix

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
    """Give what to draw of a matrix."""
    return Field(matrix.values, matrix.values > 0 if unit == "mask" else matrix.allowed)


def stacked(matrices: Sequence[Matrix], unit: str) -> Field:
    """Give what to draw of several matrices, ``(matrices, rows, columns)``."""
    import numpy as np

    fields = [field_of(matrix, unit) for matrix in matrices]
    values = np.stack([field.values for field in fields])
    if all(field.allowed is None for field in fields):
        return Field(values)
    everywhere = np.ones(values.shape[1:], np.bool_)
    return Field(
        values, np.stack([everywhere if field.allowed is None else field.allowed for field in fields])
    )


def even_cuts(length: int, parts: int) -> list[int]:
    """Cut a length into parts as even as can be; give where each begins.

    >>> even_cuts(7, 3), even_cuts(2, 5)
    ([0, 2, 4], [0, 1])
    """
    parts = min(parts, length)
    return [part * length // parts for part in range(parts)]


def pool(field: Field, rows: Sequence[int], columns: Sequence[int]) -> Field:
    """Shrink the last two axes to cells that begin at these rows and columns.

    Each shows what is largest in absolute value of its allowed numbers, with its sign; of ``-x`` and ``x`` the
    latter. It may attend where any pair in it may. An undefined number makes it undefined, so that none is hidden.
    """
    import numpy as np

    values, allowed = field.values, field.allowed
    if (len(rows), len(columns)) == values.shape[-2:]:
        return field
    shown = values if allowed is None else np.where(allowed, values, np.float32(0))
    high = _reduce(np.maximum, shown, rows, columns)
    low = _reduce(np.minimum, shown, rows, columns)
    pooled = np.where(high >= -low, high, low)
    return Field(pooled, None if allowed is None else _reduce(np.logical_or, allowed, rows, columns))


def _reduce(
    operation: np.ufunc, array: NDArray[Any], rows: Sequence[int], columns: Sequence[int]
) -> NDArray[Any]:
    if len(rows) < array.shape[-2]:
        array = operation.reduceat(array, rows, axis=-2)
    if len(columns) < array.shape[-1]:
        array = operation.reduceat(array, columns, axis=-1)
    return array
