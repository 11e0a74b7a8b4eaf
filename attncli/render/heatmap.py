"""Heatmaps in a terminal: numbers on colour where there is room, then colour alone, then half blocks.

One matrix is drawn large, several as small tiles laid out by layer and head. What is too large is pooled by
maximum, and says so. Nothing is told by colour alone: there are numbers, or shades, or marks.
"""

from __future__ import annotations

from dataclasses import replace

from attncli.labels import cells
from attncli.registry import Entry
from attncli.render import Options
from attncli.render.grid_layout import labelled
from attncli.render.grid_text import fact_texts, place_names, require_grid, words
from attncli.render.patches import as_patches
from attncli.render.running_text import is_running_text
from attncli.render.scales import scale_of
from attncli.render.terminal.canvas import Line, paint, wrap
from attncli.render.terminal.cells import Pen
from attncli.render.terminal.head_maps import draw_head_maps
from attncli.render.terminal.legend import legend
from attncli.render.terminal.map_tiles import draw_tiles
from attncli.render.terminal.running_text import draw_running_text
from attncli.render.terminal.single_map import draw_single
from attncli.view import HeadRanking, MatrixGrid, View

ENTRY = Entry(
    name="heatmap",
    summary="Colours in a terminal: one matrix large, many as tiles by layer and head",
    attributes={
        "suffixes": (),
        "views": ("MatrixGrid", "HeadRanking"),
        "binary": False,
        "notes": True,
        "draws": True,
    },
)

_PIPED_WIDTH = 80
_NARROWEST = 20
_MOST_FACTS = 12


def render(view: View, options: Options) -> bytes:
    """Draw a grid as lines that are nowhere wider than the terminal; 80 cells in a pipe."""
    options = replace(options, width=max(_NARROWEST, options.width or _PIPED_WIDTH))
    if isinstance(view, HeadRanking):
        return _encoded(
            [*_head(view, options), *draw_head_maps(view, options), *_notes(view, options)], options
        )
    grid = require_grid(view, "heatmap")
    if is_running_text(grid, options):
        return _encoded(
            [*_head(grid, options), *draw_running_text(grid, options), *_foot(grid, options)], options
        )
    grid = as_patches(grid)
    pen = Pen(options, grid.unit, scale_of(grid))
    lines = _lines(grid, pen)
    if options.height is not None and len(lines) >= options.height:
        lines = _lines(grid, pen, repeat=True)
    return _encoded(lines, options)


def _encoded(lines: list[Line], options: Options) -> bytes:
    return paint(lines).encode("utf-8" if options.unicode else "ascii", "backslashreplace")


def _lines(grid: MatrixGrid, pen: Pen, *, repeat: bool = False) -> list[Line]:
    """Draw the whole picture.

    Args:
        repeat: Whether its title stands below the map too, and the labels of its columns.
    """
    options, head = pen.options, _head(grid, pen.options)
    if not grid.matrices or not grid.query_tokens or not grid.key_tokens:
        return [*head, [("nothing to show", "")], [], *_foot(grid, options)]
    single = len(grid.matrices) == 1
    drawn, marks = draw_single(grid, pen, repeat=repeat) if single else draw_tiles(grid, pen)
    below = head if repeat else ([] if single else [[]])
    if single and len(head) == 1 and drawn[0]:
        (title, style), (about, _) = head[0][0], drawn[0][0]
        if cells(title) + 3 + cells(about) <= (options.width or _PIPED_WIDTH):
            head, drawn = [[(title, style), (f" {words('·', options)} {about}", "")]], drawn[1:]
    return [*head, *drawn, *below, *legend(pen, marks), *_foot(grid, options)]


def _head(grid: MatrixGrid | HeadRanking, options: Options) -> list[Line]:
    assert options.width is not None
    bold = "1" if options.color != "none" else ""
    title = (
        wrap(words(grid.header.title, options), options.width, options.cut_mark) if grid.header.title else []
    )
    return [[(line, bold)] for line in title]


def _foot(grid: MatrixGrid, options: Options) -> list[Line]:
    return [*_wrapped(_fact_lines(grid), options), *_notes(grid, options)]


def _notes(view: MatrixGrid | HeadRanking, options: Options) -> list[Line]:
    return _wrapped([f"note: {note}" for note in view.header.notes], options)


def _wrapped(lines: list[str], options: Options) -> list[Line]:
    assert options.width is not None
    return [
        [(part, "")] for line in lines for part in wrap(words(line, options), options.width, options.cut_mark)
    ]


def _fact_lines(grid: MatrixGrid) -> list[str]:
    """Write the facts that no caption tells."""
    several = len(grid.matrices) > 1
    if several and labelled(grid.matrices):
        return []
    names = [f"{name}: " if several else "" for name in place_names(grid.matrices)]
    told = list(zip(names, grid.facts, strict=False))
    lines = [name + " · ".join(fact_texts(facts)) for name, facts in told[:_MOST_FACTS]]
    return [
        *lines,
        *([f"and {len(told) - _MOST_FACTS} more in the data formats"] if len(told) > _MOST_FACTS else []),
    ]
