"""Many matrices in a terminal: small tiles, layers below each other and heads beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from attncli.axis_cells import even_cuts
from attncli.labels import cells, fit, pad
from attncli.render.grid_layout import by_layer_and_head, labelled
from attncli.render.grid_text import count_text, fact_texts, short_names, token_labels, words
from attncli.render.pooling import pooled_fields, shown_size
from attncli.render.terminal.canvas import Line, blank, wrap
from attncli.render.terminal.cells import Pen
from attncli.render.terminal.single_map import Drawing, marks_in
from attncli.view import MatrixGrid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SMALLEST = 5
_GAP = 1


@dataclass(frozen=True)
class Shelf:
    """A row of tiles: its label, labels above its tiles (or none), and which matrices; None for a gap.

    Args:
        facts: What to say of each tile between its label and its picture, or empty.
    """

    label: str
    headings: Sequence[str]
    tiles: Sequence[int | None]
    facts: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class MapTile:
    """The size of every tile.

    Args:
        rows: Cells of the picture.
        columns: Likewise.
        cell: Terminal cells across for each of them.
        caption: Terminal cells for the words above a picture, where they need more than it.
    """

    rows: int
    columns: int
    cell: int
    caption: int = 0

    @property
    def width(self) -> int:
        """Terminal cells across, of the picture."""
        return self.columns * self.cell

    @property
    def place(self) -> int:
        """Terminal cells across, with the words above it."""
        return max(self.width, self.caption)


def draw_tiles(grid: MatrixGrid, pen: Pen) -> Drawing:
    """Draw each matrix of a grid as a tile; give the lines and the marks to explain below."""
    width = pen.options.width or 80
    lines: list[Line] = []
    tile = None
    codes = None
    for kind in dict.fromkeys(matrix.kind for matrix in grid.matrices):
        members = [index for index, matrix in enumerate(grid.matrices) if matrix.kind == kind]
        plan = _plan(grid, members, pen)
        gutter = max(len(shelf.label) + 1 if shelf.label else 0 for shelf in plan)
        tile = _tile(grid, pen, width - gutter, plan)
        cut = even_cuts(len(grid.query_tokens), tile.rows), even_cuts(len(grid.key_tokens), tile.columns)
        codes = pen.codes(pooled_fields(grid.matrices, grid.unit, *cut))
        lines += [
            [],
            *([[(words(kind, pen.options), "")]] if kind else []),
            *_shelves(plan, codes, tile, gutter, pen),
        ]
    assert tile is not None and codes is not None
    marks = marks_in(codes) | ({"blank"} if pen.halves and tile.cell == 1 else set())
    return [*_size_lines(grid, pen, tile), *lines], marks


def _plan(grid: MatrixGrid, members: list[int], pen: Pen) -> list[Shelf]:
    """Decide what stands where: layers by heads, or one after another where most places would be empty."""
    matrices, keys = grid.matrices, len(grid.key_tokens)
    if by_layer_and_head(matrices, members) is None:
        return _flow(grid, members, pen)
    layers = list(dict.fromkeys(matrices[index].layer for index in members))
    heads = list(dict.fromkeys(matrices[index].head for index in members))
    places = {(matrices[index].layer, matrices[index].head): index for index in members}
    shelves = []
    for band in _bands(len(heads), min(_SMALLEST, keys), (pen.options.width or 80) - 4):
        names = [_head_name(heads[column]) for column in band]
        for layer in layers:
            tiles = [places.get((layer, heads[column])) for column in band]
            shelves.append(Shelf(_layer_name(layer), names if layer == layers[0] else (), tiles))
    return shelves


def _flow(grid: MatrixGrid, members: list[int], pen: Pen) -> list[Shelf]:
    """Put tiles one after another; those with labels whole, if two of them fit beside each other."""
    width, keys = pen.options.width or 80, len(grid.key_tokens)
    every = short_names(grid.matrices)
    names = [words(every[index], pen.options) if every[index] else "" for index in members]
    captions = labelled(grid.matrices)
    facts = [grid.facts[index] if captions and grid.facts else {} for index in members]
    told = [[words(text, pen.options) for text in fact_texts(one)] for one in facts]
    whole = min(keys, (width - _GAP) // 2) if captions else 0
    longest = max((cells(word) for texts in told for text in texts for word in text.split(" ")), default=0)
    smallest = max(min(_SMALLEST, keys), whole, longest, *map(cells, names))
    bands = _bands(len(members), smallest, width)
    return [
        Shelf(
            "",
            [names[place] for place in band],
            [members[place] for place in band],
            [told[place] for place in band],
        )
        for band in bands
    ]


def _bands(count: int, smallest: int, room: int) -> list[range]:
    """Cut a count into bands of nearly one length that fit the room."""
    fitting = max(1, (room + _GAP) // (smallest + _GAP))
    each = -(-count // -(-count // fitting))
    return [range(start, min(start + each, count)) for start in range(0, count, each)]


def _tile(grid: MatrixGrid, pen: Pen, room: int, plan: Sequence[Shelf]) -> MapTile:
    """Choose the largest tile of which as many as a shelf has fit beside each other."""
    across = max(len(shelf.tiles) for shelf in plan)
    width = max(1, (room - _GAP * (across - 1)) // across)
    captions = (cells(text) for shelf in plan for texts in (shelf.headings, *shelf.facts) for text in texts)
    return replace(_picture(grid, pen, width), caption=min(width, max(captions, default=0)))


def _picture(grid: MatrixGrid, pen: Pen, width: int) -> MapTile:
    """Choose the largest picture of so many terminal cells across."""
    queries, keys = len(grid.query_tokens), len(grid.key_tokens)
    if width >= 2 * keys:
        return MapTile(queries, keys, 2)
    columns = min(keys, width)
    rows = max(1, round(queries * columns / keys))
    if not pen.halves:
        return MapTile(queries if columns == keys else max(1, (rows + 1) // 2), columns, 1)
    # An odd number of half-block rows leaves half a line free below the tile: a gap that costs nothing.
    return MapTile(min(queries, rows - 1 + rows % 2) if columns < keys and rows > 1 else rows, columns, 1)


def _shelves(
    plan: list[Shelf], codes: NDArray[np.int16], tile: MapTile, gutter: int, pen: Pen
) -> Iterator[Line]:
    half = pen.halves and tile.cell == 1
    for index, shelf in enumerate(plan):
        if index and (shelf.headings or not (half and tile.rows % 2)):
            yield []
        if shelf.headings:
            names = "".join(_heading(name, tile.place, pen) for name in shelf.headings)
            yield [(" " * gutter + names, "")]
        yield from _captions(shelf, tile, gutter, pen)
        yield from _shelf(shelf, codes, tile, gutter, pen, half)


def _captions(shelf: Shelf, tile: MapTile, gutter: int, pen: Pen) -> Iterator[Line]:
    """Write what is said of each tile, each fact on lines of its own."""
    columns = [
        [line for text in texts for line in wrap(text, tile.place, pen.options.cut_mark)]
        for texts in shelf.facts
    ]
    for lines in zip_longest(*columns, fillvalue=""):
        yield [(" " * gutter + "".join(pad(line, tile.place + _GAP) for line in lines), "")]


def _heading(name: str, width: int, pen: Pen) -> str:
    return pad(fit(name, width, pen.options.cut_mark), width + _GAP)


def _shelf(
    shelf: Shelf, codes: NDArray[np.int16], tile: MapTile, gutter: int, pen: Pen, half: bool
) -> list[Line]:
    height = -(-tile.rows // 2) if half else tile.rows
    empty: list[Line] = [[blank(tile.width)]] * height
    drawn = []
    for place in shelf.tiles:
        if place is None:
            drawn.append(empty)
        else:
            drawn.append(pen.half_blocks(codes[place]) if half else pen.whole_cells(codes[place], tile.cell))
    lines: list[Line] = []
    for row in range(height):
        line: Line = [(pad(shelf.label if row == 0 else "", gutter), "")]
        for column, picture in enumerate(drawn):
            line += ([blank(_GAP + tile.place - tile.width)] if column else []) + picture[row]
        lines.append(line)
    return lines


def _size_lines(grid: MatrixGrid, pen: Pen, tile: MapTile) -> list[Line]:
    queries, keys = len(grid.query_tokens), len(grid.key_tokens)
    size = f"{queries}×{keys} each"
    if (tile.rows, tile.columns) != (queries, keys):
        size = shown_size(grid, tile.rows, tile.columns, pen.scale.pooled_by)
    text = words(f"{count_text(grid)} shown · {grid.about} · {size}", pen.options)
    width = pen.options.width or 80
    tokens = " ".join(token_labels(grid.key_tokens[:width], pen.options))
    return [
        *([(line, "")] for line in wrap(text, width, pen.options.cut_mark)),
        [(fit(f"columns: {tokens}", width, pen.options.cut_mark), "")],
    ]


def _layer_name(layer: object) -> str:
    return "" if layer is None else (f"L{layer}" if isinstance(layer, int) else str(layer))


def _head_name(head: object) -> str:
    return "" if head is None else (f"H{head}" if isinstance(head, int) else str(head))
