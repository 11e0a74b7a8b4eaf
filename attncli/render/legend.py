"""The colour bar, and what the marks in a heatmap mean."""

from __future__ import annotations

from attncli.labels import cells
from attncli.render.canvas import Line
from attncli.render.cells import FORBIDDEN_CODE, UNDEFINED_CODE, Pen
from attncli.render.grids import words

_BAR_CELLS = 24
_NAME = "weight  "
_SCALE = "  square-root scale"


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
    width = min(_BAR_CELLS, max(4, ((pen.options.width or 80) - 26) // 4 * 4))
    steps = len(pen.paints)
    bar: Line = [(_NAME + "0 ", "")]
    for cell in range(width):
        if cell and cell % (width // 4) == 0:
            bar.append((f" {(cell / width) ** 2:.2f} ".replace(" 0.", " ."), ""))
        bar.append((" ", pen.paints[min(steps - 1, int((cell + 0.5) / width * steps))].filled))
    return [*bar, (" 1", "")]


def _shade_bar(pen: Pen) -> Line:
    steps = len(pen.shades)
    every = 1 if steps <= 5 else 2
    parts = []
    for step in range(0, steps, every):
        low = f"{(step / steps) ** 2:.2f}"[1:] if step else "0"
        parts.append(f"{low} {pen.shades[step : step + every]}")
    return [(_NAME + " ".join(parts) + " 1", "")]


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
    return [
        [(words(text, pen.options) if text.strip() == text else text, style) for text, style in key]
        for key in keys
    ]


def _fold(keys: list[list[tuple[str, str]]], width: int) -> list[Line]:
    """Put the keys beside one another, and into as many lines as they need."""
    lines: list[Line] = []
    used = 0
    for key in keys:
        size = sum(cells(text) for text, _ in key)
        if lines and used + 3 + size <= width:
            lines[-1] += [("   ", ""), *key]
            used += 3 + size
        else:
            lines.append(list(key))
            used = size
    return lines
