"""A word alignment in one line: ``0-0 1-2``, the source word before the target word."""

from __future__ import annotations

from collections.abc import Iterator

from attncli.registry import Entry
from attncli.render import Options
from attncli.render.grid_text import require_grid
from attncli.view import Matrix, View

ENTRY = Entry(
    name="pharaoh",
    summary="Word alignment, 0-0 1-2 …: the source word that each target word attends to most",
    reference="Koehn 2004, Pharaoh: a beam search decoder for phrase-based statistical machine translation models",
    attributes={
        "suffixes": (".pharaoh",),
        "views": ("MatrixGrid",),
        "binary": False,
        "bytes_per_weight": 1,
    },
)


def render(view: View, options: Options) -> bytes:
    """Write one line for each matrix: the column of each link, and its row.

    The links are those of an alignment, or what a mask allows; of other weights each row's strongest column.

    Raises:
        UsageError: The view has no matrices.
    """
    grid = require_grid(view, "pharaoh")
    all_allowed = grid.links or grid.unit == "mask"
    lines = []
    for matrix in grid.matrices:
        pairs = sorted(_strongest(matrix))
        if all_allowed and matrix.allowed is not None:
            pairs = [
                (int(source), int(target)) for source, target in zip(*matrix.allowed.T.nonzero(), strict=True)
            ]
        lines.append(" ".join(f"{source}-{target}" for source, target in pairs) + "\n")
    return "".join(lines).encode()


def _strongest(matrix: Matrix) -> Iterator[tuple[int, int]]:
    """Yield each row's strongest column, and the row; none of a row that has no weight."""
    if matrix.listed is not None:
        found = enumerate(zip(matrix.listed.columns[:, 0], matrix.listed.weights[:, 0], strict=True))
    else:
        rows = matrix.values if matrix.values.shape[1] else matrix.values[:0]
        found = enumerate(zip(rows.argmax(axis=1), rows.max(axis=1), strict=True))
    for row, (column, weight) in found:
        if weight > 0:
            yield int(column), row
