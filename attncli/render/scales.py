"""What a number becomes on a scale of colours: a place between 0 and 1, a short text, the texts beside the bar.

The scale of weights is a square root, so that small ones are seen; numbers of heads have a linear one. Weights go from
0 to 1, those on a picture's patches or a sound's moments and other numbers of heads to the largest of them. Signed
numbers go as far below 0 as above it, to the largest absolute value, so that 0 is always the middle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from attncli.render.grid_text import is_time
from attncli.render.look import Look
from attncli.view import Column, HeadRanking, Matrix, MatrixGrid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.floating[Any]]

_PLAIN = (1e-3, 1e4)
"""A largest value between these is written without an exponent, and so are all beside it."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale from `low` to `high`, square-root or linear.

    Args:
        name: What the numbers are, for a colour bar.
        low: 0, or as far below 0 as `high` is above.
        linear: Whether equal steps of the number are equal steps of colour.
    """

    name: str = "weight"
    low: float = 0.0
    high: float = 1.0
    linear: bool = False

    @property
    def signed(self) -> bool:
        """Whether it diverges from 0."""
        return self.low < 0

    @property
    def of_weights(self) -> bool:
        """Whether it goes from 0 to 1."""
        return (self.low, self.high) == (0, 1)

    @property
    def form(self) -> str:
        """Name the scale's form."""
        return f"{'signed ' if self.signed else ''}{'linear' if self.linear else 'square-root'} scale"

    @property
    def ticks(self) -> tuple[float, ...]:
        """Numbers to write beside a colour bar."""
        if self.of_weights and not self.linear:
            return 0, 0.05, 0.25, 0.5, 1
        if not self.linear:
            return self._quarters
        above = even_values(self.high)
        return tuple([*(-value for value in above[:0:-1]), *above] if self.signed else above)

    @property
    def strongest(self) -> str:
        """Return what stands out in a row, and what pooling keeps."""
        return "largest absolute value" if self.signed else "largest"

    @property
    def pooled_by(self) -> str:
        """Return what a cell that covers several pairs shows of them."""
        return self.strongest if self.signed else "max"

    def places(self, values: Numbers) -> Numbers:
        """Return each number its place, 0 at `low` and 1 at `high`; what lies outside goes to the end."""
        import numpy as np

        clipped = np.clip(values, self.low, self.high)
        if self.linear:
            return (clipped - self.low) / (self.high - self.low)
        low, high = _root(self.low), _root(self.high)
        places: Numbers = (np.copysign(np.sqrt(np.abs(clipped)), clipped) - low) / (high - low)
        return places

    def values_at(self, places: Numbers) -> Numbers:
        """Return the numbers at places: the inverse of `places`."""
        import numpy as np

        if self.linear:
            return self.low + np.asarray(places) * (self.high - self.low)
        low, high = _root(self.low), _root(self.high)
        root = low + np.asarray(places) * (high - low)
        values: Numbers = root * np.abs(root)
        return values

    def text(self, value: float) -> str:
        """Write a number in the few cells that a heatmap has."""
        if math.isnan(value):
            return "nan"
        return short_number(value) if self.of_weights else signed_number(value, self.high)

    def tick_texts(self) -> list[str]:
        """Write the numbers beside a colour bar."""
        if self.of_weights:
            return [f"{tick:g}".replace("0.", ".") for tick in self.ticks]
        return [self.text(tick) for tick in self.ticks]

    def quarters(self) -> list[str]:
        """Write the numbers at 0, ¼, ½, ¾ and 1 of the scale's length."""
        if self.of_weights:
            return ["0", ".25", ".5", ".75", "1"] if self.linear else ["0", ".06", ".25", ".56", "1"]
        return [self.text(part) for part in self._quarters]

    @property
    def _quarters(self) -> tuple[float, ...]:
        places = (-1, -0.5, 0, 0.5, 1) if self.signed else (0, 0.25, 0.5, 0.75, 1)
        return tuple(self.high * (part if self.linear else part * abs(part)) for part in places)


WEIGHTS = Scale()


def scale_of(grid: MatrixGrid) -> Scale:
    """Return the one scale of all matrices of a grid."""
    if grid.picture is not None or is_time(grid.key_tokens):  # of hundreds of keys each has little
        return Scale(high=largest_size(grid.matrices) or 1.0)
    return signed_scale(largest_size(grid.matrices)) if grid.unit == "signed" else WEIGHTS


def scales_of(grid: MatrixGrid, look: Look) -> list[Scale]:
    """Return each matrix's scale in a picture, as its look wants them.

    Where variants stand beside each other, only those whose numbers have a sign are on the scale that diverges.
    """
    common = with_look(scale_of(grid), look)
    if grid.unit != "signed" or not any(matrix.label for matrix in grid.matrices):
        return [common] * len(grid.matrices)
    plain = with_look(WEIGHTS, look)
    if any((matrix.label or "").endswith("difference") for matrix in grid.matrices):
        common = replace(common, name="difference of weights")
    return [plain if _is_plain(matrix) else common for matrix in grid.matrices]


def _is_plain(matrix: Matrix) -> bool:
    """Return whether all of a matrix's numbers may be weights."""
    import numpy as np

    return bool(np.min(matrix.values, initial=0) >= 0 and largest_size([matrix]) <= 1 + 1e-6)


def with_look(scale: Scale, look: Look) -> Scale:
    """Return a scale with the form and the upper end that a look asks for."""
    high = look.vmax or scale.high
    linear = scale.linear if look.scale is None else look.scale == "linear"
    return replace(scale, low=-high if scale.signed else 0.0, high=high, linear=linear)


def ranking_scale(view: HeadRanking) -> Scale:
    """Return the one scale of all maps of a ranking: 0 to 1 for large shares, otherwise to the largest number."""
    import numpy as np

    found = np.concatenate([map_.values.ravel() for map_ in view.maps] or [np.zeros(0, np.float32)])
    found = found[np.isfinite(found)]
    name = metric_title(view.metric)
    if np.min(found, initial=0) < 0:
        return replace(signed_scale(float(np.max(np.abs(found)))), name=name, linear=True)
    largest = float(np.max(found, initial=0))
    if 0.5 < largest <= 1 and view.metric.unit in ("", "weight", "share"):
        largest = 1.0
    return Scale(name, high=largest or 1.0, linear=True)


def metric_title(metric: Column) -> str:
    """Name a metric with its unit.

    >>> metric_title(Column("entropy", unit="bits")), metric_title(Column("previous_token"))
    ('entropy (bits)', 'previous token')
    """
    name = metric.title or metric.name.replace("_", " ")
    return f"{name} ({metric.unit})" if metric.unit else name


def signed_scale(largest: float) -> Scale:
    """Return the scale that diverges from 0 to ± the largest absolute value; to ±1 where all are 0."""
    return Scale("effective weight", -(largest or 1.0), largest or 1.0)


def largest_size(matrices: Iterable[Matrix]) -> float:
    """Find the largest absolute value among the allowed and defined numbers; 0 where there is none."""
    import numpy as np

    found = 0.0
    for matrix in matrices:
        values = matrix.values if matrix.listed is None else matrix.listed.weights
        counted = np.isfinite(values)
        if matrix.allowed is not None:
            counted &= matrix.allowed
        high, low = np.max(values, initial=0, where=counted), np.min(values, initial=0, where=counted)
        found = max(found, float(high), -float(low))
    return found


def even_values(high: float) -> list[float]:
    """Return the values to name on an axis from 0: from four to eight, a round step apart.

    >>> even_values(5.9)
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    """
    step = 10.0 ** math.floor(math.log10(high))
    step = next(step / part for part in (0.5, 1, 2, 4, 5, 10) if high / (step / part) >= 4)
    return [index * step for index in range(math.floor(high / step + 1e-9) + 1)]


def short_number(value: float) -> str:
    """Write a weight in at most three cells.

    >>> short_number(0.817), short_number(0.004), short_number(0.996), short_number(0.0)
    ('.82', '.00', '1.0', '0')
    """
    if value == 0:
        return "0"
    return "1.0" if value >= 0.995 else f"{max(value, 0):.2f}"[1:]


def signed_number(value: float, largest: float) -> str:
    """Write a number of any size and sign in two digits, but no finer than what the largest beside it needs.

    >>> [signed_number(value, 0.31) for value in (-0.31, 0.052, -0.001, 0)]
    ['-.31', '.05', '.00', '0']
    >>> signed_number(-12.34, 12.34), signed_number(0.031, 12.34), signed_number(-0.031, 0.042)
    ('-12', '.0', '-.031')
    >>> signed_number(123456, 123456), signed_number(-1.2e-5, 3e-5)
    ('1.2e5', '-1.2e-5')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}".replace("-0", "0")
    if not _PLAIN[0] <= largest < _PLAIN[1]:
        digits, exponent = f"{value:.1e}".split("e")
        return f"{digits}e{int(exponent)}"
    magnitude = math.floor(math.log10(largest))
    finest = max(0, 2 - magnitude if magnitude >= 0 else 1 - magnitude)
    decimals = max(0, min(finest, 1 - math.floor(math.log10(abs(value)))))
    text = f"{value:.{decimals}f}"
    text = text if any(digit in text for digit in "123456789") else text.lstrip("-")
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def _root(value: float) -> float:
    return math.copysign(math.sqrt(abs(value)), value)
