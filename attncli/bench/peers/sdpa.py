"""PyTorch's own fused attention: what everything else is measured against."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attncli.attention.masks.causal import create_causal_mask
from attncli.registry import Entry

ENTRY = Entry(
    name="sdpa",
    summary="torch.nn.functional.scaled_dot_product_attention, with the kernel that PyTorch picks",
    reference="Dao et al. 2022, arXiv 2205.14135, is what the fused kernels do",
    attributes={"exact": True, "causal": True, "cross": True, "signed": False},
)

_KERNELS = {
    0: "the unfused math kernel",
    1: "the fused flash kernel",
    2: "the memory-efficient kernel",
    3: "cuDNN",
}
_TILE = 256, 512
"""Queries and keys in a tile of the CPU kernel, at most."""


def attend(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Call PyTorch's function. Its own ``is_causal`` counts from the first key, so other lengths take a mask."""
    mask = None if key_mask is None else key_mask[:, None, None]
    aligned = query.shape[2] == key.shape[2] and mask is None
    if causal and not aligned:
        triangle = create_causal_mask(query.shape[2], key.shape[2], device=query.device)
        mask = triangle if mask is None else mask & triangle
    grouped = query.shape[1] != key.shape[1]
    return scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=causal and aligned, enable_gqa=grouped
    )


def about(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> str:
    """Name the kernel that PyTorch picks for these inputs."""
    choose = getattr(torch, "_fused_sdp_choice", None)
    if choose is None:
        return "kernel unknown"
    return _KERNELS.get(int(choose(query, key, value, is_causal=causal)), "kernel unknown")


def flops(
    *, batch: int, heads: int, query_len: int, key_len: int, head_dim: int, value_dim: int, causal: bool
) -> int:
    """Count both products over the pairs that matter; which tiles of the future the kernel skips is its secret."""
    pairs = _seen(query_len, key_len) if causal else query_len * key_len
    return 2 * batch * heads * pairs * (head_dim + value_dim)


def _seen(query_len: int, key_len: int) -> int:
    """Count the pairs that are not in the future; the last query belongs to the last key.

    >>> _seen(3, 3), _seen(2, 3), _seen(3, 2)
    (6, 5, 3)
    """
    rows, first = min(query_len, key_len), max(key_len - query_len, 0)
    return rows * first + rows * (rows + 1) // 2
