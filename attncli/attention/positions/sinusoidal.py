"""Sinusoidal positions: a vector for each position, added to the embedding."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def sinusoidal_positions(
    length: int, model_dim: int, *, base: float = 10_000.0
) -> Float[Tensor, "length model_dim"]:
    """Return each position a vector of sines and cosines of falling frequency, to be added to the embedding.

    ``PE(pos, 2t) = sin(pos / base^(2t/model_dim))``, ``PE(pos, 2t+1) = cos`` of the same angle.

    Args:
        length: Number of positions, from 0.
        model_dim: Size of each vector; even.

    Raises:
        ValueError: `model_dim` is odd, or a size is negative.

    Reference:
        Vaswani et al. 2017, §3.5, arXiv 1706.03762.

    >>> sinusoidal_positions(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    if model_dim % 2 or model_dim < 0 or length < 0:
        raise ValueError(
            f"expected an even model_dim and a length ≥ 0, got model_dim {model_dim}, length {length}"
        )
    # In float64: a float32 angle is off by 1e-3 radians at position 10,000.
    frequency = base ** (-torch.arange(0, model_dim, 2, dtype=torch.float64) / max(model_dim, 1))
    angle = torch.arange(length, dtype=torch.float64).unsqueeze(-1) * frequency
    return torch.stack((angle.sin(), angle.cos()), dim=-1).reshape(length, model_dim).float()
