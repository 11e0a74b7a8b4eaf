"""Full attention: every query attends to every key that the mask allows. The measure of all other variants."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncli.attention.core import (
    attention_scores,
    attention_weights,
    precise,
    repeat_kv,
    without_unreachable,
)
from attncli.attention.masks.causal import create_causal_mask
from attncli.registry import Entry

ENTRY = Entry(
    name="full",
    summary="softmax(QKᵀ/√d)·V over all keys: O(n²·d) time, O(n²) memory",
    reference="Vaswani et al. 2017, §3.2.1, arXiv 1706.03762",
    attributes={"exact": True, "causal": True, "cross": True, "signed": False},
)


def attend(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Return the output of full attention, all weights in memory at once. See `Variant.attend`."""
    heads = repeat_kv(value, query.shape[1])
    if key_mask is not None:
        heads = without_unreachable(heads, key_mask[:, None, None])
    found = _weights(query, key, causal, key_mask) @ precise(heads)
    return found.to(value.dtype)


def weights(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
) -> Float[Tensor, "batch heads query key"]:
    """Return the weights of full attention. See `Variant.weights`."""
    return _weights(query, key, causal, key_mask).to(query.dtype)


def _weights(query: Tensor, key: Tensor, causal: bool, key_mask: Tensor | None) -> Tensor:
    """Compute the weights in float32 or float64."""
    allowed = None if key_mask is None else key_mask[:, None, None]
    if causal:
        triangle = create_causal_mask(query.shape[2], key.shape[2], device=query.device)
        allowed = triangle if allowed is None else allowed & triangle
    return attention_weights(attention_scores(query, repeat_kv(key, query.shape[1])), allowed)


def mask(query_len: int, key_len: int, *, causal: bool = False) -> Bool[Tensor, "query key"]:
    """Allow everything, or everything that is not in the future."""
    if causal:
        return create_causal_mask(query_len, key_len)
    return torch.ones(query_len, key_len, dtype=torch.bool)
