"""Maps of heads as a picture: a panel for each kind of attention, layers by heads, all on one scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attncli.render import Options
from attncli.render.picture.axes import Axis, set_ticks
from attncli.render.picture.fonts import picture_label
from attncli.render.picture.page_layout import (
    POINT,
    Page,
    best_columns,
    fitted,
    ink,
    letters,
    quiet,
    scale_room,
)
from attncli.render.picture.single_map import paint_matrix, write_numbers
from attncli.render.scales import Scale, metric_title, ranking_scale, with_look
from attncli.render.terminal.head_maps import gaps_of
from attncli.view import HeadMap, HeadRanking, Matrix

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

_CELL = 0.33
_LEAST_CELL = 0.12
_WIDEST, _TALLEST = 12.0, 11.0
_GAP = 0.3
_MOST_NUMBERED = 24


def draw_head_panels(view: HeadRanking, options: Options) -> Figure:
    """Draw each map, side by side or below each other, with its numbers where there are not too many heads."""
    scale = with_look(ranking_scale(view), options.look)

    def laid(stretch: float) -> tuple[Page, tuple[float, float, float, float, int]]:
        cell, left, above = _cell(view) * stretch, letters(4) * POINT + 0.1, letters(3.4) * POINT
        width = left + max(0.8 * stretch, cell * max((len(map_.heads) for map_ in view.maps), default=1))
        height = above + cell * max((len(map_.layers) for map_ in view.maps), default=1)
        across = best_columns(len(view.maps) or 1, width, height, options.look, least=left + 1.2)
        down = -(-len(view.maps) // across) or 1
        page = Page(
            left=0.1,
            width=across * width + _GAP * (across - 1),
            right=scale_room(scale),
            below=0.12,
            height=max(down * height + 0.15 * (down - 1), 1.2 if options.look.size is None else 0),
            title=view.header.title,
            about=f"rows are layers, columns are heads · {metric_title(view.metric)}",
            notes=[*(f"hatched: {meaning}" for meaning in gaps_of(view)), *view.header.notes],
            look=options.look,
        )
        return page, (cell, left, above, width, across)

    page, (cell, left, above, width, across) = fitted(options.look, laid)
    figure = page.figure()
    top = above
    for number, map_ in enumerate(view.maps):
        size = max(0.4, len(map_.heads) * cell), len(map_.layers) * cell
        if number and number % across == 0:
            top += above + 0.15 + cell * max(len(one.layers) for one in view.maps)
        axes = page.axes(figure, number % across * (width + _GAP) + left, top, *size)
        _draw(axes, map_, scale, options, cell)
    page.color_bar(figure, options, scale)
    return figure


def _cell(view: HeadRanking) -> float:
    """Return the inches of a head's side: fewer where a page could not hold them all."""
    across = sum(len(map_.heads) for map_ in view.maps)
    down = max((len(map_.layers) for map_ in view.maps), default=1)
    return max(_LEAST_CELL, min(_CELL, _WIDEST / max(across, 1), _TALLEST / max(down, 1)))


def _draw(axes: Axes, map_: HeadMap, scale: Scale, options: Options, cell: float) -> None:
    matrix = Matrix(map_.values, allowed=_measured(map_))
    paint_matrix(axes, matrix, "signed", scale, options)
    if len(map_.heads) <= _MOST_NUMBERED:
        write_numbers(axes, matrix, scale, options, cell, bold=False)
    title: dict[str, Any] = {
        "size": letters(1.1),
        "color": ink(),
        "loc": "left",
        "pad": letters(2),
        "parse_math": False,
    }
    axes.set_title(picture_label(map_.kind), **title)
    set_ticks(axes, _axis("L", map_.layers, cell, 1.3), "y")
    set_ticks(axes, _axis("H", map_.heads, cell, 2.2), "x")
    axes.xaxis.tick_top()
    axes.tick_params(length=0, colors=quiet(), rotation=0)


def _measured(map_: HeadMap) -> NDArray[np.bool_]:
    import numpy as np

    return ~np.isnan(map_.values)


def _axis(letter: str, numbers: tuple[int, ...], cell: float, room: float) -> Axis:
    """Label each layer or head, or as many as stand there if the labels do not touch."""
    least = letters(room) * POINT / cell
    every = next((step for step in (1, 2, 5, 10, 20) if step >= least), 50)
    places = tuple(range(0, len(numbers), every))
    return Axis(places, tuple(f"{letter}{numbers[place]}" for place in places), letters(0.9), every * cell)
