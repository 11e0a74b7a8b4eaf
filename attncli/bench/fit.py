"""How time grows with length: the exponent of ``a·n^b``, and where one variant overtakes another. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attncli.bench.statistics import Interval

ABOVE_OVERHEAD = 5.0
"""A time this many times what the shortest input takes is well above overhead."""

BENT = 0.15
"""A first step whose slope is this far from the rest's belongs to another regime."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Time = ``scale · n^exponent``.

    Args:
        stderr: Standard error of the exponent.
        from_seq_len: The shortest length that took part.
        lengths: How many took part.
    """

    exponent: float
    stderr: float
    scale: float
    from_seq_len: int
    lengths: int


@dataclass(frozen=True, slots=True)
class Crossover:
    """The length from which one contender is faster than another.

    Args:
        seq_len: By interpolation, in between two measured lengths.
        interval: Where it may as well be; an end is None where that lies outside of what was measured.
    """

    seq_len: float
    interval: tuple[float | None, float | None]


def fit_power(lengths: Sequence[int], seconds: Sequence[float], overhead: float = 0.0) -> Fit | None:
    """Fit a power law through times that are well above overhead; None where there are fewer than three.

    Short lengths behave otherwise (a window that is still wider than the text), so the first is left out as long as
    its step's slope is far from that of the others and three remain.

    Args:
        overhead: Seconds that next to nothing takes.

    Reference:
        Ordinary least squares of log t on log n; the slope's standard error is ``√(RSS/(k−2)/Sxx)``. Draper and
        Smith 1998, Applied Regression Analysis, §1.4.

    >>> fit = fit_power([512, 1024, 2048], [0.001, 0.004, 0.016])
    >>> round(fit.exponent, 6), round(fit.stderr, 6), fit.from_seq_len
    (2.0, 0.0, 512)
    """
    points = sorted((n, t) for n, t in zip(lengths, seconds, strict=True) if t > ABOVE_OVERHEAD * overhead)
    while len(points) > 3 and _bends(points):
        points = points[1:]
    if len(points) < 3:
        return None
    slope, intercept, stderr = _line(points)
    return Fit(slope, stderr, math.exp(intercept), points[0][0], len(points))


def _bends(points: Sequence[tuple[int, float]]) -> bool:
    first = math.log(points[1][1] / points[0][1]) / math.log(points[1][0] / points[0][0])
    slope, _, stderr = _line(points[1:])
    return abs(first - slope) > max(BENT, 3 * stderr)


def _line(points: Sequence[tuple[int, float]]) -> tuple[float, float, float]:
    """Return slope, intercept and the slope's standard error of a line through logarithms."""
    x, y = np.log(np.asarray(points, dtype=np.float64)).T
    spread = np.sum((x - x.mean()) ** 2)
    slope = np.sum((x - x.mean()) * (y - y.mean())) / spread
    intercept = y.mean() - slope * x.mean()
    rest = np.sum((y - intercept - slope * x) ** 2)
    return float(slope), float(intercept), math.sqrt(rest / (len(x) - 2) / spread)


def find_crossover(
    lengths: Sequence[int], ratios: Sequence[float], intervals: Sequence[Interval | None]
) -> Crossover | None:
    """Find the length from which a ratio stays below 1; None where it never comes down to it, or always was.

    Log ratios are interpolated linearly in log n; the interval is where the ratio's own interval crosses 1.

    >>> found = find_crossover([512, 2048], [2.0, 0.5], [(1.8, 2.2), (0.4, 0.6)])
    >>> round(found.seq_len), [round(end) for end in found.interval]
    (1024, [880, 1187])
    """
    if not lengths or ratios[-1] >= 1 or intervals[-1] is None or intervals[-1][1] >= 1:
        return None
    crossing = _last_crossing(lengths, ratios)
    if crossing is None:
        return None
    lows = [ratio if found is None else found[0] for ratio, found in zip(ratios, intervals, strict=True)]
    highs = [ratio if found is None else found[1] for ratio, found in zip(ratios, intervals, strict=True)]
    return Crossover(crossing, (_last_crossing(lengths, lows), _last_crossing(lengths, highs)))


def _last_crossing(lengths: Sequence[int], ratios: Sequence[float]) -> float | None:
    """Return where ratios come down through 1 for the last time."""
    for place in range(len(lengths) - 1, 0, -1):
        before, after = ratios[place - 1], ratios[place]
        if before >= 1 > after:
            share = math.log(before) / (math.log(before) - math.log(after))
            return float(lengths[place - 1] * (lengths[place] / lengths[place - 1]) ** share)
    return None
