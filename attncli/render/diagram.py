"""A data-flow diagram in characters, from the top down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attncli.labels import cells, fit
from attncli.registry import Entry
from attncli.render import Options
from attncli.render.grid_text import words
from attncli.render.mermaid import require_steps
from attncli.render.table import note_lines, title_lines
from attncli.view import Node, View

ENTRY = Entry(
    name="diagram",
    summary="Data-flow diagram in characters, with true shapes",
    attributes={"suffixes": (), "views": ("Steps",), "binary": False, "notes": True},
)

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_BOX = {
    0: " ", 3: "│", 12: "─", 5: "┘", 9: "└", 6: "┐", 10: "┌", 7: "┤", 11: "├", 13: "┴", 14: "┬", 15: "┼",
}  # fmt: skip
_ASCII = {0: " ", 3: "|", 12: "-"}
_GAP = 3


def render(view: View, options: Options) -> bytes:
    """Draw a computation's data-flow, no line wider than asked for."""
    steps = require_steps(view, "diagram")
    drawn = "".join(line + "\n" for line in draw(steps.flow, options))
    text = title_lines(steps.header, options) + drawn + note_lines(steps.header, options)
    return text.encode("utf-8" if options.unicode else "ascii", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands: on which level, around which column of the screen."""

    level: int
    centre: int


def draw(flow: Sequence[Node], options: Options) -> list[str]:
    """Draw nodes on levels, each below all that it comes from, with lines between.

    >>> for line in draw([Node("a", ("a",)), Node("b", ("b",), ("a",)), Node("c", ("c",), ("a",))], Options()):
    ...     print(line)
      a
    ┌─┴─┐
    b   c
    """
    width = options.width or 80
    texts = {node.name: [words(line, options) for line in node.lines] for node in flow}
    places = places_of(flow, texts, width)
    lines: list[str] = []
    last = max(place.level for place in places.values())
    for level in range(last + 1):
        if level:
            lines.append(_between(flow, places, level, options, width).rstrip())
        lines += _on_level(flow, texts, places, level, options)
    return lines


def places_of(flow: Sequence[Node], texts: Mapping[str, Sequence[str]], width: int) -> dict[str, Place]:
    """Return each node its place.

    The fullest level is spread out evenly. What comes after stands in the middle of what it comes from, and what
    comes before in the middle of what comes from it.
    """
    levels: dict[str, int] = {}
    for node in flow:
        levels[node.name] = 1 + max((levels[name] for name in node.inputs), default=-1)
    for node in flow:  # what comes from nothing stands right above what comes from it
        if not node.inputs and any(node.name in other.inputs for other in flow):
            levels[node.name] = min(levels[other.name] for other in flow if node.name in other.inputs) - 1
    counts = [list(levels.values()).count(level) for level in range(max(levels.values()) + 1)]
    fullest = counts.index(max(counts))
    across = [name for name, level in levels.items() if level == fullest]
    longest = max(cells(line) for name in across for line in texts[name])
    room = min(longest, (width - _GAP * (len(across) - 1)) // len(across))
    centres = {name: index * (room + _GAP) + room // 2 for index, name in enumerate(across)}
    for node in flow:
        if levels[node.name] > fullest:
            centres[node.name] = _middle([centres[name] for name in node.inputs])
    for node in reversed(flow):
        if levels[node.name] < fullest:
            fed = [centres[other.name] for other in flow if node.name in other.inputs]
            centres[node.name] = _middle(fed)
    return {name: Place(levels[name], centre) for name, centre in centres.items()}


def _middle(centres: Sequence[int]) -> int:
    return (min(centres) + max(centres)) // 2


def _on_level(
    flow: Sequence[Node],
    texts: Mapping[str, Sequence[str]],
    places: Mapping[str, Place],
    level: int,
    options: Options,
) -> list[str]:
    here = {node.name: places[node.name].centre for node in flow if places[node.name].level == level}
    passing = sorted({centre for start, end, centre in _lines(flow, places) if start < level < end})
    rooms = {name: _room(name, here, passing, options.width or 80) for name in here}
    mark = _BOX[3] if options.unicode else _ASCII[3]
    drawn = []
    for row in range(max(len(texts[name]) for name in here)):
        named = [
            (centre, texts[name][row], rooms[name]) for name, centre in here.items() if row < len(texts[name])
        ]
        parts = [(centre, fit(text, room, options.cut_mark)) for centre, text, room in named]
        drawn.append(_centred(sorted([*parts, *((centre, mark) for centre in passing)])))
    return drawn


def _room(name: str, here: Mapping[str, int], passing: Sequence[int], width: int) -> int:
    """Return the cells that a node's text may have, between its neighbours and the lines that pass."""
    centre = here[name]
    halves = [centre, width - 1 - centre]
    halves += [abs(centre - other) // 2 - 1 for neighbour, other in here.items() if neighbour != name]
    halves += [abs(centre - line) - 2 for line in passing]
    return 2 * max(min(halves), 0) + 1


def _lines(flow: Sequence[Node], places: Mapping[str, Place]) -> list[tuple[int, int, int]]:
    """Return the first level, the last level and the column of each line between two nodes."""
    ends = [(places[name], places[node.name]) for node in flow for name in node.inputs]
    return [(start.level, end.level, start.centre) for start, end in ends]


def _centred(parts: Sequence[tuple[int, str]]) -> str:
    line = ""
    for centre, text in parts:
        start = max(centre - cells(text) // 2, cells(line) + bool(line))
        line += " " * (start - cells(line)) + text
    return line


def _between(
    flow: Sequence[Node], places: Mapping[str, Place], level: int, options: Options, width: int
) -> str:
    """Draw the lines from one level to the next: straight down, or across to where they end."""
    bits = [0] * width
    for node in flow:
        for start, end in ((places[name], places[node.name]) for name in node.inputs):
            if start.level < level <= end.level:
                _add_line(bits, start.centre, end.centre if end.level == level else start.centre)
    if options.unicode:
        return "".join(_BOX.get(bit, "│") for bit in bits)
    return "".join(_ASCII.get(bit, "+") for bit in bits)


def _add_line(bits: list[int], start: int, end: int) -> None:
    bits[start] |= _UP
    bits[end] |= _DOWN
    for column in range(min(start, end), max(start, end) + 1):
        bits[column] |= (_LEFT if column > min(start, end) else 0) | (
            _RIGHT if column < max(start, end) else 0
        )
