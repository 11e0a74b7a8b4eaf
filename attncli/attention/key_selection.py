"""Attend only to selected keys: a light score for every pair, the best keys of each query, attention to those.

Reference:
    DeepSeek-AI 2025 (DeepSeek-V3.2), §2.1 eqs. (1) and (2), arXiv 2512.02556.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attncli.attention.core import attention_scores, attention_weights


def lightning_index(
    index_query: Float[Tensor, "batch query index_heads index_dim"],
    index_key: Float[Tensor, "batch key index_dim"],
    index_weights: Float[Tensor, "batch query index_heads"],
) -> Float[Tensor, "batch query key"]:
    """Score each key for each query: ``Σₐ wₐ · ReLU(qₐ·k)``. A weight, and so a score, may be negative.

    >>> query = torch.tensor([[[[1.0], [-1.0]]]])  # one query, two heads
    >>> lightning_index(query, torch.tensor([[[3.0], [-2.0]]]), torch.tensor([[[1.0, 5.0]]]))
    tensor([[[ 3., 10.]]])
    """
    scores = index_query.new_zeros(*index_query.shape[:2], index_key.shape[1])
    for head in range(index_query.shape[2]):  # one head at a time: memory for all of them is never needed
        products = torch.relu(index_query[:, :, head] @ index_key.mT)  # (batch, query, key)
        scores = scores + index_weights[:, :, head, None] * products
    return scores


def select(
    scores: Float[Tensor, "*batch query key"], top_k: int, mask: Bool[Tensor, "..."] | None = None
) -> Int[Tensor, "*batch query picks"]:
    """Pick the keys with the largest scores for each query, among equals the earlier ones.

    Args:
        mask: True = may be picked.

    Returns:
        Key positions, rising; −1 fills the end of a row that may see fewer than `top_k` keys.

    >>> select(torch.tensor([[0.0, 2.0, 0.0, 1.0]]), 3)
    tensor([[0, 1, 3]])
    """
    keys = scores.shape[-1]
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    picks = _largest(scores, min(top_k, keys))
    # Where there are too few keys, top-k returns masked ones.
    masked = scores.gather(-1, picks) == -torch.inf
    picks = picks.masked_fill(masked, keys).sort(dim=-1).values
    return picks.masked_fill(picks == keys, -1)


def gather_attend(
    query: Float[Tensor, "batch heads rows head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    indices: Int[Tensor, "batch rows picks"],
) -> Float[Tensor, "batch heads rows value_dim"]:
    """Attend from each row to the keys picked for it, which are copied together.

    Args:
        value: Finite, in padding too: an empty place reads key 0 with weight 0, and 0 · NaN would be NaN.
        indices: What `select` returned; a key must not stand twice in a row.
    """
    batch, heads, rows, _ = query.shape
    kv_heads, picks = key.shape[1], indices.shape[-1]
    picked = indices >= 0
    places = indices.clamp(min=0)  # an empty place copies key 0, which then gets no weight
    outputs = []
    for element in range(batch):
        flat = places[element].flatten()
        k = key[element].index_select(1, flat).reshape(kv_heads, rows, picks, key.shape[-1])
        v = value[element].index_select(1, flat).reshape(kv_heads, rows, picks, value.shape[-1])
        q = query[element].reshape(kv_heads, heads // kv_heads, rows, -1).transpose(1, 2)
        allowed = picked[element, None, :, None]
        chosen = attention_weights(attention_scores(q, k), allowed)  # (kv_heads, rows, group, picks)
        outputs.append((chosen @ v).transpose(1, 2).reshape(heads, rows, value.shape[-1]))
    return torch.stack(outputs)


def _largest(scores: Tensor, count: int) -> Tensor:
    """Return the positions of the largest scores, as a stable sort would, at the price of top-k.

    Only where the last one taken equals the first one left does it matter which of them is taken.
    """
    if count == scores.shape[-1]:
        return torch.arange(count, device=scores.device).expand(scores.shape)
    best = scores.topk(count + 1, dim=-1)
    tied = best.values[..., -1] == best.values[..., -2]
    indices = best.indices[..., :-1].contiguous()
    if bool(tied.any()):
        order = scores[tied].sort(dim=-1, descending=True, stable=True).indices
        indices[tied] = order[..., :count]
    return indices
