"""The metrics of rows on a whole block of short texts at once: the same numbers in a few large steps.

Asked one after another, each metric goes through the weights two or three times; at a few dozen tokens a text it is the
number of steps that costs. Here the weights are multiplied once with a handful of columns (ones, places, special
tokens, …), and what several metrics need is made once. The metrics' own files are the definition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from attncli import registry
from attncli.analysis.metrics import weight_on_diagonal, weight_on_pairs, wide
from attncli.record import Batch, WeightBlock

MOST_KEYS = 512
"""Longer texts come in tiles, for which the metrics themselves are made."""


def suits(block: WeightBlock, batch: Batch) -> bool:
    """Tell whether a block holds all keys of its rows, and not more than fit a cache."""
    keys = batch.keys.ids.shape[1]
    return block.scores is None and block.first_key == 0 and block.weights.shape[-1] == keys <= MOST_KEYS


def rows(block: WeightBlock, batch: Batch, names: Sequence[str]) -> Float[Tensor, "metrics batch heads rows"]:
    """Give the numbers of each row by each of some metrics; NaN where undefined."""
    shared = _Shared(block, batch)
    found = block.weights.new_empty(len(names), *block.weights.shape[:3])
    for place, name in enumerate(names):
        way = _WAYS.get(name)
        found[place] = way(shared) if way else registry.load("metrics", name).measure(block, batch)
    if shared.has_empty:
        found.masked_fill_(shared.empty, torch.nan)
    return found


class _Shared:
    """What several metrics need of a block, each made when it is first asked for."""

    def __init__(self, block: WeightBlock, batch: Batch) -> None:
        self.block, self.batch = block, batch

    @cached_property
    def columns(self) -> Mapping[str, Tensor]:
        """The weights' products with some columns, ``(batch, heads, rows)`` each, in float64."""
        keys = self.batch.keys
        place = torch.arange(keys.ids.shape[1], device=keys.ids.device)
        first = place == torch.tensor(keys.starts, device=place.device).unsqueeze(1)
        made = {
            "sum": torch.ones_like(keys.present),
            "place": place.expand_as(keys.ids),
            "square": (place * place).expand_as(keys.ids),
            "special": keys.special & keys.present,
            "punctuation": keys.punctuation,
            "first": first,
        }
        self.marks = torch.stack(list(made.values()), dim=-1).to(wide(self.block.weights))
        weights = self.block.weights
        batch, heads, height, width = weights.shape
        products = (weights.reshape(batch, heads * height, width).to(self.marks) @ self.marks).view(
            batch, heads, height, -1
        )
        return dict(zip(made, products.unbind(dim=-1), strict=True))

    @cached_property
    def reached(self) -> Mapping[str, Tensor]:
        """Whether a row may attend to any of the keys of a column, ``(#batch, #heads, #rows)``."""
        _ = self.columns
        wanted = self.marks[..., 3:]
        if self.block.allowed is None:
            counts = wanted.sum(dim=1)[:, None, None]
        else:
            counts = self.block.allowed.to(wanted) @ wanted.unsqueeze(1)
        return dict(zip(("special", "punctuation", "first"), (counts > 0).unbind(dim=-1), strict=True))

    @cached_property
    def sums(self) -> Tensor:
        return self.columns["sum"]

    @cached_property
    def empty(self) -> Tensor:
        return self.sums == 0

    @cached_property
    def has_empty(self) -> bool:
        return bool(self.empty.any())

    @cached_property
    def bits(self) -> Tensor:
        weights = self.block.weights
        logs = weights.clamp(min=torch.finfo(weights.dtype).tiny).log_().mul_(weights)
        plain = self.sums.log() - logs.sum(dim=-1) / self.sums
        return (plain / math.log(2)).clamp(min=0.0)

    @cached_property
    def key_counts(self) -> Tensor:
        if self.block.allowed is None:
            return self.sums.new_tensor([[[self.block.weights.shape[-1]]]])
        return self.block.allowed.sum(dim=-1).to(self.sums)

    def on(self, column: str) -> Tensor:
        """Give the weight on the keys of a column."""
        return torch.where(self.reached[column], self.columns[column], torch.nan)


def _distance(shared: _Shared) -> Tensor:
    block = shared.block
    row = torch.arange(block.rows.start, block.rows.stop).to(block.weights)
    key = torch.arange(block.weights.shape[-1]).to(block.weights)
    return (block.weights * (row.unsqueeze(1) - key).abs_()).sum(dim=-1) / shared.sums


def _span(shared: _Shared) -> Tensor:
    mean = shared.columns["place"] / shared.sums
    return (shared.columns["square"] / shared.sums - mean * mean).clamp(min=0.0).sqrt()


def _normalised_entropy(shared: _Shared) -> Tensor:
    largest = shared.key_counts.log2()
    return shared.bits / torch.where(largest > 0, largest, torch.nan)


_WAYS: Mapping[str, Callable[[_Shared], Tensor]] = {
    "entropy": lambda shared: shared.bits,
    "normalised_entropy": _normalised_entropy,
    "effective_keys": lambda shared: shared.bits.exp2(),
    "maximum": lambda shared: shared.block.weights.amax(dim=-1),
    "distance": _distance,
    "span": _span,
    "self": lambda shared: weight_on_diagonal(shared.block, 0),
    "diagonal": lambda shared: weight_on_diagonal(shared.block, 0),
    "previous_token": lambda shared: weight_on_diagonal(shared.block, -1),
    "next_token": lambda shared: weight_on_diagonal(shared.block, 1),
    "first_token": lambda shared: shared.on("first"),
    "delimiter": lambda shared: shared.on("special"),
    "punctuation": lambda shared: shared.on("punctuation"),
    "duplicate_token": lambda shared: weight_on_pairs(shared.block, shared.batch.same_token),
    "induction": lambda shared: weight_on_pairs(shared.block, shared.batch.after_same_token),
}
