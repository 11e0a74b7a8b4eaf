"""Statistics of timings, as pure functions: what is typical, how sure one can be, and what is noise.

Timings are skewed: something else may always make a run slower, and nothing makes it faster than it can be. So the
median stands for them and the interquartile range for their spread, and intervals come from resampling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

RESAMPLES = 2000

Interval = tuple[float, float]


def median(values: Sequence[float]) -> float:
    """Return the middle value.

    >>> median([3.0, 1.0, 2.0]), median([1.0, 2.0, 3.0, 10.0])
    (2.0, 2.5)
    """
    return float(np.median(values))


def interquartile_range(values: Sequence[float]) -> float:
    """Return how far the upper quartile lies above the lower one.

    >>> interquartile_range([1.0, 2.0, 3.0, 4.0, 5.0])
    2.0
    """
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low)


def median_uncertainty(values: Sequence[float]) -> float:
    """Estimate how far the median may be off, as a share of it: ``1.57 · IQR / √n / median``.

    Two medians whose intervals of this half-width do not overlap differ with about 95 % certainty.

    Reference:
        McGill, Tukey and Larsen 1978, Variations of Box Plots, The American Statistician 32(1): the notches.

    >>> round(median_uncertainty([1.0, 2.0, 3.0, 4.0, 5.0]), 3)
    0.468
    """
    return 1.57 * interquartile_range(values) / math.sqrt(len(values)) / median(values)


def paired_ratio(times: Sequence[float], reference: Sequence[float]) -> float:
    """Return the median of the ratios of times that were taken in the same round.

    >>> paired_ratio([2.0, 4.0, 9.0], [1.0, 2.0, 3.0])
    2.0
    """
    return median(_ratios(times, reference))


def paired_ratio_interval(
    times: Sequence[float], reference: Sequence[float], *, seed: int = 0, confidence: float = 0.95
) -> Interval | None:
    """Return an interval for the paired ratio by resampling rounds; None where there are fewer than three.

    Reference:
        Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 13: percentile intervals.
    """
    ratios = np.asarray(_ratios(times, reference))
    if ratios.size < 3:
        return None
    picks = np.random.default_rng(seed).integers(0, ratios.size, (RESAMPLES, ratios.size))
    medians = np.median(ratios[picks], axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(medians, (tail, 1 - tail))
    return float(low), float(high)


def noise_floor(control: Interval | None) -> float:
    """Return how far apart two equal things were measured, as a share, from the interval of their ratio.

    >>> round(noise_floor((0.98, 1.01)), 4), noise_floor(None)
    (0.0204, inf)
    """
    if control is None:
        return math.inf
    return math.exp(max(abs(math.log(bound)) for bound in control)) - 1


def is_noise(ratio: float, interval: Interval | None, floor: float) -> bool:
    """Return whether a ratio cannot be told from 1: its interval holds 1, or it differs by less than the floor.

    >>> is_noise(1.02, (1.01, 1.03), 0.03), is_noise(1.2, (1.1, 1.3), 0.03), is_noise(0.98, None, 0.0)
    (True, False, True)
    """
    if interval is None or interval[0] <= 1 <= interval[1]:
        return True
    return abs(math.log(ratio)) <= math.log1p(floor)


def drift(values: Sequence[float]) -> float:
    """Return the share by which the last third of timings is slower than the first; 0 for fewer than six.

    >>> drift([1.0, 1.0, 1.1, 1.2, 1.5, 1.5])
    0.5
    """
    third = len(values) // 3
    return median(values[-third:]) / median(values[:third]) - 1 if third >= 2 else 0.0


def _ratios(times: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Pair the rounds that both have: who is measured well enough leaves early."""
    return [time / other for time, other in zip(times, reference, strict=False)]
