"""A text as a picture, each token on the colour of its weight: one block for each query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from attncli.render import Options
from attncli.render.picture.fonts import picture_label
from attncli.render.picture.notes import note_texts
from attncli.render.picture.page_layout import (
    POINT,
    Page,
    break_lines,
    colormap,
    flowing_width,
    ink,
    letters,
    norm,
    quiet,
    scale_room,
)
from attncli.render.picture.sheet import Sheet, draw_sheet, line_height
from attncli.render.running_text import Piece, pieces_of, shaded_rows, text_scale
from attncli.render.scales import Scale
from attncli.render.terminal.colors import is_light
from attncli.view import MatrixGrid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 5.6
_SIZE = 1.25
"""The text's letters, as a part of ordinary ones."""
_BLANK = 0.32


def draw_running_text(grid: MatrixGrid, options: Options) -> Figure:
    """Draw the text once for each query, with the strongest keys named below. The colours are light, unless named."""
    options = replace(options, colormap=options.look.colormap or "light")
    scale = text_scale(grid, options)
    pieces, rows = pieces_of(grid.key_tokens), list(shaded_rows(grid, options, scale))

    def make(width: float) -> Sheet:
        sheet = Sheet(width)
        for row in rows:
            y = sheet.height + line_height(0.7)
            sheet.text(0, y, row.heading, color=quiet())
            bottom = flow(sheet, pieces, row.weights, y + line_height(0.6), scale, options)
            for line in break_lines(f"strongest: {row.strongest}", width, letters()):
                bottom += line_height()
                sheet.text(0, bottom, line, color=quiet())
            sheet.height = bottom + line_height()
        return sheet

    figure, page, _ = draw_sheet(
        make,
        _WIDTH,
        lambda sheet: Page(
            left=0.14,
            width=sheet.width,
            right=scale_room(scale),
            below=0.05,
            height=max(sheet.height, 1.0),
            title=grid.header.title,
            about="",
            notes=note_texts(grid),
            look=options.look,
        ),
        options.look,
    )
    page.color_bar(figure, options, scale)
    return figure


def flow(
    sheet: Sheet,
    pieces: Sequence[Piece],
    weights: Sequence[float | None],
    top: float,
    scale: Scale,
    options: Options,
) -> float:
    """Write a text from a height on, each token on the colour of its weight, and return the height of its end."""
    colors = colormap(options, scale)
    line, x = line_height(_SIZE) * 1.12, 0.0
    y = top + line / 2
    for piece in pieces:
        text = picture_label(piece.text) if piece.text.strip() else piece.text
        blank = _BLANK * letters(_SIZE) * POINT * len(text)
        width = flowing_width(text, letters(_SIZE)) if text.strip() else blank
        if x and x + width > sheet.width:
            x, y = 0.0, y + line
            width = width if text.strip() else 0.0
        weight = None if piece.column is None else weights[piece.column]
        color = ink() if piece.column is None or weight is not None else quiet()
        if weight is not None and text.strip() and weight == weight:
            red, green, blue = (round(255 * part) for part in colors(float(norm(scale)(weight)))[:3])
            color = "black" if is_light((red, green, blue)) else "white"
            sheet.box(x, y - 0.46 * line, width, 0.9 * line, f"#{red:02x}{green:02x}{blue:02x}")
        if text.strip():
            sheet.text(x, y, piece.text, size=_SIZE, color=color)
        x += width
        if piece.breaks:
            x, y = 0.0, y + line
    return y + line / 2
