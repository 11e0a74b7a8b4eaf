"""The strongest keys of every row."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli.observers.block_parts import InLayers, heads_in, places_in
from attncli.observers.selection import Selection
from attncli.record import AttentionLayer, Kind, Request, WeightBlock

NO_KEY = -1
"""Stands where a row has fewer allowed keys than were asked for; its weight is NaN."""

_LEAST_COMB = 4
"""Rows so short that their combs would have fewer keys are searched whole."""

_TIES = torch.iinfo(torch.int32).max


@dataclass(frozen=True)
class Strongest:
    """The strongest keys of some heads of one layer, the strongest first; of equals, the earlier key.

    Args:
        heads: Query heads.
        rows: Absolute positions of the query rows.
        keys: ``(heads, rows, k)`` absolute positions, `NO_KEY` where a row has no more.
        weights: ``(heads, rows, k)``.
    """

    heads: tuple[int, ...]
    rows: range
    keys: NDArray[np.int32]
    weights: NDArray[np.float32]


@dataclass
class StrongestKeys(InLayers):
    """Keeps the k strongest keys of each row: 8·k bytes a row and head.

    Args:
        kind: Which attention of the model.
        count: How many keys of each row.
        layers: Which layers.
        heads: Which heads.
        depth: How many layers the model has, to resolve ``-1``.
        query_len: Number of query rows.
        rows: The query rows wanted; None for all.
    """

    kind: Kind
    count: int
    layers: Selection
    heads: Selection
    depth: int
    query_len: int
    rows: range | None = None
    _kept: dict[int, Strongest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rows = range(self.query_len) if self.rows is None else self.rows

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for the chosen heads and rows."""
        if not self.wants(layer):
            return None
        heads = self.heads.of(layer)
        shape = (len(heads), len(self._rows), self.count)
        keys, weights = np.full(shape, NO_KEY, np.int32), np.full(shape, np.nan, np.float32)
        self._kept[layer.index] = Strongest(heads, self._rows, keys, weights)
        return Request(heads, self._rows)

    def update(self, block: WeightBlock) -> None:
        """Keep the strongest of a block's rows."""
        kept = self._kept[block.layer.index]
        heads, their_heads = heads_in(block, kept.heads)
        rows, their_rows = places_in(block.rows, self._rows)
        weights = block.weights[0][their_heads][:, their_rows]
        allowed = None
        if block.allowed is not None:
            mask = block.allowed[0] if block.allowed.shape[1] == 1 else block.allowed[0][their_heads]
            allowed = mask.expand(-1, len(block.rows), -1)[:, their_rows]
        places, values = strongest(weights, allowed, self.count)
        found = places.shape[-1]
        keys = torch.where(places < 0, NO_KEY, places + block.first_key)
        kept.keys[heads, rows, :found] = keys.numpy(force=True)
        kept.weights[heads, rows, :found] = values.numpy(force=True)

    def strongest(self) -> dict[int, Strongest]:
        """Return what was kept, by layer in the order asked for."""
        return {layer: self._kept[layer] for layer in self._wanted_layers if layer in self._kept}


def strongest(weights: Tensor, allowed: Tensor | None, count: int) -> tuple[Tensor, Tensor]:
    """Find the largest weights of each row among its allowed keys; of equals, the earlier.

    Args:
        weights: ``(heads, rows, keys)``.
        allowed: ``(#heads, rows, keys)``; None where all are.

    Returns:
        ``(places, weights)``, each ``(heads, rows, at most count)``: -1 and NaN where a row has no more.
    """
    flat = weights.flatten(0, 1)
    comb = math.isqrt(flat.shape[-1] // count)
    if flat.device.type != "cpu" or comb < _LEAST_COMB:
        places, values = _exact(flat, None if allowed is None else _of_rows(allowed, weights), count)
    else:
        places, values, sure = _by_combs(flat, count, comb)
        again = (~sure).nonzero()[:, 0]
        if len(again):
            head, row = again // weights.shape[1], again % weights.shape[1]
            mask = None if allowed is None else allowed.expand(weights.shape)[head, row]
            places[again], values[again] = _exact(flat[again], mask, count)
    return places.view(*weights.shape[:2], -1), values.view(*weights.shape[:2], -1)


def _exact(weights: Tensor, allowed: Tensor | None, count: int) -> tuple[Tensor, Tensor]:
    """Find the largest of each row by a number that holds the weight above and the key's order below it.

    A float of at least 0 has the order of its bits read as a whole number.
    """
    keys = torch.arange(weights.shape[-1], device=weights.device)
    ranked = weights.float().contiguous().view(torch.int32).long() * 2**31 + (_TIES - keys)
    if allowed is not None:
        ranked = ranked.masked_fill(~allowed, -1)
    places = ranked.topk(min(count, weights.shape[-1]), dim=-1)
    values = weights.gather(-1, places.indices)
    none = places.values < 0
    return places.indices.masked_fill(none, -1), values.masked_fill(none, torch.nan)


def _by_combs(weights: Tensor, count: int, comb: int) -> tuple[Tensor, Tensor, Tensor]:
    """Find the largest of each row among the combs of keys with the largest maxima: two small searches.

    A comb is every so-manieth key; their maxima are one fast pass. Whatever is not in one of the `count` best combs
    is smaller than the least of their maxima, hence than all of the `count` largest weights.

    Returns:
        Places, values, and for which rows they are sure: not where two that compete are the same, nor where one is 0,
        as that may be forbidden.
    """
    step = weights.shape[1] // comb
    combed = _combed(weights, comb)
    best, one_each = _above_rank(combed.amax(dim=1).numpy(), count)
    teeth = torch.from_numpy(best)[:, None, :].expand(-1, comb, -1)
    values = torch.cat([combed.gather(2, teeth).flatten(1), weights[:, step * comb :]], dim=-1)
    found, one_here = _above_rank(values.numpy(), count)
    which = torch.from_numpy(found)
    values, order = values.gather(-1, which).sort(dim=-1, descending=True)
    which = which.gather(-1, order)
    tooth = torch.from_numpy(best).gather(-1, which % count) + step * (which // count)
    places = torch.where(which < comb * count, tooth, which + (step - count) * comb)
    sure = (
        torch.from_numpy(one_each & one_here)
        & (values[:, -1] > 0)
        & (values[:, :-1] > values[:, 1:]).all(dim=-1)
    )
    return places, values, sure


def _above_rank(values: NDArray[np.float32], count: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Find where each row's `count` largest are, in any order, and for which rows there are just so many.

    NumPy's selection is several times as fast as a search that carries the places along.
    """
    last = values.shape[1] - count
    above = values >= np.partition(values, last, axis=1)[:, last, None]
    just = np.add.reduce(above, axis=1, dtype=np.intp) == count
    if just.all():
        return np.flatnonzero(above).reshape(-1, count) % values.shape[1], just
    above[~just] = np.arange(values.shape[1]) < count  # any places: these rows are found in another way
    return np.flatnonzero(above).reshape(-1, count) % values.shape[1], just


def _combed(weights: Tensor, comb: int) -> Tensor:
    return weights.as_strided(
        (len(weights), comb, weights.shape[1] // comb),
        (weights.stride(0), weights.shape[1] // comb, 1),
        weights.storage_offset(),
    )


def _of_rows(allowed: Tensor, weights: Tensor) -> Tensor:
    return allowed.expand(weights.shape).flatten(0, 1)
