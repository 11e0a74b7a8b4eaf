"""A text in a terminal, each token on the colour of its weight; without colour the strongest stand in brackets."""

from __future__ import annotations

from collections.abc import Sequence

from attncli.labels import cells
from attncli.render import Options
from attncli.render.grid_text import words
from attncli.render.pooling import Field
from attncli.render.running_text import Piece, ShadedRow, pieces_of, shaded_rows, text_scale
from attncli.render.terminal.canvas import Line, Run, wrap
from attncli.render.terminal.cells import Pen
from attncli.render.terminal.legend import legend
from attncli.view import MatrixGrid


def draw_running_text(grid: MatrixGrid, options: Options) -> list[Line]:
    """Draw the text once for each query, with the strongest keys named below."""
    scale, width = text_scale(grid, options), options.width or 80
    pen = Pen(options, "signed" if grid.unit == "signed" else "weight", scale)
    pieces = pieces_of(grid.key_tokens)
    lines: list[Line] = []
    for row in shaded_rows(grid, options, scale):
        lines += [[(line, "")] for line in wrap(words(row.heading, options), width, options.cut_mark)]
        lines += [[], *_flowed(pieces, row, pen, width), []]
        strongest = words(f"strongest: {row.strongest}" if row.strongest else "no weight at all", options)
        lines += [[(line, "")] for line in wrap(strongest, width, options.cut_mark)]
        lines.append([])
    if pen.paints:
        return [*lines, *legend(pen, set())]
    return [*lines, [("[ ] strongest keys", "")]]


def _flowed(pieces: Sequence[Piece], row: ShadedRow, pen: Pen, width: int) -> list[Line]:
    """Break the pieces into lines: between words where there is a blank, and anywhere in what is too long."""
    lines: list[Line] = [[]]
    used = 0
    for word in _words(pieces):
        runs = [run for piece in word for run in _runs(piece, row, pen)]
        size = sum(cells(text) for text, _ in runs)
        if used and used + size > width:
            lines.append([])
            used = 0
            runs = runs[1:] if runs and not runs[0][0].strip() else runs
        for text, style in runs:
            for part in _parts(text, width):
                if used and used + cells(part) > width:
                    lines.append([])
                    used = 0
                lines[-1].append((part, style))
                used += cells(part)
        if word and word[-1].breaks:
            lines.append([])
            used = 0
    return lines


def _parts(text: str, width: int) -> list[str]:
    """Cut a text that is longer than a line, whatever it is made of."""
    if cells(text) <= width:
        return [text]
    return wrap(text.replace(" ", "\u00a0"), width, None)


def _words(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Gather pieces that stand together without a blank, each with the blank before it."""
    found: list[list[Piece]] = [[]]
    for piece in pieces:
        if piece.text[:1] == " " and found[-1]:
            found.append([])
        found[-1].append(piece)
        if piece.breaks:
            found.append([])
    return found


def _runs(piece: Piece, row: ShadedRow, pen: Pen) -> list[Run]:
    import numpy as np

    text = words(piece.text, pen.options) if piece.text.strip() else piece.text
    if piece.column is None or not text:
        return [(text, "")]
    weight = row.weights[piece.column]
    if weight is None or not pen.paints:
        return [(f"[{text}]" if piece.column in row.marked else text, "")]
    code = int(pen.codes(Field(np.array([[weight]], np.float32)))[0, 0])
    return [(text, pen.paints[code].filled)] if code >= 0 else [(text, "")]
