"""A picture of maps that are too large to keep or to draw: each cell stands for many pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attncli.axis_cells import SIDE, even_cuts
from attncli.errors import UsageError
from attncli.memory import require_memory
from attncli.observers.block_parts import InLayers, heads_in
from attncli.observers.selection import Selection
from attncli.record import AttentionLayer, Kind, Request, WeightBlock
from attncli.view import Matrix

How = Literal["max", "mean"]
Name = int | Literal["mean", "max"]


@dataclass
class PooledPicture(InLayers):
    """Keeps the largest, or the mean, weight of each cell of a picture: 8 bytes a cell, whatever the length.

    The mean is over the cell's allowed pairs. With heads that are merged
    the cell is of their mean, or of their largest, weights.

    Args:
        kind: Which attention of the model.
        layers: Which layers.
        heads: Which heads.
        depth: How many layers the model has, to resolve ``-1``.
        query_len: Number of query rows.
        key_len: Number of keys.
        how: ``max`` keeps sinks and diagonals in sight; ``mean`` keeps amounts.
        side: Most cells each way.

    Raises:
        UsageError: A maximum over cells of a mean over layers was asked for, or a mean of largest weights.
    """

    kind: Kind
    layers: Selection
    heads: Selection
    depth: int
    query_len: int
    key_len: int
    how: How = "max"
    side: int = SIDE
    _kept: dict[int, _Layer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.layers.mean and self.how == "max":
            raise UsageError(
                "the largest weights of a mean over layers cannot be had without all the weights",
                "--pool mean, or each layer by itself",
            )
        if self.heads.largest and self.how == "mean":
            raise UsageError("the mean over cells of the heads' largest weights is not kept", "--pool max")
        if self.heads.named and self.heads.merged:
            raise UsageError("heads that are named are not pooled together", "--rows or --top shows a part")
        super().__post_init__()
        self.query_starts = even_cuts(self.query_len, self.side)
        self.key_starts = even_cuts(self.key_len, self.side)

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for the chosen heads and every row."""
        if not self.wants(layer):
            return None
        heads = self.heads.of(layer)
        if not self._kept:
            self._check_size(1 if self.heads.merged else len(heads))
        names: list[Name] = [self.heads.merged] if self.heads.merged else list(heads)
        shape = (len(names), len(self.query_starts), len(self.key_starts))
        counts = np.zeros((1, *shape[1:]), np.int64)
        self._kept[layer.index] = _Layer(layer, heads, names, np.zeros(shape, np.float32), counts)
        return Request(heads)

    def _check_size(self, heads: int) -> None:
        layers, cells = len(self._wanted_layers), len(self.query_starts) * len(self.key_starts)
        require_memory(
            layers * cells * (4 * heads + 8),  # a number for each head, and how many pairs there are
            f"{layers * heads} pooled map{'s' if layers * heads > 1 else ''} of {self.query_len:,}×{self.key_len:,}",
            "ask for fewer layers and heads (--layer, --head)",
        )

    def update(self, block: WeightBlock) -> None:
        """Take a block into the picture."""
        layer = self._kept[block.layer.index]
        heads, their_heads = heads_in(block, layer.heads)
        weights = block.weights[0][their_heads].numpy(force=True)
        allowed = None if block.allowed is None else block.allowed[0].expand(-1, len(block.rows), -1)
        if allowed is not None and allowed.shape[0] > 1:
            allowed = allowed[their_heads]
        mask = None if allowed is None else allowed.numpy(force=True)
        places = list(range(heads.start, heads.stop)) if isinstance(heads, slice) else heads
        if self.heads.largest:
            either = None if mask is None else np.logical_or.reduce(mask, axis=0, keepdims=True)
            self._add(layer, [0], weights.max(axis=0, keepdims=True), either, block.rows, block.keys)
        elif not self.heads.mean:
            self._add(layer, places, weights, mask, block.rows, block.keys)
        elif layer.add_to_mean(weights, mask, block.rows, block.keys, self.key_len):
            total, mask = layer.take_mean(block.rows)
            self._add(layer, [0], total, mask, block.rows, range(self.key_len))

    def _add(
        self,
        layer: _Layer,
        places: list[int],
        weights: NDArray[np.float32],
        mask: NDArray[np.bool_] | None,
        rows: range,
        keys: range,
    ) -> None:
        """Pool ``(heads, rows, keys)`` and put it at its place; a cell may go on in another block."""
        row_cells, row_starts = _cells(self.query_starts, rows)
        key_cells, key_starts = _cells(self.key_starts, keys)
        first = places[0] == 0
        if self.how == "max":
            pooled = np.maximum.reduceat(np.maximum.reduceat(weights, row_starts, axis=1), key_starts, axis=2)
        else:
            pooled = np.add.reduceat(np.add.reduceat(weights, row_starts, axis=1), key_starts, axis=2)
        for place, picture in zip(places, pooled, strict=True):
            cell = layer.values[place, row_cells, key_cells]
            layer.values[place, row_cells, key_cells] = (
                np.maximum(cell, picture) if self.how == "max" else cell + picture
            )
        counts = _counts(mask, row_starts, key_starts, rows, keys)
        if len(counts) > 1:
            layer.tell_heads_apart()
            for place, count in zip(places, counts, strict=True):
                layer.counts[place, row_cells, key_cells] += count
        elif len(layer.counts) > 1:
            layer.counts[places, row_cells, key_cells] += counts
        elif first:
            layer.counts[0, row_cells, key_cells] += counts[0]

    def matrices(self) -> tuple[Matrix, ...]:
        """Return the pictures, by layer and head in the order asked for."""
        layers = [self._kept[layer] for layer in self._wanted_layers if layer in self._kept]
        made = [layer.matrices(self.how) for layer in layers]
        if not self.layers.mean or not made:
            return tuple(matrix for of_layer in made for matrix in of_layer)
        if len({layer.heads for layer in layers}) > 1:
            raise UsageError(
                "layers differ in their heads, so there is no mean over layers", "add --head mean"
            )
        return tuple(_mean(matrices) for matrices in zip(*made, strict=True))


@dataclass
class _Layer:
    """The pictures of one layer.

    Args:
        values: ``(heads, row cells, key cells)``: largest, or sum.
        counts: Allowed pairs of each cell, ``(1 or heads, row cells, key cells)``.
        open: Sums over heads that wait for the others, by first row, with how many heads are in.
    """

    layer: AttentionLayer
    heads: tuple[int, ...]
    names: list[Name]
    values: NDArray[np.float32]
    counts: NDArray[np.int64]
    open: dict[int, tuple[NDArray[np.float32], NDArray[np.bool_], int]] = field(default_factory=dict)

    def add_to_mean(
        self,
        weights: NDArray[np.float32],
        mask: NDArray[np.bool_] | None,
        rows: range,
        keys: range,
        key_len: int,
    ) -> bool:
        """Add some heads of some rows; say whether all heads are in."""
        if rows.start not in self.open:
            shape = (len(rows), key_len)
            self.open[rows.start] = np.zeros(shape, np.float32), np.zeros(shape, np.bool_), 0
        total, allowed, seen = self.open[rows.start]
        total[:, keys.start : keys.stop] += weights.sum(axis=0)
        allowed[:, keys.start : keys.stop] |= True if mask is None else mask.any(axis=0)
        self.open[rows.start] = total, allowed, seen + len(weights)
        return seen + len(weights) == len(self.heads)

    def take_mean(self, rows: range) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the mean over heads of some rows, ``(1, rows, keys)``, and forget them."""
        total, allowed, seen = self.open.pop(rows.start)
        return total[None] / np.float32(seen), allowed[None]

    def tell_heads_apart(self) -> None:
        """Count each head's pairs by themselves from now on, since their masks differ."""
        if len(self.counts) == 1:
            self.counts = np.repeat(self.counts, len(self.heads), axis=0)

    def matrices(self, how: How) -> list[Matrix]:
        found = []
        for place, name in enumerate(self.names):
            counts = self.counts[place if len(self.counts) > 1 else 0]
            values = self.values[place]
            if how == "mean":
                values = (values / np.maximum(counts, 1)).astype(np.float32)
            grouped = isinstance(name, int) and self.layer.kv_heads != self.layer.heads
            found.append(
                Matrix(
                    values=values,
                    allowed=None if counts.all() else counts > 0,
                    kind=self.layer.kind,
                    layer=self.layer.index,
                    head=name,
                    kv_head=self.layer.kv_head(name) if grouped and isinstance(name, int) else None,
                )
            )
        return found


def _cells(edges: Sequence[int], part: range) -> tuple[slice, list[int]]:
    """Return which cells a range of positions touches, and where each begins within it."""
    first = int(np.searchsorted(edges, part.start, side="right")) - 1
    last = int(np.searchsorted(edges, part.stop, side="left"))
    return slice(first, last), [max(edges[cell], part.start) - part.start for cell in range(first, last)]


def _counts(
    mask: NDArray[np.bool_] | None, row_starts: list[int], key_starts: list[int], rows: range, keys: range
) -> NDArray[np.int64]:
    """Count the allowed pairs of each cell."""
    if mask is None:
        down, across = (
            np.diff([*starts, len(part)]) for starts, part in ((row_starts, rows), (key_starts, keys))
        )
        return np.asarray(np.multiply.outer(down, across)[None], np.int64)
    by_row = np.add.reduceat(mask, row_starts, axis=1, dtype=np.int64)
    return np.add.reduceat(by_row, key_starts, axis=2)


def _mean(matrices: Sequence[Matrix]) -> Matrix:
    """Average one head over layers; each cell over the layers that allow it."""
    allowed = [np.ones(m.values.shape, np.bool_) if m.allowed is None else m.allowed for m in matrices]
    total = np.sum([m.values for m in matrices], axis=0)
    values = (total / np.maximum(np.sum(allowed, axis=0), 1)).astype(np.float32)
    every = np.logical_or.reduce(allowed)
    first = matrices[0]
    return Matrix(
        values,
        None if every.all() else every,
        kind=first.kind,
        layer="mean",
        head=first.head,
        kv_head=first.kv_head,
    )
