"""Many matrices as one picture: panels by layer and head, all on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attncli.render import Options
from attncli.render.grid_layout import Place, arrange
from attncli.render.grid_text import count_text, fact_texts, is_time
from attncli.render.look import LEAST_FONT
from attncli.render.picture.axes import Axis, set_ticks, token_axis
from attncli.render.picture.fonts import picture_label
from attncli.render.picture.page_layout import (
    POINT,
    Page,
    best_columns,
    break_lines,
    fitted,
    ink,
    letters,
    note_texts,
    quiet,
    scale_room,
    text_width,
)
from attncli.render.picture.single_map import MASK_TEXT, add_scale, lay_under, paint_matrix
from attncli.render.scales import scales_of
from attncli.view import MatrixGrid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TOKEN = 0.105
_LARGEST = 2.6
_SMALLEST, _SMALLEST_PICTURE, _SMALLEST_WITH_FACTS = 0.9, 1.6, 1.5
_FLATTEST = 1 / 3
"""A panel of a few rows over many columns is at least this high, as a part of its width."""
_GAP = 0.1
_WIDEST = 10.0
_MOST_ACROSS = 16
_BROADEST = 2.4
"""A page of panels that would be wider than so many times its height is folded."""
_FACT = 0.85


@dataclass(frozen=True, slots=True)
class _Panels:
    """Where panels stand and how large they are, in inches."""

    places: list[Place]
    captions: list[list[str]]
    width: float
    height: float
    head: float
    x_axis: Axis
    y_axis: Axis


def draw_panels(grid: MatrixGrid, options: Options) -> Figure:
    """Draw each matrix of a grid as a panel with its name; labels stand at the left and at the bottom."""
    scales = scales_of(grid, options.look)
    page, laid = fitted(options.look, lambda stretch: _laid(grid, options, stretch))
    figure = page.figure()
    lowest = _lowest(laid.places)
    for place, caption in zip(laid.places, laid.captions, strict=True):
        top = place.row * (laid.height + laid.head + _GAP) + laid.head
        axes = page.axes(figure, place.column * (laid.width + _GAP), top, laid.width, laid.height)
        paint_matrix(axes, grid.matrices[place.index], grid.unit, scales[place.index], options)
        if grid.picture is not None:
            lay_under(axes, grid.picture, scales[place.index])
        _name(axes, place.name, caption, laid.width)
        if place.column == 0:
            set_ticks(axes, laid.y_axis, "y")
        if lowest[place.column] == place.row:
            set_ticks(axes, laid.x_axis, "x")
            if is_time(grid.key_tokens):
                axes.set_xlabel("time (s)", size=letters(), color=quiet(), parse_math=False)
    different = list(dict.fromkeys(scales))
    if len(different) == 1:
        add_scale(page, figure, grid.unit, scales[0], options)
        return figure
    for number, scale in enumerate(different):
        each = page.height / len(different)
        page.color_bar(figure, options, scale, laid.head + number * each, min(2.4, each - 1.5 * laid.head))
    return figure


def _laid(grid: MatrixGrid, options: Options, stretch: float) -> tuple[Page, _Panels]:
    """Lay panels and page out.

    Args:
        stretch: How many times as large as by themselves the panels are.
    """
    queries, keys = len(grid.query_tokens), len(grid.key_tokens)
    least = _SMALLEST if grid.picture is None else _SMALLEST_PICTURE
    least = max(least, _SMALLEST_WITH_FACTS) if grid.facts else least
    side = max(least, min(_LARGEST, keys * _TOKEN))
    ratio = max(min(queries / max(keys, 1), 1.5), min(_FLATTEST, queries * _TOKEN / side))
    head = letters(1.8) * POINT
    facts = max((len(fact_texts(one)) for one in grid.facts), default=0)
    tall = side * ratio + head + facts * letters(1.3 * _FACT) * POINT + _GAP

    def columns(each: int, lines: int) -> int:
        if options.look.columns is not None:
            return options.look.columns
        if each > _MOST_ACROSS or not 0 < each * (side + _GAP) / (lines * tall) <= _BROADEST or lines == 1:
            return min(_MOST_ACROSS, best_columns(each, side + _GAP, tall * lines, options.look))
        return each

    places = arrange(grid.matrices, columns)
    across = 1 + max(place.column for place in places)
    down = 1 + max(place.row for place in places)
    width = min(side, max(0.4, _WIDEST / across - _GAP)) * stretch
    height = width * ratio
    captions = [_caption(grid, place.index, width) for place in places]
    most = max(map(len, captions))
    captions = [[*caption, *[""] * (most - len(caption))] for caption in captions]
    head += letters(1.3 * _FACT) * POINT * most
    y_axis = token_axis(grid.query_tokens, options, height / max(queries, 1))
    x_axis = token_axis(grid.key_tokens, options, width / max(keys, 1))
    different = dict.fromkeys(scales_of(grid, options.look))
    page = Page(
        left=y_axis.longest() + 0.3,
        width=across * (width + _GAP) - _GAP,
        right=max(scale_room(None if grid.unit == "mask" else scale) for scale in different),
        below=x_axis.depth() + 0.16 + (letters(1.6) * POINT if is_time(grid.key_tokens) else 0),
        height=down * (height + head + _GAP) - _GAP,
        title=grid.header.title,
        about=f"{count_text(grid)} · {MASK_TEXT if grid.unit == 'mask' else grid.about}",
        notes=note_texts(grid),
        look=options.look,
    )
    return page, _Panels(places, captions, width, height, head, x_axis, y_axis)


def _lowest(places: Sequence[Place]) -> dict[int, int]:
    lowest: dict[int, int] = {}
    for place in places:
        lowest[place.column] = max(place.row, lowest.get(place.column, 0))
    return lowest


def _caption(grid: MatrixGrid, index: int, width: float) -> list[str]:
    """Break what is said of a matrix into lines of a panel's width."""
    texts = fact_texts(grid.facts[index]) if grid.facts else []
    return [line for text in texts for line in break_lines(picture_label(text), width, letters(_FACT))]


def _name(axes: Axes, name: str, caption: Sequence[str], width: float) -> None:
    """Write a panel's name above it and its facts between the two."""
    size = letters() * min(1, width / max(text_width(name, letters()), 0.01))
    above = 2.5 + len(caption) * letters(1.3 * _FACT)
    axes.set_title(
        picture_label(name) if name and size >= LEAST_FONT else "",
        size=size,
        color=ink(),
        pad=above,
        loc="left",
        parse_math=False,
    )
    for number, line in enumerate(reversed(caption)):
        if not line:
            continue
        axes.annotate(
            line,
            (0, 1),
            (0, 2.5 + number * letters(1.3 * _FACT)),
            xycoords="axes fraction",
            textcoords="offset points",
            size=letters(_FACT),
            color=quiet(),
            parse_math=False,
        )
