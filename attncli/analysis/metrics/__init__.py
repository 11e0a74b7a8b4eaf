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


def defined(
    values: Float[Tensor, "batch heads rows"], block: WeightBlock
) -> Float[Tensor, "batch heads rows"]:
    """Put NaN for rows without any weight."""
    empty = row_sums(block) == 0
    return values.masked_fill(empty, torch.nan) if bool(empty.any()) else values


def weight_on_diagonal(block: WeightBlock, offset: int) -> Float[Tensor, "batch heads rows"]:
    """Give each row's weight on the key at its own position plus `offset`.

    NaN where the row may not attend to it, or there is no such key.
    """
    shift = block.rows.start + offset - block.first_key  # from a row's place in the block to its key's place
    found = torch.full_like(block.weights[..., 0], torch.nan)
    first, last = max(0, -shift), min(len(block.rows), block.weights.shape[-1] - shift)
    if first < last:
        found[..., first:last] = _allowed(
            block.weights.diagonal(shift, -2, -1),
            None
            if block.allowed is None
            else block.allowed.expand(-1, -1, len(block.rows), -1).diagonal(shift, -2, -1),
        )
    return found


def weight_on_key(block: WeightBlock, key: int) -> Float[Tensor, "batch heads rows"]:
    """Give each row's weight on the key at a position; NaN where it may not attend to it."""
    if key not in block.keys:
        return torch.full_like(block.weights[..., 0], torch.nan)
    place = key - block.first_key
    return _allowed(block.weights[..., place], None if block.allowed is None else block.allowed[..., place])


def _allowed(weights: Tensor, allowed: Tensor | None) -> Tensor:
    return weights if allowed is None else torch.where(allowed, weights, torch.nan)
