"""The keys of a row as the text that they are: which parts it has, and which of them have most of the weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attncli.labels import safe_label, visible_controls
from attncli.record import Token, Tokens
from attncli.render import Options
from attncli.render.grid_text import is_time, place_names, strongest_keys, token_labels
from attncli.render.scales import Scale, largest_size, signed_scale, with_look
from attncli.view import MatrixGrid
from attncli.written import written

_MANY_KEYS = 40
"""One row of more keys than this is shown as running text, whether asked or not."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text.

    Args:
        column: Of the key that it is; None between tokens.
        breaks: Whether a new line begins after it.
    """

    text: str
    column: int | None = None
    breaks: bool = False


@dataclass(frozen=True, slots=True)
class ShadedRow:
    """One query's weights over the text.

    Args:
        heading: Which head and which query it is.
        weights: One for each key; None where it may not attend.
        strongest: The keys with the most weight, and their weights.
        marked: Their columns.
    """

    heading: str
    weights: tuple[float | None, ...]
    strongest: str
    marked: frozenset[int]


def is_running_text(view: object, options: Options) -> bool:
    """Return whether a view's rows are shown as running text: because somebody asked, or since there is but one."""
    if not isinstance(view, MatrixGrid) or view.unit == "mask" or view.pooled is not None:
        return False
    if (
        view.picture is not None
        or view.pictures
        or is_time(view.key_tokens)
        or not view.matrices
        or not view.key_tokens
    ):
        return False
    one = len(view.matrices) == len(view.query_tokens) == 1 and len(view.key_tokens) > _MANY_KEYS
    return options.look.running_text or one


def text_scale(grid: MatrixGrid, options: Options) -> Scale:
    """Return the scale of all rows: of hundreds of keys each has little, so it ends at the largest."""
    largest = largest_size(grid.matrices) or 1.0
    scale = signed_scale(largest) if grid.unit == "signed" else Scale(high=largest)
    return with_look(scale, options.look)


def pieces_of(tokens: Tokens) -> list[Piece]:
    """Cut the text of some keys into its tokens, what stands between them, and the tokens that are in no text."""
    read = written(tokens)
    found: list[Piece] = []
    at = 0
    for column, (token, span) in enumerate(zip(tokens, read.spans, strict=True)):
        if span is None:
            found += [Piece(safe_label(token.label), column), Piece(" ")]
            continue
        start, end = max(span[0], at), max(span[1], at)
        found += [*_lines(read.text[at:start]), *_lines(read.text[start:end], column)]
        at = end
    return [piece for piece in found if piece.text or piece.breaks]


def _named(token: Token, options: Options) -> str:
    """Name a token as it stands in the text, with its position."""
    label = token_labels((token,), options)[0]
    return f"“{label.strip('·‿') or label}” ({token.position})"


def _lines(text: str, column: int | None = None) -> Iterator[Piece]:
    """Yield a text's lines; of a token with several, the first that is not empty has its colour."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        blank = len(line) - len(line.lstrip(" "))
        if blank and column is not None:
            yield Piece(line[:blank])
        yield Piece(
            visible_controls(line[blank:] if column is not None else line), column, number < len(lines) - 1
        )


def shaded_rows(grid: MatrixGrid, options: Options, scale: Scale) -> Iterator[ShadedRow]:
    """Yield each query of each matrix, with its weights and the strongest of its keys."""
    names = place_names(grid.matrices)
    for matrix, name in zip(grid.matrices, names, strict=True):
        rows = strongest_keys(matrix, _NAMED)
        for row, token in enumerate(grid.query_tokens):
            allowed: Sequence[bool] = (
                [True] * len(grid.key_tokens) if matrix.allowed is None else matrix.allowed[row].tolist()
            )
            best = [
                (column, text)
                for column, value in zip(rows[row].columns, rows[row].values, strict=True)
                if (text := scale.text(value)).strip("-.0")
            ]
            said = (f"{_named(grid.key_tokens[column], options)} {text}" for column, text in best)
            values = matrix.values[row].tolist()
            yield ShadedRow(
                " · ".join(filter(None, [name, f"{_named(token, options)} attends to"])),
                tuple(value if may else None for value, may in zip(values, allowed, strict=True)),
                " · ".join(said),
                frozenset(column for column, _ in best),
            )
