"""How fast each pair of dimensions turns in a rotary encoding.

A frequency is in radians a token. All are kept in float64: an angle is a frequency times a position that may be large.
"""

from __future__ import annotations

import torch
from jaxtyping import Float64
from torch import Tensor


def rotary_frequencies(rotary_dim: int, *, base: float = 10_000.0) -> Float64[Tensor, " pairs"]:
    """Return one frequency for each pair of dimensions: ``base^(−2t/rotary_dim)``.

    Raises:
        ValueError: `rotary_dim` is odd or not positive.

    Reference:
        Su et al. 2021, §3.4, arXiv 2104.09864.

    >>> rotary_frequencies(4)
    tensor([1.0000, 0.0100], dtype=torch.float64)
    """
    if rotary_dim < 2 or rotary_dim % 2:
        raise ValueError(f"expected an even number of dimensions to rotate, at least 2, got {rotary_dim}")
    return base ** (-torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim)


def retention_frequencies(head_dim: int) -> Float64[Tensor, " pairs"]:
    """Return the frequencies of the rotation: ``10000^(−t/(head_dim/2 − 1))``, both ends 1 and 1/10000 included.

    Raises:
        ValueError: `head_dim` is odd.
    """
    if head_dim % 2:
        raise ValueError(f"retention turns pairs of dimensions: expected an even head_dim, got {head_dim}")
    return 10_000.0 ** -torch.linspace(0.0, 1.0, head_dim // 2, dtype=torch.float64)
