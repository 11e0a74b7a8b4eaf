"""How many queries and keys each layer has, for models whose tokens become fewer from layer to layer."""

from __future__ import annotations

from dataclasses import dataclass, field

from attncli.labels import in_ranges
from attncli.record import AttentionLayer, Kind, Request, WeightBlock


@dataclass
class LayerSizes:
    """Notes the size of each layer of the main stack.

    Attributes:
        found: Number of queries and of keys, by layer.
    """

    kind: Kind
    found: dict[int, tuple[int, int]] = field(default_factory=dict)

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for one head of each layer."""
        return Request(heads=(0,)) if layer.kind == self.kind and not layer.stack else None

    def update(self, block: WeightBlock) -> None:
        """Take a block's rows into account."""
        rows, _ = self.found.get(block.layer.index, (0, 0))
        self.found[block.layer.index] = max(rows, block.rows.stop), block.keys.stop

    def __str__(self) -> str:
        """Name them: ``0-1: 64×16, 2-3: 16×16``."""
        layers: dict[tuple[int, int], list[int]] = {}
        for layer, size in sorted(self.found.items()):
            layers.setdefault(size, []).append(layer)
        return ", ".join(f"{in_ranges(group)}: {size[0]}×{size[1]}" for size, group in layers.items())
