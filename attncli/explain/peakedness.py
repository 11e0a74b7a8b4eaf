"""How peaked a row of weights is, and how much of a gradient its softmax lets through."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


def entropy_bits(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """Return −Σ p·log₂ p over the keys: 0 for a single key, log₂ n for n keys alike.

    Where a sink takes a part of the weight, p is the share of what the keys get together.

    >>> entropy_bits(torch.tensor([0.5, 0.25, 0.25]))
    tensor(1.5000)
    """
    shares = weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    return torch.xlogy(shares, shares).sum(dim=-1).abs() / math.log(2)  # never −0


def softmax_gradient_norm(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """Return the Frobenius norm of softmax's Jacobian, ∂weights/∂scores = diag(p) − p·pᵀ.

    ``‖J‖² = Σ p²·(1 − p)² + (Σ p²)² − Σ p⁴``. It is 0 for a row that is all on one key: from there softmax passes
    nothing back. Of float32 weights, what is below 10⁻⁴ is rounding; float64 ones are better.

    >>> softmax_gradient_norm(torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    tensor([0.5000, 0.0000])
    """
    squares = weights.square()
    diagonal = (squares * (1 - weights).square()).sum(dim=-1)
    beside = squares.sum(dim=-1).square() - squares.square().sum(dim=-1)
    return (diagonal + beside).clamp(min=0.0).sqrt()


@dataclass(frozen=True)
class ScalingPoint:
    """What scores of random queries and keys are like at one size of vectors, without and with 1/√d_k.

    Args:
        variance: Of the scores.
        entropy: Mean of the rows' entropies, in bits.
        gradient: Mean of the norms of softmax's Jacobian.
        largest: Mean of the rows' largest weights.
    """

    head_dim: int
    scaled: bool
    variance: float
    entropy: float
    gradient: float
    largest: float


def measure_scaling(
    head_dims: Sequence[int], *, keys: int = 64, rows: int = 1024, seed: int = 0
) -> list[ScalingPoint]:
    """Measure what 1/√d_k does: queries and keys drawn from N(0, 1), compared by dot product, with and without it.

    The products q·k have variance d_k, since they are sums of d_k products of variance 1. Softmax of such scores
    becomes a choice of one key as d_k grows, and its gradient vanishes; divided by √d_k they keep variance 1.

    Args:
        rows: Number of queries, all over the same keys.

    Reference:
        Vaswani et al. 2017, §3.2.1 and its footnote 4, arXiv 1706.03762.
    """
    found = []
    for head_dim in head_dims:
        draw = torch.Generator().manual_seed(seed)
        query = torch.randn(rows, head_dim, generator=draw, dtype=torch.float64)
        key = torch.randn(keys, head_dim, generator=draw, dtype=torch.float64)
        products = query @ key.mT
        found += [_point(products, head_dim, scaled=False), _point(products, head_dim, scaled=True)]
    return found


def _point(products: Tensor, head_dim: int, *, scaled: bool) -> ScalingPoint:
    scores = products * head_dim**-0.5 if scaled else products
    weights = torch.softmax(scores, dim=-1)
    return ScalingPoint(
        head_dim=head_dim,
        scaled=scaled,
        variance=float(scores.var()),
        entropy=float(entropy_bits(weights).mean()),
        gradient=float(softmax_gradient_norm(weights).mean()),
        largest=float(weights.amax(dim=-1).mean()),
    )
