"""What variants with a fixed pattern of allowed pairs have in common: their plain form."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from attncli.attention.core import attention_scores, attention_weights, repeat_kv


def pattern_weights(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    pattern: Bool[Tensor, "*#heads query key"],
    key_mask: Bool[Tensor, "batch key"] | None,
) -> Float[Tensor, "batch heads query key"]:
    """Return the softmax over the pairs that a pattern allows, as a dense matrix.

    Args:
        pattern: True = may attend; one for all heads, or one for each.
    """
    allowed = pattern.to(query.device)
    if key_mask is not None:
        allowed = allowed & key_mask[:, None, None]
    scores = attention_scores(query, repeat_kv(key, query.shape[1]))
    return attention_weights(scores, allowed).to(query.dtype)
