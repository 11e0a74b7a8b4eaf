"""Maps of heads in a terminal: layers below each other, heads beside each other, a number or a colour in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attncli.labels import pad
from attncli.render import Options
from attncli.render.grid_text import words
from attncli.render.pooling import Field
from attncli.render.scales import metric_title, ranking_scale
from attncli.render.terminal.canvas import Line, wrap
from attncli.render.terminal.cells import FORBIDDEN_CODE, UNDEFINED_CODE, Pen
from attncli.render.terminal.legend import blank_or_mark, legend
from attncli.view import HeadMap, HeadRanking

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NARROWEST_NUMBER = 4
_TICK = 5


def draw_head_maps(view: HeadRanking, options: Options) -> list[Line]:
    """Draw each map with its layers and heads, and the scale below."""
    pen = Pen(options, "signed", ranking_scale(view))
    drawn = [_draw_map(map_, pen) for map_ in view.maps]
    if not drawn:
        return [[("nothing to show", "")], []]
    about = f"rows are layers, columns are heads · {metric_title(view.metric)}"
    lines: list[Line] = [
        [(part, "")] for part in wrap(words(about, options), options.width or 80, options.cut_mark)
    ]
    for map_, (body, _) in zip(view.maps, drawn, strict=True):
        lines += [[], [(words(map_.kind, options), "")], *body]
    with_numbers = any(numbers for _, numbers in drawn)
    return [*lines, [], *_legend(pen, with_numbers, gaps_of(view))]


def _draw_map(map_: HeadMap, pen: Pen) -> tuple[list[Line], bool]:
    """Draw one map; say whether its numbers are in it."""
    codes = pen.codes(Field(map_.values))
    codes[codes == UNDEFINED_CODE] = FORBIDDEN_CODE
    texts = [[pen.scale.text(value) for value in row] for row in map_.values.tolist()]
    gutter = 1 + max((len(f"L{layer}") for layer in map_.layers), default=0)
    room = (pen.options.width or 80) - gutter
    widest = 1 + max((len(text) for row in texts for text in row if text != "nan"), default=0)
    column = max(_NARROWEST_NUMBER, widest)
    if column * len(map_.heads) <= room:
        rows = [
            [pen.number(text, code, column, False) for text, code in zip(*pair, strict=True)]
            for pair in zip(texts, codes.tolist(), strict=True)
        ]
        heading = "".join(pad(f"H{head}", column, "right") for head in map_.heads)
        return [[(" " * gutter + heading, "")], *_labelled(map_, rows, gutter)], True
    return _colors(map_, codes, gutter, room, pen), False


def _colors(map_: HeadMap, codes: NDArray[np.int16], gutter: int, room: int, pen: Pen) -> list[Line]:
    """Draw colours alone, two cells a head or one, in several bands where even these do not fit."""
    cell = 2 if 2 * len(map_.heads) <= room else 1
    each = max(1, room // cell)
    lines: list[Line] = []
    for first in range(0, len(map_.heads), each):
        part = slice(first, first + each)
        lines += [[]] if first else []
        lines.append([(" " * gutter + _ticks(map_.heads[part], cell), "")])
        lines += _labelled(map_, pen.whole_cells(codes[:, part], cell), gutter)
    return lines


def _ticks(heads: tuple[int, ...], cell: int) -> str:
    """Mark each fifth head where there is room, or each tenth."""
    every = _TICK if cell == 2 else 2 * _TICK
    line = ""
    for place in range(0, len(heads), every):
        line = pad(line, place * cell) + f"H{heads[place]}"
    return line[: cell * len(heads)] if heads else line


def _labelled(map_: HeadMap, rows: list[Line], gutter: int) -> list[Line]:
    return [
        [(pad(f"L{layer}", gutter - 1, "right") + " ", ""), *row]
        for layer, row in zip(map_.layers, rows, strict=True)
    ]


def _legend(pen: Pen, with_numbers: bool, gaps: Sequence[str]) -> list[Line]:
    mark = blank_or_mark(pen, with_numbers)
    texts = (f"{mark} {meaning}" for meaning in gaps)
    about: list[Line] = [[(part, "")] for text in texts for part in wrap(text, pen.options.width or 80)]
    if with_numbers and not pen.paints:
        return about  # the numbers stand there
    return [*legend(pen, set()), *about]


def gaps_of(view: HeadRanking) -> list[str]:
    """Return what places without a number mean, where there are any."""
    import numpy as np

    return list(dict.fromkeys(map_.gaps for map_ in view.maps if np.isnan(map_.values).any()))
