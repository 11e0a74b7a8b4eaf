"""Weights from spans to spans of a text: summed over the keys of one, averaged over the rows of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from attncli.errors import UsageError
from attncli.observers.block_parts import InLayers, heads_in
from attncli.observers.selection import Selection
from attncli.observers.weights import LayerWeights, matrices_of
from attncli.record import AttentionLayer, Kind, Request, WeightBlock
from attncli.view import Matrix

Places = Sequence[int]


@dataclass
class SpanWeights(InLayers):
    """Keeps the weights between spans of tokens: 5 bytes a pair of spans and head, whatever their length.

    W(a → b) = 1/|a| · Σ_{i ∈ a} Σ_{j ∈ b} weights[i, j]

    Args:
        kind: Which attention of the model.
        layers: Which layers.
        heads: Which heads.
        depth: How many layers the model has, to resolve ``-1``.
        query_len: Number of query rows.
        key_len: Number of keys.
        rows: The places of each span of rows; a place may be in several.
        columns: The places of each span of keys.

    Raises:
        UsageError: The largest weights of several heads were asked for.
    """

    kind: Kind
    layers: Selection
    heads: Selection
    depth: int
    query_len: int
    key_len: int
    rows: Sequence[Places]
    columns: Sequence[Places]
    _kept: dict[int, LayerWeights] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.heads.largest:
            raise UsageError("--head max: there is no sum of largest weights over spans", "--head mean")
        super().__post_init__()
        self._in_rows = _membership(self.rows, self.query_len)
        self._in_rows /= self._in_rows.sum(dim=1, keepdim=True).clamp(min=1)
        self._in_columns = _membership(self.columns, self.key_len).T.contiguous()

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for the chosen heads and every row."""
        if not self.wants(layer):
            return None
        heads = self.heads.of(layer)
        if layer.index not in self._kept:
            shape = len(heads), len(self.rows), len(self.columns)
            empty = np.zeros(shape, np.float32), np.zeros(shape, np.bool_)
            self._kept[layer.index] = LayerWeights(layer, heads, *empty)
        return Request(heads)

    def update(self, block: WeightBlock) -> None:
        """Add what a block has of each pair of spans."""
        layer = self._kept[block.layer.index]
        mine, theirs = heads_in(block, layer.heads)
        down = self._in_rows[:, block.rows.start : block.rows.stop].to(block.weights.device)
        across = self._in_columns[block.keys.start : block.keys.stop].to(block.weights.device)
        layer.weights[mine] += (down @ (block.weights[0][theirs] @ across)).numpy(force=True)
        if block.allowed is None:
            seen = (down > 0).any(dim=1)[:, None] & (across > 0).any(dim=0)
        else:
            mask = block.allowed[0] if block.allowed.shape[1] == 1 else block.allowed[0][theirs]
            mask = mask.expand(-1, len(block.rows), -1).to(across)
            seen = (down.to(across) @ (mask @ across)) > 0
        layer.allowed[mine] |= seen.numpy(force=True)

    def matrices(self) -> tuple[Matrix, ...]:
        """Return the maps, by layer and head in the order asked for."""
        layers = [self._kept[layer] for layer in self._wanted_layers if layer in self._kept]
        return matrices_of([self._merged(layer) for layer in layers], self.layers, self.heads)

    def _merged(self, layer: LayerWeights) -> LayerWeights:
        """Take the mean over the heads where that is asked for; of heads that are named, this layer's part of it."""
        if not self.heads.mean:
            return layer
        count = np.float32(len(self.heads.named) or len(layer.heads))
        weights = layer.weights.sum(axis=0, keepdims=True) / count
        return replace(
            layer, weights=weights, allowed=np.logical_or.reduce(layer.allowed, axis=0, keepdims=True)
        )


def _membership(spans: Sequence[Places], length: int) -> Tensor:
    """Return which places each span has, as ones and zeros ``(spans, places)``."""
    found = torch.zeros(len(spans), length)
    for number, places in enumerate(spans):
        found[number, list(places)] = 1.0
    return found
