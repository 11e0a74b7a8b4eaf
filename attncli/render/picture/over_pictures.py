"""Weights over the pictures of a text with pictures: a panel for each query and view, and the text's own weights below.

The text is written with each token on a ground in the colour of its weight, so that both can be read at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attncli.render import Options
from attncli.render.grid_text import fact_texts, short_names, token_labels
from attncli.render.picture.fonts import picture_label
from attncli.render.picture.page_layout import (
    FORBIDDEN,
    INK,
    QUIET,
    SMALL,
    Page,
    bare,
    colormap,
    norm,
    note_texts,
    text_width,
)
from attncli.render.picture.single_map import add_scale, lay_under, paint_matrix, scale_width
from attncli.render.scales import WEIGHTS, scale_of, short_number
from attncli.render.terminal.colors import is_light
from attncli.view import Matrix, MatrixGrid, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

_LARGE, _MIDDLE, _LITTLE = 3.6, 2.4, 1.5
"""Inches of a panel's longer side: of a few, of a dozen, of many."""
_WIDEST = 11.0
_GAP, _TITLE, _LINE = 0.12, 0.2, 0.19
_MOST_TOKENS = 240
_STRONGEST = 60


@dataclass(frozen=True)
class _Panel:
    """One query's weights on one view of a picture."""

    name: str
    matrix: Matrix
    picture: Picture


def draw_over_pictures(grid: MatrixGrid, options: Options) -> Figure:
    """Draw each query's weights over each view of the pictures; for a single query and head, the text's own too."""
    panels = list(_panels(grid, options))
    views, units = len(grid.pictures), len(panels) // len(grid.pictures)
    longest = _LARGE if len(panels) <= 4 else (_MIDDLE if len(panels) <= 12 else _LITTLE)
    shapes = [_size(panel.picture, longest) for panel in panels]
    wide, high = max(width for width, _ in shapes), max(height for _, height in shapes)
    across = min(len(panels), max(1, int(_WIDEST / (wide + _GAP))))
    if views > 1 and units > 1:
        across = max(views, across // views * views)
    down = -(-len(panels) // across)
    scale = scale_of(
        replace(grid, matrices=tuple(panel.matrix for panel in panels), picture=grid.pictures[0])
    )
    width = max(across * (wide + _GAP) - _GAP, 4.5)
    above = down * (high + _TITLE + _GAP)
    lines = _lines(grid, options, width) if units == 1 else []
    page = Page(
        left=0.2,
        width=width,
        right=scale_width(grid.unit, scale),
        below=0.12,
        height=above + (_LINE * (len(lines) + 1) if lines else 0),
        title=[picture_label(grid.header.title)] if grid.header.title else [],
        about=_about(grid, options, units),
        notes=note_texts(grid),
    )
    figure = page.figure()
    for number, (panel, (w, h)) in enumerate(zip(panels, shapes, strict=True)):
        row, column = divmod(number, across)
        axes = page.axes(figure, column * (wide + _GAP), row * (high + _TITLE + _GAP) + _TITLE, w, h)
        paint_matrix(axes, panel.matrix, grid.unit, scale, options)
        lay_under(axes, panel.picture, scale)
        name = picture_label(panel.name)
        size = min(SMALL, SMALL * wide / max(text_width(name, SMALL), 0.01))
        axes.set_title(name, size=size, color=INK, pad=2.5, loc="left", parse_math=False)
    if lines:
        _write(page.axes(figure, 0, above, width, page.height - above), lines, grid, options)
    add_scale(page, figure, grid.unit, scale, options)
    return figure


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


Line = list[tuple[float, float, str, float | None]]
"""Tokens of a line: where each begins, how wide it is, its label and its weight; None where it may not be seen."""


def _lines(grid: MatrixGrid, options: Options, width: float) -> list[Line]:
    """Break the text's tokens into lines; of a long text, the strongest alone."""
    weights, allowed = grid.matrices[0].values[0], grid.matrices[0].allowed
    texts = [
        (picture_label(label), float(weights[place]) if allowed is None or allowed[0, place] else None)
        for place, label in enumerate(token_labels(grid.key_tokens, options))
        if not grid.key_tokens[place].of_picture
    ]
    if len(texts) > _MOST_TOKENS:
        least = sorted((weight or 0.0 for _, weight in texts), reverse=True)[_STRONGEST - 1]
        texts = [(label, weight) for label, weight in texts if weight is not None and weight >= least]
    lines: list[Line] = [[]]
    left = 0.0
    for label, weight in texts:
        wide = text_width(label, SMALL) + 0.08
        if lines[-1] and left + wide > width:
            lines.append([])
            left = 0.0
        lines[-1].append((left, wide, label, weight))
        left += wide + 0.03
    return lines


def _write(axes: Axes, lines: list[Line], grid: MatrixGrid, options: Options) -> None:
    """Write the text, each token on the colour of its weight."""
    from matplotlib.patches import Rectangle

    bare(axes)
    box = axes.get_position()
    figure = axes.get_figure(root=True)
    assert figure is not None
    size = figure.get_size_inches()
    axes.set(xlim=(0, box.width * size[0]), ylim=(box.height * size[1], 0))
    axes.patch.set_visible(False)
    total = sum(weight or 0.0 for line in lines for *_, weight in line)
    axes.text(
        0, _LINE / 2, f"the text's own weights, {short_number(total)} together, coloured from 0 to 1",
        size=SMALL - 1, color=QUIET, va="center", parse_math=False,
    )  # fmt: skip
    shade = colormap(options, WEIGHTS)
    for number, line in enumerate(lines, 1):
        for left, wide, label, weight in line:
            ground, ink = (FORBIDDEN, QUIET) if weight is None else _colors(float(weight), shade)
            axes.add_patch(
                Rectangle((left, number * _LINE), wide, _LINE - 0.03, facecolor=ground, linewidth=0)
            )
            middle = (number + 0.5) * _LINE - 0.015
            axes.text(
                left + 0.04, middle, label, size=SMALL, color=ink, va="center_baseline", parse_math=False
            )


def _colors(weight: float, shade: Colormap) -> tuple[str, str]:
    """Return the ground of a weight, and the colour of letters that can be read on it."""
    red, green, blue = (round(255 * part) for part in shade(float(norm(WEIGHTS)(weight)))[:3])
    return f"#{red:02x}{green:02x}{blue:02x}", "black" if is_light((red, green, blue)) else "white"
