"""Block mask: each position attends within its own block, as in chunked attention."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from attncli.attention.patterns.key_runs import Reach, own_positions, segments
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="block",
    summary="its own block alone: the chunked layers of Llama 4",
    reference="Child et al. 2019, §4.2, arXiv 1904.10509",
    parameters=(
        Parameter("size", 64, "positions in a block", minimum=1, example=4),
        Parameter("causal", True, "hide the future as well"),
    ),
    attributes={"causal": True},
)


def mask(query_len: int, key_len: int, *, size: int = 64, causal: bool = True) -> Bool[Tensor, "query key"]:
    """Allow the keys of the query's own block.

    >>> mask(4, 4, size=2).int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0],
            [0, 0, 1, 0],
            [0, 0, 1, 1]], dtype=torch.int32)
    """
    ENTRY.check(size=size)
    query, key = torch.arange(key_len - query_len, key_len).unsqueeze(-1), torch.arange(key_len)
    same = (query.div(size, rounding_mode="floor") == key // size) & (query >= 0)
    return same & (key <= query) if causal else same


def reach(query_len: int, key_len: int, *, size: int = 64, causal: bool = True) -> Reach:
    """See `mask`."""
    ENTRY.check(size=size)
    position = own_positions(query_len, key_len)
    starts = np.where(position >= 0, position // size * size, 0)
    stops = position + 1 if causal else np.minimum((position // size + 1) * size, key_len)
    stops = np.where(position >= 0, stops, 0)
    return Reach(query_len, key_len, (segments(query_len, starts, stops),), causal=causal)
