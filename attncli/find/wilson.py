"""Shares of yes and no, and how sure they are."""

from __future__ import annotations

import math
from dataclasses import dataclass

_Z = 1.959963984540054
"""The normal distribution's 97.5 % point."""


@dataclass(frozen=True, slots=True)
class Share:
    """How often something was so.

    >>> half = Share(24, 48)
    >>> half.value, [round(end, 3) for end in half.interval]
    (0.5, [0.364, 0.636])
    """

    hits: int
    of: int

    @property
    def value(self) -> float:
        """The share itself."""
        return self.hits / self.of if self.of else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval.

        (p + z²/2n ± z·√(p(1 − p)/n + z²/4n²)) / (1 + z²/n), with p the share, n the number of items and z = 1.96

        Reference:
            Wilson 1927, Probable Inference, the Law of Succession, and Statistical Inference, JASA 22(158).
        """
        if not self.of:
            return 0.0, 1.0
        p, n, z2 = self.value, self.of, _Z * _Z
        middle = p + z2 / (2 * n)
        reach = _Z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
        scale = 1 + z2 / n
        return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)
