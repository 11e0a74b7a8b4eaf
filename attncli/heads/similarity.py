"""Which heads do the same: the overlap of each two heads of a model over all rows, and clusters of those alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from torch import Tensor

from attncli import registry
from attncli.batch import Batch
from attncli.heads.metrics import PairMetric
from attncli.heads.running_sums import Numbers
from attncli.observers.block_parts import InLayers
from attncli.observers.selection import Selection
from attncli.observers.without_keys import without_keys
from attncli.record import AttentionLayer, Kind, Request, WeightBlock

MOST_VALUES = 2**26
"""So many weights of a pass are kept until all its layers are there; of longer texts every few rows."""

Head = tuple[int, int]
"""Layer and head."""


@dataclass
class _Layer:
    """A layer that passes by: its vectors ``(heads, batch, rows, keys)``, once there are any."""

    layer: AttentionLayer
    heads: tuple[int, ...]
    vectors: Tensor | None = None


@dataclass
class HeadOverlap(InLayers):
    """Adds up the products of each two heads' vectors.

    Args:
        exclude_special: Whether special tokens are taken out of the keys. A row that was on them alone is then like
            no other.
        found: Layer and head of each row and column of the products.
        products: Sums over all rows; None before the first.
        rows: How many rows that were.
    """

    kind: Kind
    layers: Selection
    heads: Selection
    depth: int
    exclude_special: bool = False
    found: list[Head] = field(default_factory=list)
    products: Numbers | None = None
    rows: float = 0.0
    _batch: Batch | None = None
    _kept: list[_Layer] = field(default_factory=list)
    _step: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._metric = cast(PairMetric, registry.load("metrics", "similarity"))

    def begin(self, batch: Batch) -> None:
        """Begin the next forward pass."""
        self._batch = batch
        self._kept.clear()

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for the chosen heads and every row."""
        if not self.wants(layer):
            return None
        assert self._batch is not None
        heads = self.heads.of(layer)
        texts, queries = self._batch.rows.shape
        keys = self._batch.keys.ids.shape[1]
        values = len(heads) * len(self._wanted_layers) * texts * queries * keys
        self._step = -(-values // MOST_VALUES)
        self._kept.append(_Layer(layer, heads))
        return Request(heads)

    def update(self, block: WeightBlock) -> None:
        """Keep a block's vectors, or those of every few rows."""
        assert self._batch is not None
        layer = self._kept[-1]
        if self.exclude_special:
            block, _ = without_keys(block, self._batch.keys.special)
        vectors = self._metric.vectors(block, self._batch)
        queries, keys = self._batch.rows.shape[1], self._batch.keys.ids.shape[1]
        whole = (len(block.rows), len(block.keys), block.heads) == (queries, keys, layer.heads)
        if whole and self._step == 1:
            layer.vectors = vectors.transpose(0, 1)
            return
        if layer.vectors is None:
            shape = len(layer.heads), len(vectors), len(range(0, queries, self._step)), keys
            layer.vectors = vectors.new_zeros(shape)
        self._put(layer, layer.vectors, block, vectors)

    def _put(self, layer: _Layer, kept: Tensor, block: WeightBlock, vectors: Tensor) -> None:
        """Put a part of a layer where it belongs."""
        assert self._batch is not None
        rows = [row for row in range(0, self._batch.rows.shape[1], self._step) if row in block.rows]
        theirs = [place for place, head in enumerate(block.heads) if head in layer.heads]
        if not rows or not theirs:
            return
        picked = vectors[:, theirs][:, :, [row - block.rows.start for row in rows]].transpose(0, 1)
        places = [layer.heads.index(block.heads[place]) for place in theirs]
        first, last = rows[0] // self._step, rows[-1] // self._step + 1
        kept[places, :, first:last, block.keys.start : block.keys.stop] = picked

    def commit(self) -> None:
        """Take in what a whole pass has given."""
        if not self._kept:
            return
        assert self._batch is not None
        found = [(kept.layer.index, head) for kept in self._kept for head in kept.heads]
        if self.products is None:
            self.found, self.products = found, np.zeros((len(found), len(found)))
        kept = [layer.vectors for layer in self._kept if layer.vectors is not None]
        vectors = torch.cat(kept).flatten(1)
        self.products += (vectors @ vectors.T).double().cpu().numpy()
        self.rows += float(self._batch.rows[:, :: self._step].sum())
        self._kept.clear()

    def overlaps(self) -> Numbers | None:
        """Return the mean overlap of each two heads, ``(heads, heads)`` in the order of `found`; None without rows."""
        return None if self.products is None or self.rows == 0 else self.products / self.rows


def nearest(overlaps: Numbers) -> list[tuple[int, float]]:
    """Return for each head the other that is most like it, and their overlap; itself where it is the only one."""
    apart = overlaps.copy()
    np.fill_diagonal(apart, -1.0)
    return [(int(row.argmax()), float(row.max())) for row in apart]


def clusters(overlaps: Numbers, least: float) -> list[list[int]]:
    """Put heads together of which each two overlap by at least a share (complete linkage), the largest group first.

    >>> clusters(np.array([[1, 0.9, 0.2], [0.9, 1, 0.3], [0.2, 0.3, 1]]), 0.8)
    [[0, 1]]
    """
    groups: list[list[int]] = [[head] for head in range(len(overlaps))]
    link = overlaps.copy()
    np.fill_diagonal(link, -1.0)
    alive = np.ones(len(groups), dtype=bool)
    while len(groups) > 1:
        place = int(link.argmax())
        one, other = divmod(place, len(groups))
        if link[one, other] < least:
            break
        groups[one] += groups[other]
        alive[other] = False
        link[one] = link[:, one] = np.minimum(link[one], link[other])
        link[one, one] = -1.0
        link[other] = link[:, other] = -1.0
    kept: Sequence[list[int]] = [sorted(group) for group, alive_ in zip(groups, alive, strict=True) if alive_]
    return sorted((group for group in kept if len(group) > 1), key=lambda group: (-len(group), group))
