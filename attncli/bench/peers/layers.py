"""From heads to one vector a position, and back: for peers that have no heads."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def join_heads(tensor: Float[Tensor, "batch heads query head_dim"]) -> Float[Tensor, "batch query model_dim"]:
    """Lay the heads of each position side by side."""
    return tensor.transpose(1, 2).flatten(2)  # (batch, query, heads·head_dim)


def split_heads(
    tensor: Float[Tensor, "batch query model_dim"], heads: int
) -> Float[Tensor, "batch heads query head_dim"]:
    """Undo `join_heads`, without a copy."""
    batch, query, _ = tensor.shape
    return tensor.view(batch, query, heads, -1).transpose(1, 2)
