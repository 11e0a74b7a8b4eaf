"""Head metrics, one file each: a number for every row of weights, or one for a text, or one for two heads.

A metric's file has an `ENTRY` whose attributes are

    kinds   the kinds of attention it has a meaning for: some need queries and keys to be the same tokens
    unit    of the number: ``bits``, ``tokens``, ``keys``, ``weight``, ``share``
    per     what it is a number of: ``row``, ``text`` or ``pair`` (of heads)
    null    what it is held against, see below; absent where nothing is to be held against
    offset  with the null ``pairs``: from a row's position to that of the key that is meant
    label   what a head is called that is far above its null; absent where no name is given
    derived_from  the metric of rows that it is made from; absent where it is made from weights

and the functions of `RowMetric`, `DerivedMetric`, `TextMetric` or `PairMetric`. All are pure and look at one block at a
time, every text of the batch at once; sums and averages are an observer's work.

A null says what the number would be if there were nothing in the head but chance:

    chance  the same rows, with their weight spread evenly over the keys that they may attend to
    places  the larger of that and of the same head where the text's tokens are shuffled (specials stay), at the places
            that held the marks, or the repetition, before: what position alone explains
    pairs   the larger of chance and of the same head on the shuffled text, between the two tokens that stood side by
            side before: what the two words alone explain
    shuffled  the same number on the shuffled text, where neither more nor less than it means anything by itself
"""

from __future__ import annotations

from typing import Protocol

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncli.batch import Axis, Batch
from attncli.record import WeightBlock


class Marks(Protocol):
    """What a metric may offer besides ``measure``: the same as a sum of weights, one product for all heads.

    It makes short texts fast. In each row that counts, the metric is Σ weight · mark over the keys.
    """

    def marks(self, batch: Batch) -> Tensor:
        """Return by what each key's weight counts in each row, ``(#batch, #query, key)``.

        Boolean marks pick keys: a row that may attend to none of them has no number.
        """


class RowMetric(Protocol):
    """A number for each row."""

    def measure(self, block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows"]:
        """Return a number for each row, NaN where it is undefined: at least in rows without any weight."""


class DerivedMetric(Protocol):
    """A number for each row, from the number that the metric of its entry's ``derived_from`` has for that row."""

    def derive(
        self, found: Float[Tensor, "batch heads rows"], block: WeightBlock
    ) -> Float[Tensor, "batch heads rows"]:
        """Return a number for each row, NaN where it is undefined."""


class TextMetric(Protocol):
    """A number for each text, from sums over its counted rows."""

    def collect(self, block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads parts"]:
        """Return what a block adds to the sums, in float64."""

    def finish(self, sums: Float[Tensor, "batch heads parts"], batch: Batch) -> Float[Tensor, "batch heads"]:
        """Return the number of each text from the sums of all its blocks; NaN where it is undefined."""


class PairMetric(Protocol):
    """A number for each two heads, from vectors whose products add up."""

    def vectors(self, block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows keys"]:
        """Return a vector for each row, 0 where the row does not count; the number is the mean product of two heads."""


def positions_only(queries: int, keys: int | None = None) -> Batch:
    """Return a batch of one text of which nothing is known but its length; every row counts."""
    axis = _axis(queries)
    return Batch(axis, axis if keys in (None, queries) else _axis(keys or 0), axis.present)


def _axis(length: int) -> Axis:
    none = torch.zeros(1, length, dtype=torch.bool)
    return Axis(torch.arange(length).unsqueeze(0), ~none, none, none)


def wide(values: Tensor) -> torch.dtype:
    """Return the widest float that the device has, for sums in which much cancels."""
    return torch.float32 if values.device.type == "mps" else torch.float64


def row_sums(block: WeightBlock) -> Float[Tensor, "batch heads rows"]:
    """Return each row's sum of weights: 1, less where there is a sink, 0 where nothing is allowed."""
    return block.weights.sum(dim=-1) if block.sums is None else block.sums


def defined(
    values: Float[Tensor, "batch heads rows"], block: WeightBlock
) -> Float[Tensor, "batch heads rows"]:
    """Put NaN for rows without any weight."""
    empty = row_sums(block) == 0
    return values.masked_fill(empty, torch.nan) if bool(empty.any()) else values


def key_counts(block: WeightBlock) -> Float[Tensor, "#batch #heads #rows"]:
    """Return the number of keys that each row may attend to."""
    if block.allowed is None:
        return block.weights.new_tensor([[[block.weights.shape[-1]]]])
    return block.allowed.sum(dim=-1).to(block.weights)


def weight_on_diagonal(block: WeightBlock, offset: int) -> Float[Tensor, "batch heads rows"]:
    """Return each row's weight on the key at its own position plus `offset`.

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
    """Return each row's weight on the key at a position; NaN where it may not attend to it."""
    if key not in block.keys:
        return torch.full_like(block.weights[..., 0], torch.nan)
    place = key - block.first_key
    return _allowed(block.weights[..., place], None if block.allowed is None else block.allowed[..., place])


def weight_on_keys(
    block: WeightBlock, wanted: Bool[Tensor, "batch key"]
) -> Float[Tensor, "batch heads rows"]:
    """Return each row's weight on some keys of its text together; NaN where it may attend to none of them."""
    here = wanted[:, block.keys.start : block.keys.stop]
    found = (block.weights @ here.to(block.weights)[:, None, :, None]).squeeze(-1)
    reached = here[:, None, None] if block.allowed is None else block.allowed & here[:, None, None]
    return torch.where(reached.any(dim=-1), found, torch.nan)


def weight_on_pairs(
    block: WeightBlock, pairs: tuple[Tensor, Tensor, Tensor]
) -> Float[Tensor, "batch heads rows"]:
    """Return each row's weight on the keys that it is paired with; NaN where it may attend to none of them.

    Args:
        pairs: Texts, rows and keys.
    """
    texts, rows, keys = pairs
    inside = (rows >= block.rows.start) & (rows < block.rows.stop)
    inside &= (keys >= block.keys.start) & (keys < block.keys.stop)
    texts, rows, keys = texts[inside], rows[inside] - block.rows.start, keys[inside] - block.first_key
    batch, heads, height, width = block.weights.shape
    target = texts * height + rows
    summed = block.weights.new_zeros(batch * height, heads)
    summed.index_add_(0, target, block.weights[texts, :, rows, keys])
    reached = torch.zeros_like(summed)
    if block.allowed is None:
        reached.index_fill_(0, target, 1.0)
    else:
        allowed = block.allowed.expand(batch, -1, height, width)[texts, :, rows, keys]
        reached.index_add_(0, target, allowed.to(summed).expand(-1, heads))
    found = torch.where(reached > 0, summed, torch.nan)
    return found.view(batch, height, heads).transpose(1, 2)


def _allowed(weights: Tensor, allowed: Tensor | None) -> Tensor:
    return weights if allowed is None else torch.where(allowed, weights, torch.nan)


def distances(batch: Batch) -> Tensor:
    """Return how far each key stands after each row, ``(1, query, key)``."""
    row, key = (torch.arange(axis.ids.shape[1]).to(batch.rows.device) for axis in (batch.queries, batch.keys))
    return (key - row.unsqueeze(1)).unsqueeze(0)


def marks_on_pairs(batch: Batch, pairs: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Return True at some pairs of a row and a key (texts, rows, keys), ``(batch, query, key)``."""
    marks = batch.rows.new_zeros(*batch.rows.shape, batch.keys.ids.shape[1])
    return marks.index_put_(pairs, batch.rows.new_ones(()))
