"""The weights themselves, of the layers, heads, rows and keys asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attncli.errors import UsageError
from attncli.memory import require_memory
from attncli.observers.block_parts import InLayers, Part, heads_in, places_in
from attncli.observers.selection import Selection
from attncli.record import AttentionLayer, Kind, Request, WeightBlock
from attncli.view import Matrix

Merged = Literal["", "mean", "max"]


@dataclass
class FullWeights(InLayers):
    """Keeps the weights of the layers, heads, query rows and keys asked for, or their mean over heads or layers.

    Of heads it keeps the largest weight of each pair instead, where that is asked for.

    Args:
        kind: Which attention of the model.
        layers: Which layers.
        heads: Which heads.
        depth: How many layers the model has, to resolve ``-1``.
        rows: Absolute positions of the query rows to keep; None for all.
        keys: Absolute positions of the keys to keep; None for all.
        query_len: Number of query rows.
        key_len: Number of keys.
        memory: Says how many bytes may be taken; the system where None.
        written: Bytes that each weight takes once more while it is written.
    """

    kind: Kind
    layers: Selection
    heads: Selection
    depth: int
    query_len: int
    key_len: int
    rows: Sequence[int] | None = None
    keys: Sequence[int] | None = None
    memory: Callable[[], int | None] | None = None
    written: int = 0
    _kept: dict[int, LayerWeights] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rows: Sequence[int] = range(self.query_len) if self.rows is None else tuple(self.rows)
        self._keys: Sequence[int] = range(self.key_len) if self.keys is None else tuple(self.keys)

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for the chosen heads and for the range of rows that holds the chosen ones."""
        if not self.wants(layer):
            return None
        heads = self.heads.of(layer)
        if not self._kept:
            self._check_size(heads)
        if layer.index not in self._kept:
            shape = (1 if self.heads.merged else len(heads), len(self._rows), len(self._keys))
            self._kept[layer.index] = LayerWeights(
                layer, heads, np.zeros(shape, np.float32), np.zeros(shape, np.bool_)
            )
        return Request(heads, range(min(self._rows), max(self._rows) + 1) if self._rows else range(0))

    def update(self, block: WeightBlock) -> None:
        """Keep what was asked for of a block."""
        layer = self._kept[block.layer.index]
        heads, their_heads = heads_in(block, layer.heads)
        rows, their_rows = places_in(block.rows, self._rows)
        keys, their_keys = places_in(block.keys, self._keys)
        picked = block.weights[0][their_heads][:, their_rows][:, :, their_keys].numpy(force=True)
        if self.heads.mean:
            count = len(self.heads.named) or len(layer.heads)
            layer.weights[0][_part(rows, keys)] += picked.sum(axis=0) / np.float32(count)
        elif self.heads.largest:
            before = layer.weights[0][_part(rows, keys)]
            layer.weights[0][_part(rows, keys)] = np.maximum(before, picked.max(axis=0, initial=0.0))
        else:
            layer.weights[_part(heads, rows, keys)] = picked
        allowed: NDArray[np.bool_] | np.bool_ = np.True_
        if block.allowed is not None:
            mask = block.allowed[0] if block.allowed.shape[1] == 1 else block.allowed[0][their_heads]
            mask = mask.expand(-1, len(block.rows), -1)[:, their_rows][:, :, their_keys]
            allowed = (mask.any(dim=0) if self.heads.merged else mask).numpy(force=True)
        if self.heads.merged:
            layer.allowed[0][_part(rows, keys)] |= allowed
        else:
            layer.allowed[_part(heads, rows, keys)] = allowed

    def _check_size(self, heads: Sequence[int]) -> None:
        layers = 1 if self.layers.mean else len(self._wanted_layers)
        maps = layers * (1 if self.heads.merged else len(heads))
        each = 5 + self.written  # float32 weights and a byte of mask
        require_memory(
            maps * len(self._rows) * len(self._keys) * each,
            f"{maps} map{'s' if maps > 1 else ''} of {len(self._rows):,}×{len(self._keys):,} weights",
            "ask for fewer layers and heads (--layer, --head), some rows (--rows), --top K, or --pool max",
            self.memory,
        )

    def matrices(self) -> tuple[Matrix, ...]:
        """Return the maps, by layer and head in the order asked for."""
        layers = [self._kept[layer] for layer in self._wanted_layers if layer in self._kept]
        return matrices_of(layers, self.layers, self.heads)


@dataclass
class LayerWeights:
    """What is kept of one layer: ``(heads, rows, keys)``; one for all heads where these are merged."""

    layer: AttentionLayer
    heads: tuple[int, ...]
    weights: NDArray[np.float32]
    allowed: NDArray[np.bool_]

    def matrices(self, merged: Merged) -> list[Matrix]:
        """Return a map for each head, or the one that they are merged to."""
        names: list[int | Literal["mean", "max"]] = [merged] if merged else list(self.heads)
        everything = bool(self.allowed.all())
        found = []
        for i, head in enumerate(names):
            grouped = isinstance(head, int) and self.layer.kv_heads != self.layer.heads
            found.append(
                Matrix(
                    values=self.weights[i],
                    allowed=None if everything else self.allowed[i],
                    kind=self.layer.kind,
                    layer=self.layer.index,
                    head=head,
                    kv_head=self.layer.kv_head(head) if grouped and isinstance(head, int) else None,
                )
            )
        return found


def matrices_of(kept: Sequence[LayerWeights], layers: Selection, heads: Selection) -> tuple[Matrix, ...]:
    """Return a map for each head, or for their mean over layers, or one for all that were named."""
    if heads.label is not None and kept:
        return (_one_of_named(kept, heads),)
    if layers.mean and kept:
        return tuple(_mean_over_layers(kept, heads.merged))
    return tuple(matrix for layer in kept for matrix in layer.matrices(heads.merged))


def _one_of_named(layers: Sequence[LayerWeights], heads: Selection) -> Matrix:
    """Make one map of heads that were named: each layer has added its part of their mean, or has their largest."""
    kept = [layer.weights[0] for layer in layers]
    weights = np.sum(kept, axis=0) if heads.mean else np.max(kept, axis=0)
    allowed = np.logical_or.reduce([layer.allowed[0] for layer in layers])
    how: Literal["mean", "max"] = "mean" if heads.mean else "max"
    layer: int | Literal["mean", "max"] = layers[0].layer.index if len(layers) == 1 else how
    everything = None if allowed.all() else allowed
    return Matrix(weights, everything, layers[0].layer.kind, layer, how, label=heads.label)


def _mean_over_layers(layers: Sequence[LayerWeights], merged_heads: Merged) -> list[Matrix]:
    """Average each head over the layers; where heads differ in number there is no such average."""
    if len({layer.heads for layer in layers}) > 1:
        raise UsageError("layers differ in their heads, so there is no mean over layers", "add --head mean")
    weights = np.stack([layer.weights for layer in layers]).mean(axis=0)
    allowed = np.logical_or.reduce([layer.allowed for layer in layers])
    first = LayerWeights(layers[0].layer, layers[0].heads, weights, allowed)
    return [
        Matrix(m.values, m.allowed, kind=m.kind, layer="mean", head=m.head, kv_head=m.kv_head)
        for m in first.matrices(merged_heads)
    ]


def _part(*axes: Part) -> tuple[Part | NDArray[np.intp], ...]:
    """Index several axes at once, each by a slice or by places."""
    if all(isinstance(axis, slice) for axis in axes):
        return axes
    return np.ix_(*(np.arange(axis.start, axis.stop) if isinstance(axis, slice) else axis for axis in axes))
