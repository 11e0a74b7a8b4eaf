"""How fast the past fades in retention: a factor γ for each step, of its own in each head."""

from __future__ import annotations

import torch
from jaxtyping import Float64
from torch import Tensor


def decay_rates(heads: int, decay: str = "paper") -> Float64[Tensor, " heads"]:
    """Return each head its γ: from one head to the next the past fades more slowly.

    Args:
        decay: ``paper`` for 1 − 2^(−5−a), as in eq. (8) of the paper; ``experiments`` for
            1 − exp(linspace(ln 1/32, ln 1/512, heads)), with which its models were trained.

    >>> decay_rates(2)
    tensor([0.9688, 0.9844], dtype=torch.float64)
    """
    if decay == "experiments":
        return 1.0 - torch.exp2(torch.linspace(-5.0, -9.0, heads, dtype=torch.float64))
    return 1.0 - torch.exp2(-5.0 - torch.arange(heads, dtype=torch.float64))


def decay_matrix(rates: Float64[Tensor, " heads"], length: int) -> Float64[Tensor, "heads length length"]:
    """Make D: ``γ^(i−j)`` for j ≤ i, else 0.

    >>> decay_matrix(torch.tensor([0.5], dtype=torch.float64), 3)
    tensor([[[1.0000, 0.0000, 0.0000],
             [0.5000, 1.0000, 0.0000],
             [0.2500, 0.5000, 1.0000]]], dtype=torch.float64)
    """
    powers = rates.unsqueeze(-1) ** torch.arange(length)  # (heads, length): all that a row can hold
    steps = torch.arange(length).unsqueeze(-1) - torch.arange(length)
    return powers[:, steps.clamp(min=0)].tril()
