"""Head metrics, one file each: a number for every row of weights.

A metric's file has an `ENTRY` whose attributes are

    kinds   the kinds of attention it has a meaning for: some need queries and keys to be the same tokens
    unit    of the number: ``bits``, ``tokens``, ``weight``

and the function of `Metric`. It is pure, and looks at one block at a time; averaging is an observer's work.
"""

from __future__ import annotations

from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from attncli.record import WeightBlock


class Metric(Protocol):
    """What a metric's module offers."""

    def measure(self, block: WeightBlock) -> Float[Tensor, "batch heads rows"]:
        """Give a number for each row, NaN where it is undefined: at least in rows without any weight."""


def row_sums(block: WeightBlock) -> Float[Tensor, "batch heads rows"]:
    """Give each row's sum of weights: 1, less where there is a sink, 0 where nothing is allowed."""
    return block.weights.sum(dim=-1) if block.sums is None else block.sums


def defined(values: Float[Tensor, "batch heads rows"], block: WeightBlock) -> Float[Tensor, "batch heads rows"]:
    """Put NaN for rows without any weight."""
    return values.masked_fill(row_sums(block) == 0, torch.nan)


def weight_at(block: WeightBlock, keys: Tensor) -> Float[Tensor, "batch heads rows"]:
    """Give each row's weight on one key.

    Args:
        keys: For each row the key's absolute position. Where the row may not attend to it, or there is no such
            key, the number is NaN.
    """
    places = keys - block.first_key
    inside = (places >= 0) & (places < block.weights.shape[-1])
    rows = torch.arange(len(places), device=keys.device)
    places = places.clamp(0, block.weights.shape[-1] - 1)
    found = block.weights[:, :, rows, places]
    if block.allowed is not None:
        inside = inside & block.allowed.expand(-1, -1, len(rows), -1)[:, :, rows, places]
    return defined(torch.where(inside, found, torch.nan), block)


def row_positions(block: WeightBlock) -> Tensor:
    """Give the absolute positions of a block's rows."""
    return torch.arange(block.rows.start, block.rows.stop, device=block.weights.device)
