"""A text with pictures: what `attncli show TEXT --image photo.jpg` adds to the map of the text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from attncli.models.opening import Opened
from attncli.record import Tokens
from attncli.view import Matrix, MatrixGrid

if TYPE_CHECKING:
    from attncli.view import Picture

_MOST_MAPS = 120


def with_pictures(view: MatrixGrid, source: Opened, *, rows_asked: bool) -> MatrixGrid:
    """Add how much weight lies on the pictures and, where rows were asked for, lay these over them.

    Args:
        rows_asked: Whether the user named the rows to show.
    """
    pictures: tuple[Picture, ...] = getattr(source, "pictures", ())
    queries, keys = source.axes("decoder") if "decoder" in source.kinds else ((), ())
    inside = [place for place, token in enumerate(keys) if token.of_picture]
    whole = (
        view.pooled is None and view.key_tokens == keys and all(one.listed is None for one in view.matrices)
    )
    if not inside or not whole:
        return view
    rows = _rows_after(inside[0], view.query_tokens, given=len(view.query_tokens) != len(queries))
    shares = [_share(matrix, rows, inside) for matrix in view.matrices]
    if rows and shares:
        view = replace(
            view,
            facts=tuple({"on_pictures": round(share, 4)} for share in shares),
            header=replace(view.header, notes=(*view.header.notes, _note(shares, rows, keys))),
        )
    maps = len(view.matrices) * len(view.query_tokens) * len(pictures)
    if rows_asked and 0 < maps <= _MOST_MAPS:
        view = replace(view, pictures=pictures)
    return view


def _rows_after(first: int, queries: Tokens, *, given: bool) -> list[int]:
    """Return the rows whose weight on pictures counts: those named or, of all, the text after the first picture."""
    return [
        row for row, token in enumerate(queries) if given or (token.position > first and not token.of_picture)
    ]


def _share(matrix: Matrix, rows: list[int], inside: list[int]) -> float:
    return float(matrix.values[np.ix_(rows, inside)].sum(axis=1).mean()) if rows else 0.0


def _note(shares: list[float], rows: list[int], keys: Tokens) -> str:
    segments = [token.segment for token in keys if token.of_picture]
    whose = "the picture" if len(set(segments)) == 1 else "the pictures"
    maps = "1 map" if len(shares) == 1 else f"{len(shares)} maps"
    of_rows = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    where = f"{len(segments)} of {len(keys)} tokens; {maps}, {of_rows}"
    return f"{100 * float(np.mean(shares)):.1f} % of all weight lies on {whose} ({where})"
