"""Causal mask: each position attends to itself and to those before it."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from attncli.attention.patterns.key_runs import Reach, full_reach
from attncli.registry import Entry

ENTRY = Entry(
    name="causal",
    summary="itself and all positions before it: decoders",
    reference="Vaswani et al. 2017, §3.2.3, arXiv 1706.03762",
    attributes={"causal": "only"},
)


def create_causal_mask(
    query_len: int, key_len: int | None = None, *, device: torch.device | str | None = None
) -> Bool[Tensor, "query key"]:
    """Make a mask that hides the future: key j is allowed for query i where ``j ≤ i + (key_len − query_len)``.

    The last query belongs to the last key, so that with a cache (more keys than queries) the new queries see
    all old keys. With fewer keys than queries the first rows have no key at all.

    Args:
        query_len: Number of query positions.
        key_len: Number of key positions; as many as queries where None.

    Raises:
        ValueError: A length is negative.

    >>> create_causal_mask(2, 3).int()
    tensor([[1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    key_len = query_len if key_len is None else key_len
    if query_len < 0 or key_len < 0:
        raise ValueError(f"lengths must not be negative, got query {query_len} and key {key_len}")
    query = torch.arange(query_len, device=device).unsqueeze(-1)
    key = torch.arange(key_len, device=device)
    return key <= query + (key_len - query_len)


def mask(query_len: int, key_len: int) -> Bool[Tensor, "query key"]:
    """See `create_causal_mask`."""
    return create_causal_mask(query_len, key_len)


def reach(query_len: int, key_len: int) -> Reach:
    """See `create_causal_mask`."""
    return full_reach(query_len, key_len, causal=True)
