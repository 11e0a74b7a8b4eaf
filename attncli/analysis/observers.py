"""Observers: what is kept of the blocks of weights that stream by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attncli.analysis.selection import Selection
from attncli.errors import TooLargeError, UsageError
from attncli.memory import available_bytes, human_bytes
from attncli.record import Kind, Request, Site, WeightBlock
from attncli.view import Matrix


@dataclass
class FullWeights:
    """Keeps the weights of the layers, heads, query rows and keys asked for, or their mean over heads or layers.

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
    _kept: dict[int, _Layer] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._wanted_layers = self.layers.resolve(self.depth)
        self._rows = list(range(self.query_len) if self.rows is None else self.rows)
        self._keys = list(range(self.key_len) if self.keys is None else self.keys)

    def request(self, site: Site) -> Request | None:
        """Ask for the chosen heads and for the range of rows that holds the chosen ones."""
        if site.kind != self.kind:
            return None
        self._seen.add(site.layer)
        if site.layer not in self._wanted_layers:
            return None
        heads = self.heads.resolve(site.heads)
        if not self._kept:
            self._check_size(heads)
        if site.layer not in self._kept:
            shape = (1 if self.heads.mean else len(heads), len(self._rows), len(self._keys))
            self._kept[site.layer] = _Layer(site, heads, np.zeros(shape, np.float32), None)
        return Request(heads, range(min(self._rows), max(self._rows) + 1) if self._rows else range(0))

    def update(self, block: WeightBlock) -> None:
        """Keep what was asked for of a block."""
        layer = self._kept[block.site.layer]
        mine = [(i, row - block.rows.start) for i, row in enumerate(self._rows) if row in block.rows]
        if not mine:
            return
        kept, theirs = [i for i, _ in mine], [j for _, j in mine]
        columns = [key - block.first_key for key in self._keys]
        picked = block.weights[0][[block.heads.index(head) for head in layer.heads]][:, theirs][:, :, columns]
        weights = picked.mean(dim=0, keepdim=True) if self.heads.mean else picked
        layer.weights[:, kept] = weights.numpy(force=True)
        if block.allowed is not None:
            self._keep_mask(layer, block, kept, theirs, columns)

    def _keep_mask(
        self, layer: _Layer, block: WeightBlock, kept: list[int], theirs: list[int], columns: list[int]
    ) -> None:
        assert block.allowed is not None
        if layer.allowed is None:
            layer.allowed = np.ones(layer.weights.shape, np.bool_)
        allowed = block.allowed[0]
        if allowed.shape[0] > 1:
            allowed = allowed[[block.heads.index(head) for head in layer.heads]]
            allowed = allowed.any(dim=0, keepdim=True) if self.heads.mean else allowed
        allowed = allowed.expand(-1, len(block.rows), -1)
        layer.allowed[:, kept] = allowed[:, theirs][:, :, columns].numpy(force=True)

    def _check_size(self, heads: Sequence[int]) -> None:
        layers = 1 if self.layers.mean else len(self._wanted_layers)
        maps = layers * (1 if self.heads.mean else len(heads))
        needed = maps * len(self._rows) * len(self._keys) * 5  # float32 weights and a byte of mask
        free = (self.memory or available_bytes)()
        if free is not None and needed > free:
            raise TooLargeError(
                f"{maps} maps of {len(self._rows):,}×{len(self._keys):,} weights need {human_bytes(needed)}; "
                f"{human_bytes(free)} are free",
                "ask for fewer layers and heads (--layer, --head, mean) or for some rows (--query)",
            )

    def raise_if_missing(self, asked: str) -> None:
        """Refuse layers that were asked for by number and have no attention to show.

        Args:
            asked: The selection as the user wrote it, for the message.

        Raises:
            UsageError: A layer that was named, or every layer, has none.
        """
        missing = [layer for layer in self._wanted_layers if layer not in self._kept]
        if not missing or (self.layers.ranges is None and self._kept):
            return
        have = ", ".join(map(str, sorted(self._seen))) or "none"
        raise UsageError(
            f"--layer {asked}: layer {missing[0]} has no {self.kind} attention", f"layers that have: {have}"
        )

    def matrices(self) -> tuple[Matrix, ...]:
        """Give the maps, by layer and head in the order asked for."""
        layers = [self._kept[layer] for layer in self._wanted_layers if layer in self._kept]
        if self.layers.mean and layers:
            return tuple(_mean_over_layers(layers, self.heads.mean))
        return tuple(matrix for layer in layers for matrix in layer.matrices(self.heads.mean))


@dataclass
class _Layer:
    """What is kept of one layer: ``(heads, rows, keys)``."""

    site: Site
    heads: tuple[int, ...]
    weights: NDArray[np.float32]
    allowed: NDArray[np.bool_] | None

    def matrices(self, mean: bool) -> list[Matrix]:
        names: list[int | Literal["mean"]] = ["mean"] if mean else list(self.heads)
        found = []
        for i, head in enumerate(names):
            grouped = isinstance(head, int) and self.site.kv_heads != self.site.heads
            found.append(
                Matrix(
                    values=self.weights[i],
                    allowed=None if self.allowed is None else self.allowed[i],
                    kind=self.site.kind,
                    layer=self.site.layer,
                    head=head,
                    kv_head=self.site.kv_head(head) if grouped and isinstance(head, int) else None,
                )
            )
        return found


def _mean_over_layers(layers: Sequence[_Layer], mean_heads: bool) -> list[Matrix]:
    """Average each head over the layers; where heads differ in number there is no such average."""
    if len({layer.heads for layer in layers}) > 1:
        raise UsageError("layers differ in their heads, so there is no mean over layers", "add --head mean")
    weights = np.stack([layer.weights for layer in layers]).mean(axis=0)
    masks = [layer.allowed for layer in layers]
    allowed = (
        None
        if any(mask is None for mask in masks)
        else np.logical_or.reduce([m for m in masks if m is not None])
    )
    first = _Layer(layers[0].site, layers[0].heads, weights, allowed)
    return [
        Matrix(m.values, m.allowed, kind=m.kind, layer="mean", head=m.head, kv_head=m.kv_head)
        for m in first.matrices(mean_heads)
    ]


@dataclass
class MaskOnly:
    """Keeps the mask that each layer really used; layers with the same mask are told together.

    Args:
        kind: Which attention of the model.
        layers: Which layers.
        depth: How many layers the model has.
    """

    kind: Kind
    layers: Selection
    depth: int
    _groups: list[tuple[list[int], NDArray[np.bool_]]] = field(default_factory=list)
    _open: list[NDArray[np.bool_]] = field(default_factory=list)
    _layer: int | None = None

    def __post_init__(self) -> None:
        self._wanted_layers = self.layers.resolve(self.depth)

    def request(self, site: Site) -> Request | None:
        """Ask for one head: masks are those of all heads."""
        if site.kind != self.kind or site.layer not in self._wanted_layers:
            return None
        self._close()
        self._layer = site.layer
        return Request(heads=(0,))

    def update(self, block: WeightBlock) -> None:
        """Keep the mask of a block."""
        rows, keys = block.weights.shape[-2:]
        if block.allowed is None:
            self._open.append(np.ones((rows, keys), np.bool_))
        else:
            self._open.append(block.allowed[0, 0].expand(rows, keys).numpy(force=True).copy())

    def groups(self) -> list[tuple[tuple[int, ...], NDArray[np.bool_]]]:
        """Give each distinct mask with the layers that use it, in order of the first of them."""
        self._close()
        return [
            (tuple(sorted(layers)), mask)
            for layers, mask in sorted(self._groups, key=lambda group: min(group[0]))
        ]

    def _close(self) -> None:
        """Put the layer that has just passed with those of the same mask, so that each mask is held once."""
        if not self._open or self._layer is None:
            return
        mask = np.concatenate(self._open)
        self._open = []
        for layers, other in self._groups:
            if mask.shape == other.shape and bool((mask == other).all()):
                layers.append(self._layer)
                return
        self._groups.append(([self._layer], mask))
