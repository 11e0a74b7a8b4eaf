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
from attncli.heads.metrics import row_sums, weight_on_diagonal, weight_on_pairs, wide
from attncli.record import Batch, WeightBlock

MOST_KEYS = 512
"""Longer texts come in tiles, for which the metrics themselves are made."""


def suits(block: WeightBlock, batch: Batch) -> bool:
    """Return whether a block holds all keys of its rows, and not more than fit a cache."""
    keys = batch.keys.ids.shape[1]
    return block.scores is None and block.first_key == 0 and block.weights.shape[-1] == keys <= MOST_KEYS


def rows(block: WeightBlock, batch: Batch, names: Sequence[str]) -> Float[Tensor, "metrics batch heads rows"]:
    """Return the numbers of each row by each of some metrics; NaN where undefined."""
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
    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """Each row's sums of the weights times 1, the key's place and its square, ``(batch, heads, rows)`` each."""
        place = torch.arange(self.block.weights.shape[-1], device=self.block.weights.device)
        sums, places, squares = self._products(torch.stack([place**0, place, place**2], dim=-1))
        return sums, places, squares

    @cached_property
    def on(self) -> Mapping[str, Tensor]:
        """Each row's weight on the keys of some kinds, NaN where it may attend to none, ``(batch, heads, rows)``."""
        keys = self.batch.keys
        place = torch.arange(keys.ids.shape[1], device=keys.ids.device)
        first = place == torch.tensor(keys.starts, device=place.device).unsqueeze(1)
        marks = torch.stack([keys.special & keys.present, keys.punctuation, first], dim=-1)
        wanted = marks.to(self.block.weights)
        if self.block.allowed is None:
            counts = wanted.sum(dim=1)[:, None, None]
        else:
            counts = self.block.allowed.to(wanted) @ wanted.unsqueeze(1)
        found = [
            torch.where(reached, weight, torch.nan)
            for weight, reached in zip(self._products(marks), (counts > 0).unbind(dim=-1), strict=True)
        ]
        return dict(zip(("special", "punctuation", "first"), found, strict=True))

    def _products(self, columns: Tensor) -> tuple[Tensor, ...]:
        """Multiply the weights with columns, ``(#batch, keys, columns)``, in float64, for some of it cancels."""
        batch, heads, height, width = self.block.weights.shape
        columns = columns.to(wide(self.block.weights))
        rows = self.block.weights.reshape(batch, heads * height, width).to(columns)
        return (rows @ columns).view(batch, heads, height, -1).unbind(dim=-1)

    @cached_property
    def sums(self) -> Tensor:
        return row_sums(self.block)

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


def _distance(shared: _Shared) -> Tensor:
    block = shared.block
    row = torch.arange(block.rows.start, block.rows.stop).to(block.weights)
    key = torch.arange(block.weights.shape[-1]).to(block.weights)
    return (block.weights * (row.unsqueeze(1) - key).abs_()).sum(dim=-1) / shared.sums


def _span(shared: _Shared) -> Tensor:
    sums, places, squares = shared.moments
    mean = places / sums
    return (squares / sums - mean * mean).clamp(min=0.0).sqrt()


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
    "first_token": lambda shared: shared.on["first"],
    "delimiter": lambda shared: shared.on["special"],
    "punctuation": lambda shared: shared.on["punctuation"],
    "duplicate_token": lambda shared: weight_on_pairs(shared.block, shared.batch.same_token),
    "induction": lambda shared: weight_on_pairs(shared.block, shared.batch.after_same_token),
}
