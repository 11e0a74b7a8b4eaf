"""Sums from which averages come, for each metric of each head of a layer: they add up over texts, batches and ranks.

Each text gives y, the sum of a metric over its rows, and n, in how many rows it is defined. Kept are sums over texts
of 1, n, y, y², y·n and n², in float64: enough for the mean over all rows and its standard error over texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

_PARTS = 6


@dataclass
class RunningSums:
    """Sums of one layer.

    Args:
        sums: ``(parts, metrics, heads)``, the parts as above.
    """

    sums: Numbers

    @classmethod
    def empty(cls, metrics: int, heads: int) -> RunningSums:
        """Make one that holds nothing."""
        return cls(np.zeros((_PARTS, metrics, heads)))

    def add(self, values: Numbers, counts: Numbers) -> None:
        """Take in some texts.

        Args:
            values: ``(metrics, heads, texts)``: each text's sum over its rows.
            counts: In how many rows that is.
        """
        parts = np.stack([counts > 0, counts, values, values * values, values * counts, counts * counts])
        # Text after text, so that the same texts in the same order give the same bits however they come in batches.
        for text in range(parts.shape[-1]):
            self.sums += parts[..., text]

    def merge(self, other: RunningSums) -> None:
        """Take in what another has gathered."""
        self.sums += other.sums

    @property
    def rows(self) -> Numbers:
        """In how many rows, ``(metrics, heads)``."""
        rows: Numbers = self.sums[1]
        return rows

    @property
    def means(self) -> Numbers:
        """Means over all rows, ``(metrics, heads)``; NaN where there are none."""
        rows = self.sums[1]
        found: Numbers = np.divide(self.sums[2], rows, out=np.full_like(rows, math.nan), where=rows > 0)
        return found

    @property
    def standard_errors(self) -> Numbers:
        """Standard errors of the means over texts, ``(metrics, heads)``; NaN with fewer than two texts.

        Rows of one text are not independent, so texts are what is drawn: the mean R = Σy / Σn is a ratio of two sums
        over texts, with variance ≈ S/(S − 1) · Σ(y − R·n)² / (Σn)² (Cochran 1977, Sampling Techniques, §2.11).
        """
        texts, rows, _, squares, products, rows_squared = self.sums
        ratio = self.means
        apart = np.maximum(squares - 2 * ratio * products + ratio * ratio * rows_squared, 0.0)
        enough = texts > 1
        variance = np.divide(
            texts * apart,
            (texts - 1) * rows * rows,
            out=np.full_like(rows, math.nan),
            where=enough & (rows > 0),
        )
        found: Numbers = np.sqrt(variance)
        return found

    def state(self) -> list[Any]:
        """Return all sums as lists, for a file."""
        listed: list[Any] = self.sums.tolist()
        return listed

    @classmethod
    def of_state(cls, state: Sequence[Any], metrics: int, heads: int) -> RunningSums:
        """Read what `state` has given.

        Raises:
            ValueError: It is of another shape, or holds something else than numbers.
        """
        sums = np.array(state, dtype=np.float64)
        if sums.shape != (_PARTS, metrics, heads) or not np.isfinite(sums).all():
            raise ValueError(f"expected finite sums of shape {(_PARTS, metrics, heads)}, got {sums.shape}")
        return cls(sums)
