"""A separable convolution: each channel sees its neighbours, then the channels are mixed; O(k·n·d + n·d²) time."""

from __future__ import annotations

from functools import cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attncli.bench.peers.layers import join_heads, split_heads
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="convolution",
    summary="a depthwise and a pointwise torch.nn.Conv1d layer of heads × head_dim channels: no attention",
    reference="Vaswani et al. 2017, §4 and table 1, arXiv 1706.03762",
    parameters=(
        Parameter("kernel", 3, "neighbouring positions that a channel sees, itself included", minimum=1),
    ),
    attributes={"exact": False, "causal": True, "cross": False, "signed": True},
)


def attend(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    kernel: int = 3,
) -> Float[Tensor, "batch heads query head_dim"]:
    """Run the query's heads, joined, through both layers; where causal, all neighbours are earlier ones."""
    depthwise, pointwise = _layers(query.shape[1] * query.shape[3], kernel, query.dtype, str(query.device))
    channels = join_heads(query).mT  # (batch, model_dim, query)
    before = kernel - 1 if causal else (kernel - 1) // 2
    padded = nn.functional.pad(channels, (before, kernel - 1 - before))
    return split_heads(pointwise(depthwise(padded)).mT, query.shape[1])


@cache
def _layers(size: int, kernel: int, dtype: torch.dtype, device: str) -> tuple[nn.Conv1d, nn.Conv1d]:
    depthwise = nn.Conv1d(size, size, kernel, groups=size, dtype=dtype, device=device)
    return depthwise, nn.Conv1d(size, size, 1, dtype=dtype, device=device)
