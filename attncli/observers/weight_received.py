"""How much weight each key receives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli.observers.block_parts import InLayers, heads_in, places_in
from attncli.observers.selection import Selection
from attncli.record import Kind, Request, Site, WeightBlock


@dataclass
class WeightReceived(InLayers):
    """Sums each key's column: the weight that it receives from all rows together.

    Over all keys the sums add up to the number of rows, less what attention sinks take.

    Args:
        kind: Which attention of the model.
        layers: Which layers.
        heads: Which heads.
        depth: How many layers the model has, to resolve ``-1``.
        key_len: Number of keys.
    """

    kind: Kind
    layers: Selection
    heads: Selection
    depth: int
    key_len: int
    _kept: dict[int, tuple[tuple[int, ...], Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._wanted_layers = self.layers.resolve(self.depth)

    def request(self, site: Site) -> Request | None:
        """Ask for the chosen heads and every row."""
        if site.kind != self.kind or site.layer not in self._wanted_layers:
            return None
        heads = self.heads.resolve(site.heads)
        self._kept[site.layer] = heads, torch.zeros(len(heads), self.key_len, dtype=torch.float64)
        return Request(heads)

    def update(self, block: WeightBlock) -> None:
        """Add a block's columns."""
        wanted, received = self._kept[block.site.layer]
        heads, their_heads = heads_in(block, wanted)
        keys, their_keys = places_in(block.keys, range(self.key_len))
        ones = block.weights.new_ones(len(block.rows))
        columns = torch.stack([torch.mv(head.T, ones) for head in block.weights[0][their_heads]])
        received[heads, keys] += columns[:, their_keys].cpu()

    def received(self) -> dict[int, tuple[tuple[int, ...], NDArray[np.float64]]]:
        """Give by layer, in the order asked for: the heads, and their sums ``(heads, key)``."""
        layers = [layer for layer in self._wanted_layers if layer in self._kept]
        return {layer: (self._kept[layer][0], self._kept[layer][1].numpy()) for layer in layers}
