"""Weights as they are when some keys are left out: what is left of each row has its old sum again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncli.observers.block_parts import heads_in, places_in
from attncli.record import AttentionLayer, Kind, LayerObserver, Observer, Request, WeightBlock


@dataclass
class WithoutKeys:
    """Shows an observer blocks without some keys, and adds up how much weight was on these.

    Args:
        left_out: Which keys of the whole text are left out ``(1, key)``.
        dropped: The sum of the weights on them, over the rows and heads that the observer wants.
        rows: How many rows that is, of all heads.
    """

    observer: Observer
    left_out: Bool[Tensor, "1 key"]
    dropped: float = 0.0
    rows: int = 0
    _requests: dict[AttentionLayer, Request] = field(default_factory=dict)

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask the observer."""
        wanted = self.observer.request(layer)
        if wanted is not None:
            self._requests[layer] = wanted
        return wanted

    @property
    def sought(self) -> frozenset[tuple[Kind, int]]:
        """What the observer looks for; none, as an attribute, where it does not say."""
        return cast(LayerObserver, self.observer).sought

    def update(self, block: WeightBlock) -> None:
        """Pass on what is left of a block."""
        block, dropped = without_keys(block, self.left_out.to(block.weights.device))
        wanted = self._requests[block.layer]
        heads = heads_in(block, block.heads if wanted.heads is None else wanted.heads)[1]
        rows = places_in(block.rows, block.rows if wanted.rows is None else wanted.rows)[1]
        counted = dropped[0][heads][:, rows]
        self.dropped += float(counted.sum(dtype=torch.float64))
        self.rows += counted.numel()
        self.observer.update(block)


def without_keys(
    block: WeightBlock, left_out: Bool[Tensor, "batch key"]
) -> tuple[WeightBlock, Float[Tensor, "batch heads rows"]]:
    """Take keys out of a block and give what is left of each row its old sum again.

    Returns:
        The block, and each row's weight on what was taken out.
    """
    out = left_out[:, None, None, block.keys.start : block.keys.stop]
    dropped = (block.weights @ out.to(block.weights).transpose(-1, -2)).squeeze(-1)
    total = block.weights.sum(dim=-1)
    left = block.weights.masked_fill(out, 0.0)
    # Not total − dropped, of which a row that is nearly all on them has few digits left.
    rest = left.sum(dim=-1)
    # A row that was on them alone has nothing left.
    factor = torch.where(rest > 1e-6 * total, total / rest, 0.0)
    weights = left * factor.unsqueeze(-1)
    allowed = ~out if block.allowed is None else block.allowed & ~out
    allowed = allowed.expand(-1, -1, block.weights.shape[2], -1)
    return replace(block, weights=weights, allowed=allowed, scores=None, sums=None), dropped
