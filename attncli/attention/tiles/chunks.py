"""Outputs that come in chunks of query rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor


def join(parts: Iterator[Tensor], length: int) -> Float[Tensor, "*batch length value_dim"]:
    """Put chunks of rows together in one tensor.

    Where no gradient is wanted each chunk is written to its place as it comes and its memory serves the next: fresh
    memory costs more than the arithmetic here. Autograd would make many copies of such writes, so it gets them all
    at once.

    Args:
        parts: Tensors ``(*batch, rows, value_dim)``.
        length: Number of rows of all parts together.
    """
    first = next(parts)
    if first.requires_grad:
        return torch.cat([first, *parts], dim=-2)
    whole = first.new_empty(*first.shape[:-2], length, first.shape[-1])
    whole[..., : first.shape[-2], :] = first
    start = first.shape[-2]
    for part in parts:
        whole[..., start : start + part.shape[-2], :] = part
        start += part.shape[-2]
    return whole
