"""All metrics of one kind of attention, measured on a block at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from attncli import registry
from attncli.batch import Axis, Batch
from attncli.heads.metrics import DerivedMetric, RowMetric, TextMetric, row_sums
from attncli.record import Kind, WeightBlock


@dataclass(frozen=True)
class Measures:
    """Some metrics by name, each with what its entry says.

    Args:
        names: Those with a number for each row first, then those with one for each text.
    """

    names: tuple[str, ...]

    @classmethod
    def of_kind(cls, kind: Kind, wanted: Sequence[str] | None = None) -> Measures:
        """Choose the metrics that have a meaning for a kind of attention; all of them by default."""
        every = registry.entries("metrics")
        found = [name for name in every if kind in attribute(name, "kinds")]
        chosen = [name for name in found if wanted is None or name in wanted]
        per = {name: attribute(name, "per") for name in chosen}
        return cls(tuple(name for what in ("row", "text") for name in chosen if per[name] == what))

    @cached_property
    def of_rows(self) -> tuple[str, ...]:
        """Those with a number for each row."""
        return tuple(name for name in self.names if attribute(name, "per") == "row")

    @cached_property
    def of_texts(self) -> tuple[str, ...]:
        """Those with a number for each text."""
        return self.names[len(self.of_rows) :]

    @cached_property
    def text_metrics(self) -> tuple[TextMetric, ...]:
        """The functions of those of texts."""
        return tuple(cast(TextMetric, registry.load("metrics", name)) for name in self.of_texts)

    def rows(
        self, block: WeightBlock, batch: Batch, names: Sequence[str] | None = None
    ) -> Float[Tensor, "metrics batch heads rows"]:
        """Return every number of every row of a block, or some of them; NaN where undefined."""
        names = self.of_rows if names is None else names
        if not names:
            return block.weights.new_zeros(0, *block.weights.shape[:3])
        block = replace(block, sums=row_sums(block))
        made: dict[str, Tensor] = {}
        return torch.stack([self._row(name, block, batch, made) for name in names])

    def _row(self, name: str, block: WeightBlock, batch: Batch, made: dict[str, Tensor]) -> Tensor:
        """Return one metric's number of every row; what it is derived from is made once for a block."""
        base = attribute(name, "derived_from")
        if base is not None:
            found = self._row(base, block, batch, made)
            return cast(DerivedMetric, registry.load("metrics", name)).derive(found, block)
        if name not in made:
            made[name] = cast(RowMetric, registry.load("metrics", name)).measure(block, batch)
        return made[name]


def attribute(name: str, key: str) -> Any:
    """Return what a metric's entry says; None where it says nothing."""
    return registry.entries("metrics")[name].attributes.get(key)


def evenly(block: WeightBlock) -> WeightBlock:
    """Return the block that chance would make: each row's weight spread evenly over the keys that it may attend to."""
    shape = block.weights.shape
    if block.allowed is None:
        even = block.weights.new_full((1, 1, 1, 1), 1 / shape[-1]).expand(shape[0], 1, *shape[2:])
        return replace(block, heads=(0,), weights=even, scores=None, sums=None)
    allowed = block.allowed.to(block.weights)
    even = allowed / allowed.sum(dim=-1, keepdim=True).clamp(min=1.0)
    heads = tuple(range(even.shape[1]))
    even = even.expand(shape[0], -1, shape[2], -1)
    return replace(block, heads=heads, weights=even, scores=None, sums=None)


def batch_without_specials(batch: Batch) -> Batch:
    """Return a batch in which special tokens are no keys."""
    keys = batch.keys
    axis = Axis(keys.ids, keys.present & ~keys.special, torch.zeros_like(keys.special), keys.punctuation)
    return Batch(axis if batch.queries is keys else batch.queries, axis, batch.rows)
