"""What a variant's call takes, as PyTorch counts it."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode


def flops(
    variant: Any, length: int, *, causal: bool, heads: int = 1, head_dim: int = 1, **settings: Any
) -> int:
    """Operations of the matrix products of one call."""
    query, key, value = torch.randn(3, 1, heads, length, head_dim, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        variant.attend(query, key, value, causal=causal, **settings)
    return int(counter.get_total_flops())
