"""A computation as a picture: its data-flow as boxes and arrows, and beside it the steps with their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import matplotlib

from attncli.render import Options
from attncli.render.diagram import Place, places_of
from attncli.render.grid_text import words
from attncli.render.look import LEAST_FONT
from attncli.render.picture.fonts import picture_label
from attncli.render.picture.notes import facts_only
from attncli.render.picture.page_layout import (
    ALLOWED,
    POINT,
    Page,
    break_lines,
    ink,
    letters,
    quiet,
    text_width,
)
from attncli.render.picture.sheet import Sheet, draw_sheet, line_height, widest
from attncli.render.table import column_title, is_right, people_text
from attncli.view import Column, Node, Step, Steps, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELLS = 60
"""Characters across a diagram."""
_CELL = 0.62
"""Inches of a character, as a part of a letter's height in inches."""
_NARROWEST = 3.6
"""Inches that the steps need beside the diagram; otherwise they stand below it."""
_BAR = 0.9
_SMALLER = 0.97


def draw_steps(view: Steps | Table, options: Options) -> Figure:
    """Draw the diagram of a computation and, unless numbers are unwanted or the page is too low, its steps."""

    def page_of(sheet: Sheet) -> Page:
        header, size = view.header, (0.14, sheet.width, 0.14, 0.1, sheet.height)
        return Page(*size, header.title, "", list(header.notes), options.look)

    if isinstance(view, Table):
        width = _table_width(view)
        figure, _, _ = draw_sheet(lambda room: _one_table(view, room), max(width, 4.0), page_of, options.look)
        return figure
    low = options.look.size is not None and options.look.size[1] is not None
    alone = low or not options.look.numbers
    natural = _diagram_width() if alone else _diagram_width() + 0.5 + max(5.0, *map(_step_width, view.steps))

    def make(width: float) -> Sheet:
        sheet = Sheet(width)
        diagram = _diagram(view.flow, options)
        while diagram.width > width and letters(_SMALLER) >= LEAST_FONT:
            matplotlib.rcParams["font.size"] = letters(_SMALLER)
            diagram = _diagram(view.flow, options)
        beside = not alone and width >= diagram.width + _NARROWEST
        sheet.add(diagram, max(0.0, (width - diagram.width) / 2) if not beside else 0.0, 0.0)
        if not alone:
            left = diagram.width + 0.5 if beside else 0.0
            below = 0.0 if beside else sheet.height + line_height(2)
            sheet.add(_told(view.steps, width - left), left, below)
        return sheet

    figure, _, _ = draw_sheet(make, natural, page_of, options.look)
    return figure


def _diagram_width() -> float:
    return _CELLS * _CELL * letters() * POINT


def _diagram(flow: Sequence[Node], options: Options) -> Sheet:
    """Draw the nodes as boxes on levels, with arrows from one to the next."""
    texts = {node.name: [words(line, options) for line in node.lines if line] for node in flow}
    places = places_of(flow, texts, _CELLS)
    cell = _CELL * letters() * POINT
    heights = _level_heights(flow, texts, places)
    gap = line_height(1.3)
    tops = [sum(heights[:level]) + gap * level for level in range(len(heights))]
    left = min(place.centre * cell - _box_width(texts[name]) / 2 for name, place in places.items())
    right = max(place.centre * cell + _box_width(texts[name]) / 2 for name, place in places.items())
    sheet = Sheet(right - left, tops[-1] + heights[-1])
    centres = {name: place.centre * cell - left for name, place in places.items()}
    for node in flow:
        level = places[node.name].level
        for name in node.inputs:
            start = tops[places[name].level] + heights[places[name].level]
            turn, end = tops[level] - 0.62 * gap, (centres[node.name], tops[level])
            sheet.line((centres[name], start), (centres[name], turn), (end[0], turn), end, arrow=True)
    for node in flow:
        level, lines = places[node.name].level, texts[node.name]
        width = _box_width(lines)
        sheet.box(centres[node.name] - width / 2, tops[level], width, heights[level], _GROUND, ALLOWED)
        first = tops[level] + heights[level] / 2 - line_height(0.95) * (len(lines) - 1) / 2
        for number, line in enumerate(lines):
            shape = line.startswith("(") and number > 0
            at = first + line_height(0.95) * number
            sheet.text(centres[node.name], at, line, color=_QUIET if shape else _INK, align="center")
    return sheet


_GROUND, _INK, _QUIET = "#eaf2fb", "#222222", "#555555"
"""Boxes are light on any ground."""


def _box_width(lines: Sequence[str]) -> float:
    return widest(lines) + 1.6 * letters() * POINT


def _level_heights(
    flow: Sequence[Node], texts: Mapping[str, Sequence[str]], places: Mapping[str, Place]
) -> list[float]:
    last = max(place.level for place in places.values())
    lines = [
        max(len(texts[node.name]) for node in flow if places[node.name].level == level)
        for level in range(last + 1)
    ]
    return [line_height(0.95) * count + 0.6 * letters() * POINT for count in lines]


def _told(steps: Sequence[Step], width: float) -> Sheet:
    """Write each step: its name, its formula, what to see, its numbers."""
    sheet = Sheet(width)
    for count, step in enumerate(steps, 1):
        y = sheet.height + line_height(0.5 if count == 1 else 1.1)
        sheet.text(0, y, f"{count}. {step.name}", weight="bold", size=1.1)
        formula = "; ".join(step.formula.split("   ")) + (f" → {step.shape}" if step.shape else "")
        for text, color in [(formula, ink()), *((about, quiet()) for about in facts_only(step.about))]:
            for line in break_lines(picture_label(text), width, letters()):
                y += line_height()
                sheet.text(0, y, line, color=color)
        sheet.height = y + line_height(0.5)
        for table in step.tables:
            sheet.add(_table(table, width), 0.0, sheet.height + line_height(0.3))
    return sheet


def _one_table(table: Table, width: float) -> Sheet:
    sheet = Sheet(width)
    sheet.add(_table(table, width), 0.0, 0.0)
    return sheet


def _step_width(step: Step) -> float:
    return max((_table_width(table) for table in step.tables), default=0.0)


def _table_width(table: Table, size: float = 1.0, *, folded: bool = False) -> float:
    widths = _widths(table, size, folded=folded)
    return sum(widths) + _gap(size) * (len(widths) - 1)


def _gap(size: float) -> float:
    return 1.5 * letters(size) * POINT


def _widths(table: Table, size: float, *, folded: bool) -> list[float]:
    """Return each column's width in inches.

    Args:
        folded: Whether headings are broken at each space.
    """
    found = []
    for place, column in enumerate(table.columns):
        texts = [] if column.bar else [people_text(row[place], column) for row in table.rows]
        heading = column_title(column, Options())
        name = widest(heading.split(" ") if folded else [heading], size, "bold")
        found.append(max(_BAR if column.bar else 0, name, widest(texts, size)))
    return found


def _table(table: Table, width: float) -> Sheet:
    """Write a table in letters so small that it is no wider than asked for, and cut what still is."""
    size, folded = 0.95, _table_width(table, 0.95) > width
    while _table_width(table, size, folded=folded) > width and letters(size - 0.05) >= LEAST_FONT:
        size -= 0.05
    widths, gap = _widths(table, size, folded=folded), _gap(size)
    over = sum(widths) + gap * (len(widths) - 1) - width
    if over > 0:
        longest = max(range(len(widths)), key=widths.__getitem__)
        widths[longest] = max(widths[longest] - over, 0.2)
    names = [
        break_lines(column_title(column, Options()), room * 1.01, letters(size), "bold")
        for column, room in zip(table.columns, widths, strict=True)
    ]
    sheet, line, left = Sheet(width), line_height(size), 0.0
    top = line * max(map(len, names))
    for place, (column, room) in enumerate(zip(table.columns, widths, strict=True)):
        x, align = (left + room, "right") if is_right(table, place) else (left, "left")
        for number, name in enumerate(reversed(names[place])):
            sheet.text(x, top - (number + 0.5) * line, name, size=size, weight="bold", align=align)
        for number, row in enumerate(table.rows):
            y = top + (number + 0.8) * line
            if column.bar:
                sheet.box(left, y - 0.3 * line, _BAR * _share(row[place]), 0.6 * line, ALLOWED)
            else:
                sheet.text(x, y, _cut(row[place], column, room, size), size=size, align=align)
        left += room + gap
    sheet.line((0.0, top + 0.1 * line), (min(left - gap, width), top + 0.1 * line))
    sheet.height = top + (len(table.rows) + 0.6) * line
    return sheet


def _share(value: object) -> float:
    return min(max(float(str(value)), 0.0), 1.0)


def _cut(value: object, column: Column, room: float, size: float) -> str:
    text = picture_label(people_text(value, column)) if people_text(value, column) else ""
    if text_width(text, letters(size)) <= room * 1.01:
        return text
    while text and text_width(f"{text}…", letters(size)) > room:
        text = text[:-1]
    return f"{text.rstrip(' …')} …"
