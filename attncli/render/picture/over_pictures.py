"""Weights over the pictures of a text with pictures: a panel for each query and view, and the text's own weights below.

The text is written with each token on a ground in the colour of its weight, so that both can be read at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attncli.render import Options
from attncli.render.grid_text import fact_texts, short_names, token_labels
from attncli.render.look import LEAST_FONT
from attncli.render.picture.fonts import picture_label
from attncli.render.picture.notes import note_texts
from attncli.render.picture.page_layout import (
    POINT,
    Page,
    fitted,
    ink,
    letters,
    quiet,
    scale_room,
    text_width,
)
from attncli.render.picture.running_text import flow
from attncli.render.picture.sheet import Sheet, line_height
from attncli.render.picture.single_map import add_scale, lay_under, paint_matrix
from attncli.render.running_text import pieces_of
from attncli.render.scales import WEIGHTS, scales_of, short_number
from attncli.view import Matrix, MatrixGrid, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LARGE, _MIDDLE, _LITTLE = 3.6, 2.4, 1.5
"""Inches of a panel's longer side: of a few, of a dozen, of many."""
_WIDEST = 11.0
_GAP = 0.12


@dataclass(frozen=True)
class _Panel:
    """One query's weights on one view of a picture."""

    name: str
    matrix: Matrix
    picture: Picture


def draw_over_pictures(grid: MatrixGrid, options: Options) -> Figure:
    """Draw each query's weights over each view of the pictures; for a single query and head, the text's own too."""
    panels = list(_panels(grid, options))
    units = len(panels) // len(grid.pictures)
    seen = replace(grid, matrices=tuple(panel.matrix for panel in panels), picture=grid.pictures[0])
    scale = scales_of(seen, options.look)[0]

    def laid(stretch: float) -> tuple[Page, tuple[float, float, float, int, Sheet]]:
        longest = stretch * (_LARGE if len(panels) <= 4 else (_MIDDLE if len(panels) <= 12 else _LITTLE))
        shapes = [_size(panel.picture, longest) for panel in panels]
        wide, high = max(width for width, _ in shapes), max(height for _, height in shapes)
        across = _across(len(panels), len(grid.pictures), units, wide / stretch, options)
        down = -(-len(panels) // across)
        width = max(across * (wide + _GAP) - _GAP, 4.5 * min(stretch, 1))
        line = letters(1.8) * POINT
        text = _text(grid, width, options) if units == 1 else Sheet(width)
        page = Page(
            left=0.2,
            width=width,
            right=scale_room(scale),
            below=0.12,
            height=down * (high + line + _GAP) + text.height,
            title=grid.header.title,
            about=_about(grid, options, units),
            notes=note_texts(grid),
            look=options.look,
        )
        return page, (longest, wide, high + line + _GAP, across, text)

    page, (longest, wide, tall, across, text) = fitted(options.look, laid)
    figure = page.figure()
    for number, panel in enumerate(panels):
        row, column = divmod(number, across)
        size = _size(panel.picture, longest)
        axes = page.axes(figure, column * (wide + _GAP), row * tall + letters(1.8) * POINT, *size)
        paint_matrix(axes, panel.matrix, grid.unit, scale, options)
        lay_under(axes, panel.picture, scale)
        name = picture_label(panel.name)
        fit = letters() * min(1, wide / max(text_width(name, letters()), 0.01))
        axes.set_title(name, size=max(fit, LEAST_FONT), color=ink(), pad=2.5, loc="left", parse_math=False)
    if text.height:
        text.draw(page.axes(figure, 0, page.height - text.height, text.width, text.height))
    add_scale(page, figure, grid.unit, scale, options)
    return figure


def _across(panels: int, views: int, units: int, wide: float, options: Options) -> int:
    """Return how many panels stand side by side; the views of one query stay together where they can."""
    if options.look.columns is not None:
        return min(options.look.columns, panels)
    across = min(panels, max(1, int(_WIDEST / (wide + _GAP))))
    return max(views, across // views * views) if views > 1 and units > 1 else across


def _panels(grid: MatrixGrid, options: Options) -> Iterator[_Panel]:
    labels = token_labels(grid.query_tokens, options)
    heads = short_names(grid.matrices)
    several = len(grid.matrices) > 1, len(labels) > 1
    for matrix, head in zip(grid.matrices, heads, strict=True):
        for row, (token, label) in enumerate(zip(grid.query_tokens, labels, strict=True)):
            for picture in grid.pictures:
                weights = matrix.values[row, list(picture.places)]
                share = short_number(float(weights.sum()))
                parts = (head if several[0] else "", label if several[1] else "", picture.name)
                place = picture.places.index(token.position) if token.position in picture.places else -1
                yield _Panel(
                    f"{' · '.join(part for part in parts if part)}  {share}".strip(),
                    replace(matrix, values=weights.reshape(picture.rows, picture.columns), allowed=None),
                    replace(picture, query=place),
                )


def _about(grid: MatrixGrid, options: Options, units: int) -> str:
    queries = token_labels(grid.query_tokens, options)
    if units > 1:
        counts = (len(grid.matrices), "heads"), (len(queries), "queries")
        told = " and ".join(f"{count} {what}" for count, what in counts if count > 1)
        return f"{told} · each panel's number is the weight on it"
    facts = fact_texts(grid.facts[0]) if grid.facts else []
    return " · ".join([f"{picture_label(queries[0])} attends to patches", *facts])


def _size(picture: Picture, longest: float) -> tuple[float, float]:
    height, width = picture.pixels.shape[:2]
    shrink = longest / max(height, width)
    return max(width * shrink, 0.5), max(height * shrink, 0.5)


def _text(grid: MatrixGrid, width: float, options: Options) -> Sheet:
    """Write the text, each token on the colour of its weight."""
    matrix = grid.matrices[0]
    places = [place for place, token in enumerate(grid.key_tokens) if not token.of_picture]
    weights = [
        float(matrix.values[0, place]) if matrix.allowed is None or matrix.allowed[0, place] else None
        for place in places
    ]
    pieces = pieces_of(tuple(grid.key_tokens[place] for place in places))
    own = sum(weight or 0.0 for weight in weights)
    sheet = Sheet(width)
    about = f"the text's own weights, {short_number(own)} together, coloured from 0 to 1"
    sheet.text(0, line_height(0.7), about, color=quiet())
    sheet.height = flow(sheet, pieces, weights, line_height(1.3), WEIGHTS, options)
    return sheet
