"""Padding mask: no position attends to padding."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from attncli.attention.masks.causal import create_causal_mask
from attncli.attention.patterns.key_runs import Reach, own_positions, segments
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="padding",
    summary="every position attends to all but the padding that fills up a batch",
    reference="Vaswani et al. 2017, §3.2.3, arXiv 1706.03762",
    parameters=(
        Parameter("pad", 2, "number of padded key positions", minimum=0),
        Parameter("side", "right", "which end of the keys is padded", choices=("left", "right")),
        Parameter("causal", False, "hide the future as well"),
    ),
    attributes={"causal": True},
)


def mask(
    query_len: int, key_len: int, *, pad: int = 2, side: str = "right", causal: bool = False
) -> Bool[Tensor, "query key"]:
    """Hide the last (or first) ``pad`` keys from every query.

    Padding masks keys. The rows of padded queries stay as they are: their output is never used. With left padding and
    causality the first rows have no key at all.

    Raises:
        ValueError: There is more padding than there are keys.

    >>> mask(2, 4, pad=1).int()
    tensor([[1, 1, 1, 0],
            [1, 1, 1, 0]], dtype=torch.int32)
    """
    ENTRY.check(pad=pad)
    _check(pad, key_len)
    key = torch.arange(key_len)
    real = key < key_len - pad if side == "right" else key >= pad
    allowed = real.expand(query_len, key_len).clone()
    return allowed & create_causal_mask(query_len, key_len) if causal else allowed


def reach(query_len: int, key_len: int, *, pad: int = 2, side: str = "right", causal: bool = False) -> Reach:
    """See `mask`. Padding is never reached, so that a path to every position ends only where there is none."""
    ENTRY.check(pad=pad)
    _check(pad, key_len)
    first, last = (0, key_len - pad) if side == "right" else (pad, key_len)
    stops = np.minimum(own_positions(query_len, key_len) + 1, last) if causal else last
    return Reach(query_len, key_len, (segments(query_len, first, stops),), causal)


def _check(pad: int, key_len: int) -> None:
    if pad > key_len:
        raise ValueError(f"pad={pad} is more than the {key_len} keys there are")
