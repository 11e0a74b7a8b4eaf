"""One query's weights on the patches of a picture: matrices in the picture's own shape, for the forms that draw."""

from __future__ import annotations

from dataclasses import replace

from attncli.labels import safe_label
from attncli.record import Token, Tokens
from attncli.view import Matrix, MatrixGrid, Picture


def as_patches(grid: MatrixGrid) -> MatrixGrid:
    """Return matrices in the shape of the picture, each with one query's weights; a grid without a picture as it is."""
    picture = grid.picture
    if grid.pictures:
        return _heaviest(grid)
    if picture is None:
        return grid
    first = len(grid.key_tokens) - picture.rows * picture.columns
    queries = range(len(grid.query_tokens)) if picture.query is None else [picture.query]
    rows = [(matrix, query) for matrix in grid.matrices for query in queries]
    token = grid.query_tokens[queries[0]]
    among_keys = token in grid.key_tokens
    named = [_over(matrix, query, picture, first) for matrix, query in rows]
    if picture.query is None:
        named = [
            replace(matrix, label=f"{query} {safe_label(grid.query_tokens[query].label)}")
            for matrix, (_, query) in zip(named, rows, strict=True)
        ]
    who = "each row" if picture.query is None else safe_label(token.label)
    return replace(
        grid,
        matrices=tuple(named),
        query_tokens=_places("r", picture.rows),
        key_tokens=_places("c", picture.columns),
        facts=tuple(_elsewhere(matrix, query, first) for matrix, query in rows) if first else (),
        picture=replace(picture, query=token.position - first if among_keys else None),
        about=f"{who} attends to patches",
    )


def _heaviest(grid: MatrixGrid) -> MatrixGrid:
    """Return one query's weights on the view of a text's pictures that has most; several queries as they are."""
    if len(grid.query_tokens) != 1:
        return grid
    sums = [sum(float(m.values[0, list(one.places)].sum()) for m in grid.matrices) for one in grid.pictures]
    picture = grid.pictures[sums.index(max(sums))]
    token = grid.query_tokens[0]
    of = f" of {picture.name}" if len(grid.pictures) > 1 else ""
    return replace(
        grid,
        matrices=tuple(
            replace(
                matrix,
                values=matrix.values[0, list(picture.places)].reshape(picture.rows, picture.columns),
                allowed=None,
            )
            for matrix in grid.matrices
        ),
        query_tokens=_places("r", picture.rows),
        key_tokens=_places("c", picture.columns),
        picture=picture,
        pictures=(),
        about=f"{safe_label(token.label)} attends to patches{of}",
    )


def _over(matrix: Matrix, query: int, picture: Picture, first: int) -> Matrix:
    weights = matrix.values[query, first:].reshape(picture.rows, picture.columns)
    return replace(matrix, values=weights, allowed=None)


def _elsewhere(matrix: Matrix, query: int, first: int) -> dict[str, object]:
    """Return what the picture does not show: the weight on the tokens that are no patches."""
    return {"on_special_tokens": round(float(matrix.values[query, :first].sum()), 3)}


def _places(letter: str, count: int) -> Tokens:
    return tuple(Token(place, None, f"{letter}{place}", f"{letter}{place}") for place in range(count))
