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
from attncli.render.picture.notes import note_texts
from attncli.render.picture.page_layout import (
    POINT,
    Page,
    best_columns,
    break_lines,
    fitted,
    ink,
    letters,
    quiet,
    scale_room,
    text_width,
)
from attncli.render.picture.single_map import MASK_TEXT, add_scale, lay_under, mask_facts, paint_matrix
from attncli.render.scales import scales_of
from attncli.view import Matrix, MatrixGrid

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
    """Where panels stand and how large they are, in inches.

    Args:
        edges: Whether layers and heads are named at the left and above instead of each panel.
    """

    places: list[Place]
    captions: list[list[str]]
    width: float
    height: float
    gap: float
    head: float
    above: float
    edges: bool
    x_axis: Axis
    y_axis: Axis


def draw_panels(grid: MatrixGrid, options: Options) -> Figure:
    """Draw each matrix of a grid as a panel with its name; labels stand at the left and at the bottom."""
    scales = scales_of(grid, options.look)
    page, laid = fitted(options.look, lambda stretch: _laid(grid, options, stretch))
    figure = page.figure()
    lowest = _lowest(laid.places)
    size = _name_size(laid)
    for place, caption in zip(laid.places, laid.captions, strict=True):
        top = laid.above + place.row * (laid.height + laid.head + laid.gap) + laid.head
        axes = page.axes(figure, place.column * (laid.width + laid.gap), top, laid.width, laid.height)
        paint_matrix(axes, grid.matrices[place.index], grid.unit, scales[place.index], options)
        if grid.picture is not None:
            lay_under(axes, grid.picture, scales[place.index])
        if laid.edges:
            _name_edges(axes, grid.matrices[place.index], place, laid.width + laid.gap)
            continue
        _name(axes, place.name, caption, size, laid.width)
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
        height = min(2.4, max(0.6 * each, each - 1.5 * laid.head))
        page.color_bar(figure, options, scale, number * each + min(laid.head, 0.2 * each), height)
    return figure


def _laid(grid: MatrixGrid, options: Options, stretch: float) -> tuple[Page, _Panels]:
    """Lay panels and page out.

    Args:
        stretch: How many times as large as by themselves the panels are.
    """
    queries, keys = len(grid.query_tokens), len(grid.key_tokens)
    side, ratio = _side(grid)
    places = _places(grid, options, side, ratio)
    across = 1 + max(place.column for place in places)
    down = 1 + max(place.row for place in places)
    width = min(side, max(0.4, _WIDEST / across - _GAP)) * stretch
    height, gap = width * ratio, min(_GAP, 0.15 * width)
    edges = _has_edges(grid, places, across, width)
    captions = _captions(grid, places, width, options) if not edges else [[] for _ in places]
    head = 0.0 if edges else letters(1.8) * POINT + letters(1.3 * _FACT) * POINT * len(captions[0])
    y_axis = token_axis(grid.query_tokens, options, height / max(queries, 1))
    x_axis = token_axis(grid.key_tokens, options, width / max(keys, 1))
    different = dict.fromkeys(scales_of(grid, options.look))
    named = text_width("L00", letters()) if edges else y_axis.longest()
    above = letters(1.8) * POINT if edges else 0.0
    page = Page(
        left=named + 0.3,
        width=across * (width + gap) - gap,
        right=max(scale_room(None if grid.unit == "mask" else scale) for scale in different),
        below=0.0
        if edges
        else x_axis.depth() + 0.16 + (letters(1.6) * POINT if is_time(grid.key_tokens) else 0),
        height=above + down * (height + head + gap) - gap,
        title=grid.header.title,
        about=f"{count_text(grid)} · {MASK_TEXT if grid.unit == 'mask' else grid.about}",
        notes=note_texts(grid),
        look=options.look,
    )
    return page, _Panels(places, captions, width, height, gap, head, above, edges, x_axis, y_axis)


def _side(grid: MatrixGrid) -> tuple[float, float]:
    """Return a panel's width in inches where no size is asked for, and its height as a part of that."""
    queries, keys = len(grid.query_tokens), max(len(grid.key_tokens), 1)
    least = _SMALLEST if grid.picture is None else _SMALLEST_PICTURE
    side = max(max(least, _SMALLEST_WITH_FACTS) if grid.facts else least, min(_LARGEST, keys * _TOKEN))
    return side, max(min(queries / keys, 1.5), min(_FLATTEST, queries * _TOKEN / side))


def _places(grid: MatrixGrid, options: Options, side: float, ratio: float) -> list[Place]:
    """Return where each panel stands: a line of heads is folded where the page would be too broad."""
    facts = max((len(fact_texts(one)) for one in grid.facts), default=0)
    tall = side * ratio + letters(1.8 + 1.3 * _FACT * facts) * POINT + _GAP

    def columns(each: int, lines: int) -> int:
        if options.look.columns is not None:
            return options.look.columns
        broad = each * (side + _GAP) / (lines * tall) > _BROADEST
        if each <= _MOST_ACROSS and lines > 1 and not broad:
            return each
        return min(_MOST_ACROSS, best_columns(each, side + _GAP, tall * lines, options.look))

    return arrange(grid.matrices, columns)


def _has_edges(grid: MatrixGrid, places: Sequence[Place], across: int, width: float) -> bool:
    """Return whether panels are too narrow for their names, and rows of layers and columns of heads can do without."""
    matrices = [grid.matrices[place.index] for place in places]
    told = all(
        matrix.layer == matrices[place.row * across].layer and matrix.head == matrices[place.column].head
        for place, matrix in zip(places, matrices, strict=True)
        if place.row * across < len(matrices)
    )
    longest = max(text_width(place.name, letters()) for place in places)
    complete = len(places) == across * (1 + max(place.row for place in places))
    return told and complete and longest > width and not any(matrix.label for matrix in matrices)


def _lowest(places: Sequence[Place]) -> dict[int, int]:
    lowest: dict[int, int] = {}
    for place in places:
        lowest[place.column] = max(place.row, lowest.get(place.column, 0))
    return lowest


def _captions(grid: MatrixGrid, places: Sequence[Place], width: float, options: Options) -> list[list[str]]:
    """Break what is said of each matrix into as many lines of a panel's width; on small panels there is no room."""
    said = []
    for place in places:
        facts = grid.facts[place.index] if grid.facts else {}
        texts = mask_facts(facts) if grid.unit == "mask" else fact_texts(facts)
        said.append([picture_label(text) for text in texts])
    longest = max((text_width(text, letters(_FACT)) for texts in said for text in texts), default=0)
    if options.look.size is not None and longest > 1.1 * width:
        return [[] for _ in places]
    captions = [
        [line for text in texts for line in break_lines(text, width, letters(_FACT))] for texts in said
    ]
    most = max(map(len, captions))
    return [[*caption, *[""] * (most - len(caption))] for caption in captions]


def _name_size(laid: _Panels) -> float:
    """Return the one size in which the names of all panels fit."""
    longest = max(text_width(place.name, letters()) for place in laid.places)
    return max(LEAST_FONT, letters() * min(1, laid.width / max(longest, 0.01)))


def _name_edges(axes: Axes, matrix: Matrix, place: Place, room: float) -> None:
    """Name a layer at the left of its row, and a head above its column, or some where there is no room for each."""
    every = 1 + int(text_width("H00 ", letters()) / room)
    name = {"size": letters(), "color": ink(), "parse_math": False}
    if place.column == 0:
        axes.set_ylabel(f"L{matrix.layer}", rotation=0, ha="right", va="center", **name)  # type: ignore[arg-type]
    if place.row == 0 and place.column % every == 0:
        axes.set_title(f"H{matrix.head}", pad=3, **name)  # type: ignore[arg-type]


def _name(axes: Axes, name: str, caption: Sequence[str], size: float, width: float) -> None:
    """Write a panel's name above it and its facts between the two."""
    above = 2.5 + len(caption) * letters(1.3 * _FACT)
    title = picture_label(name) if name else ""
    while len(title) > 2 and text_width(title, size) > width + _GAP / 2:
        title = title[:-2].rstrip(" …(") + "…"
    axes.set_title(title, size=size, color=ink(), pad=above, loc="left", parse_math=False)
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
