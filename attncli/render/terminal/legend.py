"""The colour bar, and what the marks in a heatmap mean."""

from __future__ import annotations

from attncli.labels import cells
from attncli.render.terminal.canvas import Line, wrap
from attncli.render.terminal.cells import Pen

_BAR_CELLS = 24


def legend(pen: Pen, marks: set[str]) -> list[Line]:
    """Draw the bar with its numbers, and say what the marks mean that are in the picture.

    Args:
        marks: Of ``forbidden``, ``undefined``, ``maximum`` (the largest of a row is bold, or has a star), ``numbers``,
            ``blank`` (forbidden pairs are left blank, not marked).
    """
    if pen.unit == "mask" or ("numbers" in marks and not pen.paints):
        return _fold(_keys(pen, marks), pen.options.width or 80)
    bar = _color_bar(pen) if pen.paints else _shade_bar(pen)
    form = f"  {pen.scale.form}"
    keys, width = _keys(pen, marks), pen.options.width or 80
    if sum(cells(text) for text, _ in [*bar, (form, "")]) <= width:
        return [[*bar, (form, "")], *_fold(keys, width)]
    return [bar, *_fold([[(pen.scale.form, "")], *keys], width)]


def _color_bar(pen: Pen) -> Line:
    """Draw the scale in four quarters with a number before each; only the ends' where there is little room."""
    room = pen.options.width or 80
    name, numbers = f"{pen.scale.name}  ", pen.scale.quarters()
    spare = room - len(name) - sum(map(len, numbers)) - 2 * (len(numbers) - 1)
    if spare < 4:
        name, numbers = "", [numbers[0], "", "", "", numbers[-1]]
        spare = room - len(numbers[0]) - len(numbers[-1]) - 2
    each = max(1, min(_BAR_CELLS, spare) // 4)
    steps = len(pen.paints)
    bar: Line = [(f"{name}{numbers[0]} ", "")]
    for cell in range(4 * each):
        if cell and cell % each == 0 and name:
            bar.append((f" {numbers[cell // each]} ", ""))
        bar.append((" ", pen.paints[min(steps - 1, int((cell + 0.5) / (4 * each) * steps))].filled))
    return [*bar, (f" {numbers[-1]}", "")]


def _shade_bar(pen: Pen) -> Line:
    """Draw each shade with the number at which it begins, or every few where there is little room."""
    low, *_, high = pen.scale.quarters()
    for every in (1, 2, 5):
        parts = [_shade(pen, step, every) for step in range(0, len(pen.shades), every)]
        bar = f"{pen.scale.name}  {' '.join(parts)} {high}"
        if cells(bar) <= (pen.options.width or 80):
            return [(bar, "")]
    bar = f"{low} {pen.shades} {high}"
    return [(bar if cells(bar) <= (pen.options.width or 80) else pen.shades, "")]


def _shade(pen: Pen, step: int, every: int) -> str:
    import numpy as np

    shades = pen.shades
    start = float(pen.scale.values_at(np.array(step / len(shades))))
    return f"{pen.scale.text(start)} {shades[step : step + every]}"


def _keys(pen: Pen, marks: set[str]) -> list[list[tuple[str, str]]]:
    """Return each mark with its meaning, as runs."""
    keys: list[list[tuple[str, str]]] = []
    if pen.unit == "mask":
        keys.append([pen.cell(0, 2 if pen.paints else 1), (" may attend", "")])
    if "forbidden" in marks:
        keys.append([(f"{blank_or_mark(pen, bool(marks & {'blank', 'numbers'}))} may not attend", "")])
    if "undefined" in marks:
        keys.append([(f"{pen.undefined} not a number", "")])
    if "maximum" in marks:
        mark = ("bold", "1") if pen.paints else ("*", "")
        keys.append([mark, (f" {pen.scale.strongest} of its row", "")])
    if "numbers" in marks and not pen.paints and not pen.scale.signed:
        what = {"share": "shares between 0 and 1", "size": "lengths"}
        keys.append([(f"numbers are {what.get(pen.unit, 'weights between 0 and 1')}", "")])
    if pen.scale.signed:
        keys += [[(text, "")] for text in _signed_keys(pen, marks)]
    return keys


def blank_or_mark(pen: Pen, blank: bool) -> str:
    """Name what stands in a place without a number: ``blank``, or a mark."""
    return "blank" if blank else pen.forbidden.strip() or "blank"


def _fold(keys: list[list[tuple[str, str]]], width: int) -> list[Line]:
    """Put the keys beside one another, and into as many lines as they need."""
    lines: list[Line] = []
    used = 0
    for key in keys:
        size = sum(cells(text) for text, _ in key)
        if size > width:
            text = "".join(text for text, _ in key)
            lines += [[(part, "")] for part in wrap(text, width)]
            used = width
            continue
        if lines and used + 3 + size <= width:
            lines[-1] += [("   ", ""), *key]
            used += 3 + size
        else:
            lines.append(list(key))
            used = size
    return lines


def _signed_keys(pen: Pen, marks: set[str]) -> list[str]:
    sign = "±" if pen.options.unicode else "+/-"
    bare = ["numbers are effective weights, with their sign"] if "numbers" in marks and not pen.paints else []
    return [*bare, f"{sign}{pen.scale.text(pen.scale.high)} is the largest absolute value"]
