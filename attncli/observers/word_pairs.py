"""The weights of pairs of words: summed over the key word's tokens, averaged over the query word's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attncli.observers.block_parts import InLayers, heads_in
from attncli.observers.selection import Selection
from attncli.record import AttentionLayer, Kind, Request, WeightBlock


@dataclass(frozen=True)
class LayerWords:
    """What one layer's heads give to pairs of words.

    Args:
        values: ``(heads, pairs)`` float64, in the order of `heads` and of the pairs asked for.
    """

    layer: AttentionLayer
    heads: tuple[int, ...]
    values: NDArray[np.float64]


@dataclass
class WordWeights(InLayers):
    """Keeps the weights of pairs of words, and nothing else: 8 bytes a pair and head.

    W(a → b) = 1/|a| · Σ_{i ∈ a} Σ_{j ∈ b} weights[i, j]

    Args:
        kind: Which attention of the model.
        layers: Which layers.
        heads: Which heads.
        depth: How many layers the model has, to resolve ``-1``.
        pairs: Query word and key word of each pair, as absolute positions.

    Reference:
        Clark, Khandelwal, Levy, Manning 2019, What Does BERT Look At?, §5; arXiv 1906.04341.
    """

    kind: Kind
    layers: Selection
    heads: Selection
    depth: int
    pairs: Sequence[tuple[range, range]]
    _kept: dict[int, LayerWords] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        lines = [
            (row, keys.start, keys.stop, number)
            for number, (rows, keys) in enumerate(self.pairs)
            for row in rows
        ]
        self._rows, self._starts, self._stops, self._pair = np.array(lines, np.int64).reshape(-1, 4).T
        self._share = np.array([1 / len(self.pairs[number][0]) for number in self._pair.tolist()])

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for the chosen heads and for the range of rows that holds the query words."""
        if not self.wants(layer):
            return None
        heads = self.heads.of(layer)
        if layer.index not in self._kept:
            self._kept[layer.index] = LayerWords(layer, heads, np.zeros((len(heads), len(self.pairs))))
        rows = range(int(self._rows.min()), int(self._rows.max()) + 1) if len(self._rows) else range(0)
        return Request(heads, rows)

    def update(self, block: WeightBlock) -> None:
        """Add what a block has of each pair; the sums of neighbouring keys are differences of running sums."""
        layer = self._kept[block.layer.index]
        here = (self._rows >= block.rows.start) & (self._rows < block.rows.stop)
        if not here.any():
            return
        rows, place = np.unique(self._rows[here] - block.rows.start, return_inverse=True)
        mine, theirs = heads_in(block, layer.heads)
        picked = block.weights[0][theirs][:, rows.tolist()].numpy(force=True)
        sums = np.zeros((*picked.shape[:2], picked.shape[2] + 1))
        np.cumsum(picked, axis=2, dtype=np.float64, out=sums[:, :, 1:])
        first, last = (
            np.clip(edge[here] - block.first_key, 0, picked.shape[2]) for edge in (self._starts, self._stops)
        )
        weights = (sums[:, place, last] - sums[:, place, first]) * self._share[here]
        heads = np.arange(len(layer.heads))[mine]
        np.add.at(layer.values, (heads[:, None], self._pair[here][None, :]), weights)

    def found(self) -> Iterator[LayerWords]:
        """Return what was kept, layer by layer in the order asked for."""
        return (self._kept[layer] for layer in self._wanted_layers if layer in self._kept)
