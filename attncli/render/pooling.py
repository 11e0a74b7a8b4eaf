"""Makes large matrices fit a picture: pooled by maximum, since a mean washes sinks and diagonals away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attncli.view import Matrix

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORBIDDEN = -1.0
"""Stands for a pair that may not attend; below every weight, so that a maximum prefers any allowed pair."""


def cell_values(matrix: Matrix, unit: str) -> NDArray[np.float32]:
    """Give what to draw in each cell: a weight, NaN where it is undefined, `FORBIDDEN` where none may be."""
    import numpy as np

    allowed = matrix.values > 0 if unit == "mask" else matrix.allowed
    if allowed is None:
        return matrix.values
    return np.where(allowed, matrix.values, np.float32(FORBIDDEN))


def even_cuts(length: int, parts: int) -> list[int]:
    """Cut a length into parts as even as can be; give where each begins.

    >>> even_cuts(7, 3), even_cuts(2, 5)
    ([0, 2, 4], [0, 1])
    """
    parts = min(parts, length)
    return [part * length // parts for part in range(parts)]


def pool_max(values: NDArray[np.float32], rows: Sequence[int], columns: Sequence[int]) -> NDArray[np.float32]:
    """Shrink the last two axes to cells that begin at these rows and columns, each its largest value.

    An undefined number anywhere in a cell makes the cell undefined, so that none is hidden.
    """
    import numpy as np

    if len(rows) < values.shape[-2]:
        values = np.maximum.reduceat(values, rows, axis=-2)
    if len(columns) < values.shape[-1]:
        values = np.maximum.reduceat(values, columns, axis=-1)
    return values
