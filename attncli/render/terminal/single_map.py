"""One matrix in a terminal, as large as the width allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attncli.labels import cells, fit, pad
from attncli.render.grid_text import largest_of_rows, placed_label, token_labels, words
from attncli.render.pooling import Field, field_of, pool, shown_size
from attncli.render.terminal.canvas import Line, upright, wrap
from attncli.render.terminal.cells import FORBIDDEN_CODE, UNDEFINED_CODE, Pen
from attncli.view import MatrixGrid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from attncli.record import Token

Drawing = tuple[list[Line], set[str]]

_NARROWEST_NUMBER = 4
_LABEL_LINES = 16
_TICK_GAP = 10
_FEW_ROWS = 32
_MOST_TURNS = 3


def draw_single(grid: MatrixGrid, pen: Pen, *, repeat: bool = False) -> Drawing:
    """Draw a grid of one matrix with its labels; give the lines and the marks to explain below.

    Args:
        repeat: Whether the columns' labels stand below the map too.
    """
    width = pen.options.width or 80
    labels = token_labels(grid.query_tokens, pen.options)
    gutter = min(max(map(cells, labels)), max(6, min(18, width // 4)))
    room = width - gutter - 1
    keys = len(grid.key_tokens)
    field = field_of(grid.matrices[0], grid.unit)
    if grid.unit != "mask" and grid.picture is None and _NARROWEST_NUMBER * keys <= room:
        texts = [[pen.scale.text(value) for value in row] for row in field.values.tolist()]
        codes = pen.codes(field)
        column = _number_width(texts, codes)
        if column * keys <= room:
            return _numbers(grid, pen, texts, codes, gutter, column, repeat)
    if 2 * keys <= room:
        return _colors(grid, pen, field, gutter, repeat)
    return _dense(grid, pen, field, width, repeat)


def _number_width(texts: list[list[str]], codes: NDArray[np.int16]) -> int:
    """Return the cells that each number needs, with a blank in front."""
    shown = (
        len(text)
        for row, steps in zip(texts, codes.tolist(), strict=True)
        for text, step in zip(row, steps, strict=True)
        if step >= 0
    )
    return max(_NARROWEST_NUMBER, 1 + max(shown, default=0))


def _numbers(
    grid: MatrixGrid,
    pen: Pen,
    texts: list[list[str]],
    codes: NDArray[np.int16],
    gutter: int,
    column: int,
    repeat: bool,
) -> Drawing:
    bold = largest_of_rows(grid.matrices[0])
    rows = [
        [pen.number(text, step, column, (row, place) in bold) for place, (text, step) in enumerate(pairs)]
        for row, pairs in enumerate(map(zip, texts, codes.tolist()))
    ]
    labels = _column_labels(grid, pen, gutter, column, column - 2)
    lines = [*_size_lines(grid, pen, ""), *labels, *_with_labels(grid, pen, rows, gutter)]
    return lines + labels * repeat, marks_in(codes) | {"numbers", "maximum"}


def _colors(grid: MatrixGrid, pen: Pen, field: Field, gutter: int, repeat: bool) -> Drawing:
    codes = pen.codes(field)
    starred = set() if pen.paints or grid.unit == "mask" else largest_of_rows(grid.matrices[0])
    rows = [
        [pen.cell(code, 2, (row, place) in starred) for place, code in enumerate(codes_of_row)]
        for row, codes_of_row in enumerate(codes.tolist())
    ]
    labels = _column_labels(grid, pen, gutter, 2, 0)
    lines = [*_size_lines(grid, pen, ""), *labels, *_with_labels(grid, pen, rows, gutter)]
    return lines + labels * repeat, marks_in(codes) | ({"maximum"} if starred else set())


def _dense(grid: MatrixGrid, pen: Pen, field: Field, width: int, repeat: bool) -> Drawing:
    """Draw one column a key, or a few keys; two rows a line where half blocks are to be had."""
    gutter = _tick_gutter(grid, pen, width)
    room = width - gutter - 1
    step = -(-len(grid.key_tokens) // room)
    # Without half blocks a cell is twice as high as wide, so pooled rows go by twice as many.
    # A few rows over many columns, as a sound's, stay apart: a line each.
    few = step > 1 and len(grid.query_tokens) <= _FEW_ROWS
    halves = pen.halves and not few
    row_step = 1 if few else step if pen.halves or step == 1 else 2 * step
    rows, columns = range(0, len(grid.query_tokens), row_step), range(0, len(grid.key_tokens), step)
    codes = pen.codes(pool(field, rows, columns))
    body = pen.half_blocks(codes) if halves else pen.whole_cells(codes, 1)
    size = "" if step == 1 else shown_size(grid, len(rows), len(columns), pen.scale.pooled_by)
    ticks = [_column_ticks(grid, pen, columns, gutter, room)]
    lines = [*_size_lines(grid, pen, size), *ticks]
    per_line = row_step * (2 if halves else 1)
    every = 1 if step == 1 or few else 5
    for index, runs in enumerate(body):
        name = _row_name(grid, pen, index * per_line) if index % every == 0 else ""
        label = fit(name, gutter, pen.options.cut_mark)
        lines.append([(pad(label, gutter + 1), ""), *runs])
    return lines + ticks * repeat, marks_in(codes) | ({"blank"} if halves else set())


def _size_lines(grid: MatrixGrid, pen: Pen, size: str) -> list[Line]:
    """Return how to read the map, and how much of it is shown where that is not all."""
    label = grid.matrices[0].label
    text = words(" · ".join(filter(None, [label, grid.about, size])), pen.options)
    return [[(line, "")] for line in wrap(text, pen.options.width or 80, pen.options.cut_mark)]


def _column_labels(grid: MatrixGrid, pen: Pen, gutter: int, column: int, lead: int) -> list[Line]:
    """Label columns: in one line, in a few lines that take turns, or downwards where labels are long."""
    labels = token_labels(grid.key_tokens, pen.options)
    longest = max(map(cells, labels))
    if longest < column:
        texts = ["".join(pad(label, column, "right" if lead else "left") for label in labels)]
    elif lead and longest < _MOST_TURNS * column and (turns := _in_turns(labels, column, pen, gutter)):
        texts = turns
    else:
        short = [_without_blank(*one) for one in zip(labels, grid.key_tokens, strict=True)]
        texts = upright(short, _LABEL_LINES, column, lead, pen.options.cut_mark)
    return [[(" " * (gutter + 1) + text, "")] for text in texts]


def _in_turns(labels: list[str], column: int, pen: Pen, gutter: int) -> list[str]:
    """Write labels in as few lines as they need, each over the start of its column; none where they do not fit."""
    count = max(map(cells, labels)) // column + 1
    lines = []
    for first in range(count):
        line = " " * (first * column + 1)
        for label in labels[first::count]:
            line += pad(label, count * column)
        lines.append(line.rstrip())
    room = (pen.options.width or 80) - gutter - 1
    return lines if max(map(cells, lines)) <= room else []


def _without_blank(label: str, token: Token) -> str:
    """Leave out the mark of a leading space, which downwards would be a row of dots."""
    marked = len(label) > 1 and label[0] in "·_" and token.text.startswith(" ")
    return label[1:] if marked else label


def _with_labels(grid: MatrixGrid, pen: Pen, rows: list[Line], gutter: int) -> list[Line]:
    labels = token_labels(grid.query_tokens, pen.options)
    return [
        [(pad(fit(label, gutter, pen.options.cut_mark), gutter, "right") + " ", ""), *row]
        for label, row in zip(labels, rows, strict=True)
    ]


def _tick_gutter(grid: MatrixGrid, pen: Pen, width: int) -> int:
    longest = max(cells(_row_name(grid, pen, row)) for row in range(len(grid.query_tokens)))
    return min(longest, max(6, min(16, width // 5)))


def _row_name(grid: MatrixGrid, pen: Pen, row: int) -> str:
    """Return a row's position and label, positions right-aligned."""
    token, last = grid.query_tokens[row], grid.query_tokens[-1]
    indent = " " * (len(str(last.position)) - len(str(token.position)))
    return indent + placed_label(token, pen.options)


def _column_ticks(grid: MatrixGrid, pen: Pen, columns: range, gutter: int, room: int) -> Line:
    """Mark each tenth column with its position and label; the last one only where its number is not cut."""
    line = " " * (gutter + 1)
    for index in range(0, len(columns), _TICK_GAP):
        space = min(_TICK_GAP, room - index)
        token = grid.key_tokens[columns[index]]
        text = ("╷" if pen.options.unicode else "|") + placed_label(token, pen.options)
        told = cells(text) < space or len(str(token.position)) + 3 < space
        line += pad(fit(text, space - 1, pen.options.cut_mark) if told else "", space)
    return [(line, "")]


def marks_in(codes: NDArray[np.int16]) -> set[str]:
    """Name the marks in a drawing that need explaining."""
    found = {FORBIDDEN_CODE: "forbidden", UNDEFINED_CODE: "undefined"}
    return {name for code, name in found.items() if (codes == code).any()}
