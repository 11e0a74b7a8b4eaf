"""Metrics that add up weights, summed over the rows of whole short texts: all of them, for all heads, in one product.

The weight on the row's own token, on the one before, on delimiters or on earlier mentions of a token is Σ w·m over
pairs of a row and a key, where the marks m (0 or 1) depend on the text and not on the head; the distance is the same
with |row − key| for a mark. So the marks are made once for a batch, and a layer's weights are gone through once. The
metrics' own files are the definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncli import registry
from attncli.batch import Batch
from attncli.heads.metrics import marks_on_pairs
from attncli.record import WeightBlock

MOST_KEYS = 128
"""So many keys squared are added up in float32 without losing more than a millionth."""

Pairs = tuple[Tensor, Tensor, Tensor]
"""Texts, rows and keys."""

FULL = 1e-6
"""How far a row's sum may be from 1: marks that are no booleans need it, and rows without weights have no number."""


@dataclass(frozen=True)
class PairSums:
    """The marks of a batch.

    Args:
        names: The metrics.
        allowed: The mask that they were made for.
        rows: Which rows matter.
        marks: Of each pair of a row that counts and a key, ``(batch, row · key, metrics)``.
        counts: In how many rows of each text each metric is defined, ``(metrics, 1, batch)``.
    """

    names: tuple[str, ...]
    allowed: Tensor | None
    rows: Bool[Tensor, "batch query"]
    marks: Float[Tensor, "batch pairs metrics"]
    counts: Float[Tensor, "metrics 1 batch"]

    @classmethod
    def of(
        cls, block: WeightBlock, batch: Batch, wanted: Sequence[str], instead: Mapping[str, Pairs]
    ) -> PairSums | None:
        """Make the marks of a batch for the mask of a block; None where none of the metrics is of this form.

        Args:
            instead: Pairs that some metrics look at instead of their own, in whatever row.
        """
        modules = {name: registry.load("metrics", name) for name in wanted}
        names = tuple(name for name, module in modules.items() if hasattr(module, "marks"))
        if not names:
            return None
        shape = *batch.rows.shape, batch.keys.ids.shape[1]
        counted = batch.rows.unsqueeze(2)
        found = [
            marks_on_pairs(batch, instead[name]) if name in instead else modules[name].marks(batch)
            for name in names
        ]
        marks = torch.stack(
            [
                one if name in instead else one.expand(shape) * counted
                for name, one in zip(names, found, strict=True)
            ]
        )
        if block.allowed is not None:
            marks = marks * block.allowed[:, 0].expand(shape)
        defined = (marks > 0).any(dim=3)
        rows = batch.rows | defined.any(dim=0)
        defined[[one.dtype != torch.bool for one in found]] = batch.rows
        return cls(
            names,
            block.allowed,
            rows,
            marks.flatten(2).permute(1, 2, 0).to(block.weights),
            defined.sum(dim=2).unsqueeze(1).to(block.weights),
        )

    def fit(self, block: WeightBlock) -> bool:
        """Return whether all rows of a block that count sum to 1."""
        sums = block.weights.sum(dim=-1) if block.sums is None else block.sums
        apart = torch.where(self.rows.unsqueeze(1), sums - 1.0, 0.0).abs_()
        return bool(apart.amax() <= FULL)

    def sums(self, block: WeightBlock) -> Float[Tensor, "metrics heads batch"]:
        """Return each metric's sum over the rows of each text."""
        return (block.weights.flatten(2) @ self.marks).permute(2, 1, 0)


def suits(block: WeightBlock, batch: Batch) -> bool:
    """Return whether a block is all of a batch of short texts, under a mask that is the same for all heads."""
    whole = block.weights.shape[2:] == (batch.rows.shape[1], batch.keys.ids.shape[1])
    shared = block.allowed is None or block.allowed.shape[1] == 1
    return whole and shared and block.weights.shape[-1] <= MOST_KEYS


def same_mask(one: Tensor | None, other: Tensor | None) -> bool:
    """Return whether two masks allow the same."""
    if one is None or other is None:
        return one is other
    return one is other or (one.shape == other.shape and torch.equal(one, other))
