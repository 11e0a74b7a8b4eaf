"""The mask that each layer really used."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attncli.analysis.selection import Selection
from attncli.record import Kind, Request, Site, WeightBlock


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
