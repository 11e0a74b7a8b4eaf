"""Full mask: every position attends to every position."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from attncli.attention.patterns.key_runs import Reach, full_reach
from attncli.registry import Entry

ENTRY = Entry(
    name="full",
    summary="every position attends to every position: encoders, cross-attention",
    reference="Vaswani et al. 2017, §3.2.3, arXiv 1706.03762",
    attributes={"causal": False},
)


def mask(query_len: int, key_len: int) -> Bool[Tensor, "query key"]:
    """Allow everything."""
    return torch.ones(query_len, key_len, dtype=torch.bool)


def reach(query_len: int, key_len: int) -> Reach:
    """See `mask`."""
    return full_reach(query_len, key_len)
