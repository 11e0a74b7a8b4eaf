"""The labels along a picture's axes: which of them there is room for, how small, and which way they stand."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attncli.render import Options
from attncli.render.grid_text import is_time, placed_label, token_labels
from attncli.render.picture.fonts import picture_label
from attncli.render.picture.page_layout import POINT, ink, least_letters, letters, text_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from attncli.record import Tokens

MOST_LABELS = 48
_LONGEST_LABEL = 24
_LARGEST_SHARE = 0.22
"""Of a page of a given width, how much its labels may take."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Labels along one axis.

    Args:
        places: Where they stand.
        labels: What they say.
        size: Of the letters, in points.
        room: Inches from one label to the next.
    """

    places: tuple[int, ...]
    labels: tuple[str, ...]
    size: float
    room: float = 0.0

    def longest(self) -> float:
        """Return the length of the longest label in inches."""
        return max((text_width(label, self.size) for label in self.labels), default=0.0)

    @property
    def lying(self) -> bool:
        """Return whether each label has room enough beside the next one to be read without turning the head."""
        return self.longest() <= 0.85 * self.room

    def depth(self) -> float:
        """Return how far the labels reach below the drawing, in inches, if this axis is the lower one."""
        return 1.2 * self.size * POINT if self.lying else self.longest()


def token_axis(tokens: Tokens, options: Options, cell: float) -> Axis:
    """Label an axis: each token where there is room, otherwise some, with their positions.

    Args:
        cell: Inches from one token to the next.
    """
    if is_time(tokens):
        return _time_axis(tokens, cell)
    smallest, most = least_letters(), _LONGEST_LABEL
    if options.look.size is not None:
        most = max(8, min(most, int(_LARGEST_SHARE * options.look.size[0] / (0.55 * letters() * POINT))))
    labels, positions = token_labels(tokens, options), [token.position for token in tokens]
    size = min(letters(1.1), cell / POINT * 0.82)
    if size >= smallest and len(labels) <= MOST_LABELS:
        return Axis(tuple(range(len(labels))), tuple(_short(label, most) for label in labels), size, cell)
    if len(labels) > 1 and positions[-1] - positions[0] >= len(labels):
        return _pooled_axis(positions, cell, smallest)
    step = round_step(smallest * 1.5 * POINT / cell, len(labels))
    places = tuple(range(0, len(labels), step))
    return Axis(
        places,
        tuple(_short(placed_label(tokens[place], options), most) for place in places),
        1.08 * smallest,
        step * cell,
    )


def _pooled_axis(positions: Sequence[int], cell: float, smallest: float) -> Axis:
    """Label an axis whose cells stand for several positions each: at round positions, in the cells that hold them."""
    each = (positions[-1] - positions[0]) / (len(positions) - 1)
    length = positions[-1] + round(each)
    step = round_step(smallest * 1.5 * POINT / cell * each, length)
    marks = range(-(-positions[0] // step) * step, length, step)
    places = tuple(bisect_right(positions, mark) - 1 for mark in marks)
    return Axis(places, tuple(f"{mark:,}" for mark in marks), 1.08 * smallest, step / each * cell)


def _time_axis(tokens: Tokens, cell: float) -> Axis:
    """Label an axis of a sound's moments with whole seconds; of a very short sound with parts of them."""
    times = [float(token.label.removesuffix(" s")) for token in tokens]
    second = cell * (len(times) - 1) / max(times[-1] - times[0], 1e-9)
    least = 4 * letters() * POINT / second
    steps = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
    step = next((size for size in steps if size >= least and (size >= 1 or times[-1] - times[0] < 2)), 600)
    marks = [count * step for count in range(math.ceil(times[0] / step), int(times[-1] / step) + 1)]
    places = tuple(bisect_right(times, mark + 1e-6) - 1 for mark in marks)
    return Axis(places, tuple(f"{mark:g}" for mark in marks), letters(), step * second)


def round_step(least: float, length: int) -> int:
    """Choose a step that people count in, at least `least`, and not more than 40 steps in a length.

    >>> round_step(2.4, 30), round_step(0.1, 1000)
    (5, 25)
    """
    least = max(least, length / 40)
    sizes = (digit * 10**power for power in range(9) for digit in (1, 2, 2.5, 5))
    return next(int(size) for size in sizes if size >= least and size == int(size))


def _short(label: str, most: int) -> str:
    """Make a label fit for a picture, and cut it: of its characters, or of the numbers that stand for them."""
    from attncli.labels import fit

    room = most
    while len(said := picture_label(fit(label, room))) > most and room > 1:
        room -= 1
    return said


def set_ticks(axes: Axes, labels: Axis, which: str) -> None:
    """Write an axis's labels, those along x upright where they would touch."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks(
        list(labels.places),
        labels=list(labels.labels),
        size=labels.size,
        color=ink(),
        parse_math=False,
        rotation=90 if which == "x" and not labels.lying else 0,
    )
    axis.set_tick_params(length=0, pad=3)
