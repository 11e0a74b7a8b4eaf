"""Lines of styled text, and the escape codes that paint them.

A style is the parameters of one escape code (``1;97;44``), empty for plain text. Written by hand rather than
by a console library: exact, fast for thousands of cells, and without one escape byte when no style is set.
"""

from __future__ import annotations

from collections.abc import Iterable

from attncli.labels import cells, fit, pad
from attncli.segmentation import graphemes

Run = tuple[str, str]
"""A text and its style."""

Line = list[Run]


def paint(lines: Iterable[Line]) -> str:
    """Write lines with as few escape codes as will do; each line ends plain and without trailing blanks."""
    return "".join(_paint_line(line) + "\n" for line in lines)


def _paint_line(line: Line) -> str:
    out: list[str] = []
    current = ""
    for text, style in line:
        if style != current:
            reset = "0;" if current and style else ""  # a bold style must not leak into the next
            out.append(f"\x1b[{reset}{style or 0}m")
            current = style
        out.append(text)
    if current:
        out.append("\x1b[0m")
        return "".join(out)
    return "".join(out).rstrip(" ")


def blank(width: int) -> Run:
    """Return some plain spaces."""
    return " " * width, ""


def wrap(text: str, width: int, mark: str | None = "…") -> list[str]:
    """Break a text into lines of at most `width` cells, at spaces.

    Args:
        mark: What a longer word ends in; None where it goes on in the next line.
    """
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if cells(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        while mark is None and cells(word) > width:
            lines.append(fit(word, width, "") or word[0])
            word = word[len(lines[-1]) :]
        line = word if mark is None else fit(word, width, mark)
    return [*lines, line] if line or not lines else lines


def upright(labels: list[str], height: int, column: int, lead: int, mark: str) -> list[str]:
    """Write labels downwards over columns of a width, one character a line, feet on the last line.

    Args:
        height: Lines to use at most; a longer label ends in the mark.
        lead: Cells in front of a narrow character; a wide one begins a cell earlier.
    """
    stacks = [graphemes(label) for label in labels]
    stacks = [stack if len(stack) <= height else [*stack[: height - 1], mark] for stack in stacks]
    tallest = max(map(len, stacks), default=0)
    filled = [[" "] * (tallest - len(stack)) + stack for stack in stacks]
    return ["".join(_centred(stack[line], column, lead) for stack in filled) for line in range(tallest)]


def _centred(character: str, column: int, lead: int) -> str:
    before = max(0, lead - max(0, cells(character) - 1))
    return pad(" " * before + fit(character, column - before, ""), column)
