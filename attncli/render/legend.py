"""The colour bar, and what the marks in a heatmap mean."""

from __future__ import annotations

from attncli.labels import cells
from attncli.render.canvas import Line, wrap
from attncli.render.cells import FORBIDDEN_CODE, UNDEFINED_CODE, Pen

_BAR_CELLS = 24
_NAME = "weight  "
_SCALE = "  square-root scale"
_NUMBERS = 27
"""Cells of a colour bar that are no colour: its name and five numbers."""


def legend(pen: Pen, marks: set[str]) -> list[Line]:
    """Draw the bar from 0 to 1, and say what the marks mean that are in the picture.

    Args:
        marks: Of ``forbidden``, ``undefined``, ``maximum`` (the largest of a row is bold), ``numbers``,
            ``blank`` (forbidden pairs are left blank, not marked).
    """
    lines = [] if pen.unit == "mask" or ("numbers" in marks and not pen.paints) else [_bar(pen)]
    keys = _keys(pen, marks)
    return lines + _fold(keys, pen.options.width or 80)


def _bar(pen: Pen) -> Line:
    if pen.paints:
        bar = _color_bar(pen)
    else:
        bar = _shade_bar(pen)
    room = (pen.options.width or 80) - sum(cells(text) for text, _ in bar)
    return bar if room < len(_SCALE) else [*bar, (_SCALE, "")]


def _color_bar(pen: Pen) -> Line:
    """Draw the scale in four quarters; on a square root, half the bar is a quarter of the weight."""
    room = pen.options.width or 80
    steps = len(pen.paints)
    width = min(_BAR_CELLS, max(4, (room - _NUMBERS) // 4 * 4))
    bar: Line = [((_NAME if room >= _NUMBERS + 4 else "") + "0 ", "")]
    for cell in range(width):
        if cell and cell % (width // 4) == 0 and room >= _NUMBERS + 4:
            bar.append((f" {(cell / width) ** 2:.2f} ".replace(" 0.", " ."), ""))
        bar.append((" ", pen.paints[min(steps - 1, int((cell + 0.5) / width * steps))].filled))
    return [*bar, (" 1", "")]


def _shade_bar(pen: Pen) -> Line:
    """Draw each shade with the weight at which it begins, or every few where there is little room."""
    steps = len(pen.shades)
    for every in (1, 2, 5):
        bar = _NAME + " ".join(_shade(pen.shades, step, every) for step in range(0, steps, every)) + " 1"
        if cells(bar) <= (pen.options.width or 80):
            return [(bar, "")]
    return [(f"0 {pen.shades} 1", "")]


def _shade(shades: str, step: int, every: int) -> str:
    low = f"{(step / len(shades)) ** 2:.2f}"[1:] if step else "0"
    return f"{low} {shades[step : step + every]}"


def _keys(pen: Pen, marks: set[str]) -> list[list[tuple[str, str]]]:
    """Give each mark with its meaning, as runs."""
    keys: list[list[tuple[str, str]]] = []
    if pen.unit == "mask":
        keys.append([pen.cell(0, 2 if pen.paints else 1), (" may attend", "")])
    if "forbidden" in marks:
        mark, _ = pen.cell(FORBIDDEN_CODE, 1)
        keys.append([(f"{'blank' if 'blank' in marks else mark} may not attend", "")])
    if "undefined" in marks:
        mark, _ = pen.cell(UNDEFINED_CODE, 1)
        keys.append([(f"{mark} not a number", "")])
    if "maximum" in marks:
        keys.append([("bold", "1"), (" largest of its row", "")])
    if "numbers" in marks and not pen.paints:
        keys.append([("numbers are weights between 0 and 1", "")])
    return keys


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
