"""Recurrent pattern: each position reads itself and the one before it, as a step of a recurrent network does.

It is no attention; it stands beside the attention patterns so that their path lengths can be compared with its n − 1.
A recurrent layer takes its positions in order, and each step reads what the step before has just made. So one layer
carries the first position to the last, in n − 1 steps that must wait for one another: what the textbooks' O(n) counts,
of sequential operations as of path length, are these steps, and not layers.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from attncli.attention.patterns.key_runs import Reach, own_positions, segments
from attncli.registry import Entry

ENTRY = Entry(
    name="recurrent",
    summary="itself and the position before it: the steps of a recurrent network",
    reference="Vaswani et al. 2017, §4 and Table 1, arXiv 1706.03762",
    attributes={"causal": "only"},
)

_NOTE = (
    "path length counts steps in time, not layers: one recurrent layer goes through its positions in order, "
    "so a single layer carries the first to the last, in so many steps one after the other"
)


def mask(query_len: int, key_len: int) -> Bool[Tensor, "query key"]:
    """Allow each position and the one before it.

    >>> mask(3, 3).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    """
    distance = torch.arange(key_len - query_len, key_len).unsqueeze(-1) - torch.arange(key_len)
    return (distance == 0) | (distance == 1)


def reach(query_len: int, key_len: int) -> Reach:
    """See `mask`."""
    position = own_positions(query_len, key_len)
    pair = segments(query_len, np.maximum(position - 1, 0), position + 1)
    return Reach(query_len, key_len, (pair,), causal=True, notes=(_NOTE,))
