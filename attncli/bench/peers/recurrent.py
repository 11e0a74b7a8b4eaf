"""A recurrent layer: one state that is handed on, n steps that must wait for each other, O(n·d²) time."""

from __future__ import annotations

from functools import cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attncli.bench.peers.layers import join_heads, split_heads
from attncli.registry import Entry

ENTRY = Entry(
    name="recurrent",
    summary="one torch.nn.LSTM layer of heads × head_dim, read left to right: O(n·d²) time, no attention",
    reference="Hochreiter and Schmidhuber 1997; Vaswani et al. 2017, table 1",
    attributes={"exact": False, "causal": True, "cross": False, "signed": True},
)


def attend(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
) -> Float[Tensor, "batch heads query head_dim"]:
    """Run the query's heads, joined, through the layer. It is causal by nature."""
    output, _ = _layer(query.shape[1] * query.shape[3], query.dtype, str(query.device))(join_heads(query))
    return split_heads(output, query.shape[1])


@cache
def _layer(size: int, dtype: torch.dtype, device: str) -> nn.LSTM:
    return nn.LSTM(size, size, batch_first=True, dtype=dtype, device=device)


def flops(
    *, batch: int, heads: int, query_len: int, key_len: int, head_dim: int, value_dim: int, causal: bool
) -> int:
    """Count the four gates' products with the input and with the state."""
    size = heads * head_dim
    return 2 * batch * query_len * 8 * size * size
