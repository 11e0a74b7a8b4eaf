"""NumPy's .npz: all weights in float32, small and exact, loaded without pickle.

    encoder.4        (heads, query, key), float32; booleans for a mask
    encoder.4.heads  the query heads in that order, -1 for a mean and where all heads are alike
    encoder.4.allowed  (heads, query, key), booleans; only where weights have forbidden pairs
    query_tokens, key_tokens  labels
    meta             the JSON document without weights

A matrix with a label is called by it: ``full``. Another that belongs to no model is called by its unit, ``mask``.
`top` plays no part: everything is in.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attncli.registry import Entry
from attncli.render import Options
from attncli.render.grid_text import require_grid
from attncli.render.json_format import document
from attncli.view import Matrix, MatrixGrid, View

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ENTRY = Entry(
    name="npz",
    summary="NumPy archive with all weights in float32",
    attributes={"suffixes": (".npz",), "views": ("MatrixGrid",), "binary": True, "bytes_per_weight": 5},
)

_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3


def render(view: View, options: Options) -> bytes:
    """Pack a grid into an archive whose bytes depend on nothing but the grid."""
    import numpy as np

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in _named_arrays(require_grid(view, "npz")):
            entry = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            entry.create_system = _UNIX
            entry.external_attr = 0o644 << 16
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return buffer.getvalue()


def arrays(grid: MatrixGrid) -> dict[str, NDArray[np.generic]]:
    """Return the archive's arrays by name."""
    return dict(_named_arrays(grid))


def _named_arrays(grid: MatrixGrid) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Yield the archive's arrays one after another, so that no two need memory at once."""
    import numpy as np

    for name, matrices in by_name(grid).items():
        yield from _arrays_of_layer(grid, name, matrices)
    yield "query_tokens", np.array([token.label for token in grid.query_tokens], dtype=np.str_)
    yield "key_tokens", np.array([token.label for token in grid.key_tokens], dtype=np.str_)
    yield "meta", np.array(json.dumps(document(grid, weights=False), allow_nan=False))


def _arrays_of_layer(
    grid: MatrixGrid, name: str, matrices: list[Matrix]
) -> Iterator[tuple[str, NDArray[np.generic]]]:
    import numpy as np

    if grid.unit == "mask":
        yield name, np.stack([matrix.values > 0 for matrix in matrices])
    else:
        yield name, _together([matrix.values for matrix in matrices]).astype(np.float32, copy=False)
    heads = [matrix.head if isinstance(matrix.head, int) else -1 for matrix in matrices]
    yield f"{name}.heads", np.array(heads, dtype=np.int64)
    if grid.unit != "mask" and any(matrix.allowed is not None for matrix in matrices):
        yield f"{name}.allowed", _together([_allowed(matrix) for matrix in matrices])


def _together(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Stack arrays; one alone is not copied."""
    import numpy as np

    return arrays[0][None] if len(arrays) == 1 else np.stack(arrays)


def _allowed(matrix: Matrix) -> NDArray[np.bool_]:
    import numpy as np

    return np.ones(matrix.values.shape, np.bool_) if matrix.allowed is None else matrix.allowed


def by_name(grid: MatrixGrid) -> dict[str, list[Matrix]]:
    """Put a grid's matrices together that share an array, under its name."""
    found: dict[str, list[Matrix]] = {}
    for matrix in grid.matrices:
        layer = None if matrix.layer is None else str(matrix.layer)
        place = ".".join(part for part in (matrix.kind, layer) if part is not None)
        name = matrix.label or place or grid.unit
        found.setdefault(name, []).append(matrix)
    return found
