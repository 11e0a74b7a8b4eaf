"""Maps of heads as a picture: a panel for each kind of attention, layers by heads, all on one scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attncli.render import Options
from attncli.render.picture.axes import Axis, set_ticks
from attncli.render.picture.fonts import picture_label
from attncli.render.picture.page_layout import INK, QUIET, SMALL, Page
from attncli.render.picture.single_map import add_scale, paint_matrix, scale_width, write_numbers
from attncli.render.scales import Scale, metric_title, ranking_scale
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
_LEFT, _ABOVE, _GAP = 0.55, 0.42, 0.3
_MOST_NUMBERED = 24
_MOST_LABELLED = 40


def draw_head_panels(view: HeadRanking, options: Options) -> Figure:
    """Draw each map, side by side, with its numbers where there are not too many heads."""
    scale, cell = ranking_scale(view), _cell(view)
    rows = max((len(map_.layers) for map_ in view.maps), default=1)
    widths = [_LEFT + max(0.8, len(map_.heads) * cell) for map_ in view.maps]
    page = Page(
        left=0.1,
        width=sum(widths) + _GAP * (len(widths) - 1),
        right=scale_width("signed", scale),
        below=0.12,
        height=max(_ABOVE + rows * cell, 1.6),
        title=[picture_label(view.header.title)] if view.header.title else [],
        about=f"rows are layers, columns are heads · {metric_title(view.metric)}",
        notes=[*(f"hatched: {meaning}" for meaning in gaps_of(view)), *view.header.notes],
    )
    figure = page.figure()
    left = 0.0
    for map_, width in zip(view.maps, widths, strict=True):
        size = max(0.8, len(map_.heads) * cell), len(map_.layers) * cell
        axes = page.axes(figure, left + _LEFT, _ABOVE, *size)
        _draw(axes, map_, scale, options, cell)
        left += width + _GAP
    add_scale(page, figure, "signed", scale, options)
    return figure


def _cell(view: HeadRanking) -> float:
    """Return the inches of a head's side: fewer where a page could not hold them all."""
    across = sum(len(map_.heads) for map_ in view.maps)
    down = max((len(map_.layers) for map_ in view.maps), default=1)
    return max(_LEAST_CELL, min(_CELL, _WIDEST / max(across, 1), _TALLEST / max(down, 1)))


def _draw(axes: Axes, map_: HeadMap, scale: Scale, options: Options, cell: float) -> None:
    matrix = Matrix(map_.values, allowed=_measured(map_))
    paint_matrix(axes, matrix, "signed", scale, options)
    if cell >= 0.25 and len(map_.heads) <= _MOST_NUMBERED:
        write_numbers(axes, matrix, scale, options, cell, bold=False)
    axes.set_title(picture_label(map_.kind), size=SMALL + 1, color=INK, loc="left", pad=17, parse_math=False)
    set_ticks(axes, _axis("L", map_.layers), "y")
    set_ticks(axes, _axis("H", map_.heads), "x")
    axes.xaxis.tick_top()
    axes.tick_params(length=0, colors=QUIET, rotation=0)


def _measured(map_: HeadMap) -> NDArray[np.bool_]:
    import numpy as np

    return ~np.isnan(map_.values)


def _axis(letter: str, numbers: tuple[int, ...]) -> Axis:
    every = 1 if len(numbers) <= _MOST_LABELLED else 5
    places = tuple(range(0, len(numbers), every))
    return Axis(places, tuple(f"{letter}{numbers[place]}" for place in places), SMALL - 1)
