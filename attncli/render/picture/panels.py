"""Many matrices as one picture: panels by layer and head, all on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attncli.render import Options
from attncli.render.grid_layout import Place, arrange
from attncli.render.grid_text import count_text, fact_texts
from attncli.render.picture.axes import Axis, set_ticks, token_axis
from attncli.render.picture.fonts import picture_label
from attncli.render.picture.page_layout import (
    INK,
    POINT,
    QUIET,
    SMALL,
    Page,
    break_lines,
    note_texts,
    text_width,
)
from attncli.render.picture.single_map import add_scale, lay_under, paint_matrix, scale_width
from attncli.render.scales import scale_of
from attncli.view import MatrixGrid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TOKEN = 0.105
_SMALLEST, _LARGEST = 0.9, 2.6
_SMALLEST_PICTURE = 1.6
_GAP = 0.1
_TITLE = 0.19
_FACT = 6.5
_FACT_LINE = 0.12
_WIDEST = 30.0
_MOST_ACROSS = 16


def draw_panels(grid: MatrixGrid, options: Options) -> Figure:
    """Draw each matrix of a grid as a panel with its name; labels stand at the left and at the bottom."""
    places = arrange(grid.matrices, _MOST_ACROSS)
    across = 1 + max(place.column for place in places)
    down = 1 + max(place.row for place in places)
    queries, keys = len(grid.query_tokens), len(grid.key_tokens)
    width = _side(keys, across, _SMALLEST if grid.picture is None else _SMALLEST_PICTURE)
    height = max(0.3, min(_LARGEST * 1.5, width * queries / max(keys, 1)))
    scale = scale_of(grid)
    captions = [_caption(grid, place.index, width) for place in places]
    most = max(map(len, captions))
    captions = [[*caption, *[""] * (most - len(caption))] for caption in captions]
    head = _TITLE + _FACT_LINE * most
    y_axis = _axis(grid, options, "query", height)
    x_axis = _axis(grid, options, "key", width)
    page = Page(
        left=y_axis.longest() + 0.3,
        width=across * (width + _GAP) - _GAP,
        right=scale_width(grid.unit, scale),
        below=x_axis.depth() + 0.16,
        height=down * (height + head + _GAP) - _GAP,
        title=[picture_label(grid.header.title)] if grid.header.title else [],
        about=f"{count_text(grid)} · {grid.about}",
        notes=note_texts(grid),
    )
    figure = page.figure()
    lowest = _lowest(places)
    for place, caption in zip(places, captions, strict=True):
        top = place.row * (height + head + _GAP) + head
        axes = page.axes(figure, place.column * (width + _GAP), top, width, height)
        paint_matrix(axes, grid.matrices[place.index], grid.unit, scale, options)
        if grid.picture is not None:
            lay_under(axes, grid.picture, scale)
        _name(axes, place.name, caption, width)
        if place.column == 0:
            set_ticks(axes, y_axis, "y")
        if lowest[place.column] == place.row:
            set_ticks(axes, x_axis, "x")
    add_scale(page, figure, grid.unit, scale, options)
    return figure


def _side(tokens: int, across: int, smallest: float) -> float:
    """Return a panel's width in inches: room for each label, within what a page can hold."""
    return max(smallest, min(_LARGEST, tokens * _TOKEN, _WIDEST / across - _GAP))


def _axis(grid: MatrixGrid, options: Options, which: str, length: float) -> Axis:
    tokens = grid.query_tokens if which == "query" else grid.key_tokens
    return token_axis(tokens, options, length / max(len(tokens), 1), 5.5)


def _lowest(places: Sequence[Place]) -> dict[int, int]:
    lowest: dict[int, int] = {}
    for place in places:
        lowest[place.column] = max(place.row, lowest.get(place.column, 0))
    return lowest


def _caption(grid: MatrixGrid, index: int, width: float) -> list[str]:
    """Break what is said of a matrix into lines of a panel's width."""
    texts = fact_texts(grid.facts[index]) if grid.facts else []
    return [line for text in texts for line in break_lines(picture_label(text), width, _FACT)]


def _name(axes: Axes, name: str, caption: Sequence[str], width: float) -> None:
    """Write a panel's name above it and its facts between the two."""
    size = min(SMALL, SMALL * width / max(text_width(name, SMALL), 0.01))
    above = 2.5 + len(caption) * _FACT_LINE / POINT
    axes.set_title(
        picture_label(name) if name else "", size=size, color=INK, pad=above, loc="left", parse_math=False
    )
    for number, line in enumerate(reversed(caption)):
        if not line:
            continue
        axes.annotate(
            line,
            (0, 1),
            (0, 2.5 + number * _FACT_LINE / POINT),
            xycoords="axes fraction",
            textcoords="offset points",
            size=_FACT,
            color=QUIET,
            parse_math=False,
        )
