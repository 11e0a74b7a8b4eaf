"""How far apart two matrices of attention are.

Compared are the rows of tokens that both sides have; a token that stands in another's place counts as the same key.
Each such row is a distribution over keys. Keys that only one side has keep their weight, which the other side
then lacks; so does what a row leaves to an attention sink. The Jensen–Shannon divergence of the two, in bits, lies
between 0 and 1, and its square root, the Jensen–Shannon distance, is a metric.

Source: Lin 1991, Divergence measures based on the Shannon entropy; Endres & Schindelin 2003.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncli.diff.alignment import Alignment
from attncli.view import Matrix

_ROUNDING = 1e-3
"""A row whose weights sum to 1 within this leaves nothing to a sink."""


@dataclass(frozen=True, slots=True)
class Distance:
    """What is different between two matrices.

    Args:
        distance: Jensen–Shannon distance (base 2), mean over the rows; NaN where weights are signed.
        divergence: Its square, the divergence in bits, mean over the rows.
        max_abs: Largest difference of an aligned pair of weights.
        row: The row with the largest distance, as a place in the alignment; None where there is none.
        row_distance: Its distance.
        rows: Number of rows compared.
    """

    distance: float
    divergence: float
    max_abs: float
    row: int | None
    row_distance: float
    rows: int


def distance(before: Matrix, after: Matrix, rows: Alignment, keys: Alignment) -> Distance:
    """Compare two matrices over their aligned rows and keys."""
    ours, theirs = before.values[list(rows.before)], after.values[list(rows.after)]
    shared = ours[:, list(keys.before)].astype(np.float64), theirs[:, list(keys.after)].astype(np.float64)
    max_abs = float(np.abs(shared[0] - shared[1]).max(initial=0.0))
    signed = bool((ours < 0).any() or (theirs < 0).any())
    used = (ours != 0).any(axis=1) & (theirs != 0).any(axis=1) & ~np.array(rows.replaced)
    if signed or not used.any():
        return Distance(np.nan, np.nan, max_abs, None, np.nan, int(used.sum()))
    alone = ours[:, list(keys.removed)].astype(np.float64), theirs[:, list(keys.added)].astype(np.float64)
    bits = _divergences(shared, alone)
    apart = np.where(used, np.sqrt(bits), np.nan)
    row = int(np.nanargmax(apart))
    mean, mean_bits = float(np.nanmean(apart)), float(bits[used].mean())
    return Distance(mean, mean_bits, max_abs, row, float(apart[row]), int(used.sum()))


Pair = tuple[NDArray[np.float64], NDArray[np.float64]]


def _divergences(shared: Pair, alone: Pair) -> NDArray[np.float64]:
    """Return the Jensen–Shannon divergence of each row in bits.

    Args:
        shared: Weights on the keys that both sides have ``(rows, keys)``.
        alone: Weights on the keys that only one of them has.
    """
    sums = tuple(both.sum(axis=1) + own.sum(axis=1) for both, own in zip(shared, alone, strict=True))
    rests = tuple(np.where(total < 1 - _ROUNDING, 1 - total, 0.0) for total in sums)
    scales = tuple(np.where(total > 0, total + rest, 1.0) for total, rest in zip(sums, rests, strict=True))
    ours, theirs = (
        np.column_stack([both, rest]) / scale[:, None]
        for both, rest, scale in zip(shared, rests, scales, strict=True)
    )
    middle = (ours + theirs) / 2
    bits = (_surprise(ours, middle) + _surprise(theirs, middle)) / 2
    for own, scale in zip(alone, scales, strict=True):
        bits += own.sum(axis=1) / scale / 2  # the other side has nothing there: log2 of p / (p / 2) is 1
    return np.clip(bits, 0.0, 1.0)


def _surprise(weights: NDArray[np.float64], middle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Σ p·log₂(p/m) of each row, 0 where p is 0."""
    some = weights > 0
    ratio = np.divide(weights, middle, out=np.ones_like(weights), where=some)
    found: NDArray[np.float64] = (weights * np.log2(ratio)).sum(axis=1)
    return found
