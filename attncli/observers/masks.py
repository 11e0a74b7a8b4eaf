"""The mask that each layer really used."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attncli.observers.block_parts import InLayers
from attncli.observers.selection import Selection
from attncli.record import AttentionLayer, Kind, Request, WeightBlock


@dataclass
class MaskOnly(InLayers):
    """Keeps the mask that each layer really used; layers with the same mask are told together.

    Rows are kept as bits, and a row that several layers share is held once.

    Args:
        kind: Which attention of the model.
        layers: Which layers.
        depth: How many layers the model has.
        query_len: Number of query rows.
        key_len: Number of keys.
        text: Which text of a batch.
    """

    kind: Kind
    layers: Selection
    depth: int
    query_len: int
    key_len: int
    text: int = 0
    _kept: dict[int, list[bytes]] = field(default_factory=dict)
    _known: dict[bytes, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._nothing = np.packbits(np.zeros(self.key_len, np.bool_)).tobytes()

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for one head: masks are those of all heads."""
        if not self.wants(layer):
            return None
        self._kept.setdefault(layer.index, [self._nothing] * self.query_len)
        return Request(heads=(0,))

    def update(self, block: WeightBlock) -> None:
        """Keep the mask of a block; what lies before and after its keys is ruled out."""
        if 0 not in block.heads:
            return
        mask = np.zeros((len(block.rows), self.key_len), np.bool_)
        inside = mask[:, block.keys.start : block.keys.stop]
        if block.allowed is None:
            inside[:] = True
        else:
            head = block.heads.index(0) if block.allowed.shape[1] > 1 else 0
            text = self.text if block.allowed.shape[0] > 1 else 0
            inside[:] = block.allowed[text, head].expand(inside.shape).numpy(force=True)
        rows = self._kept[block.layer.index]
        for row, bits in zip(block.rows, np.packbits(mask, axis=1), strict=True):
            packed = bits.tobytes()
            rows[row] = self._known.setdefault(packed, packed)

    def groups(self) -> list[tuple[tuple[int, ...], NDArray[np.bool_]]]:
        """Return each distinct mask with the layers that use it, in order of the first of them."""
        groups: dict[tuple[bytes, ...], list[int]] = {}
        for layer in sorted(self._kept):
            groups.setdefault(tuple(self._kept[layer]), []).append(layer)
        return [(tuple(layers), self._unpacked(rows)) for rows, layers in groups.items()]

    def _unpacked(self, rows: tuple[bytes, ...]) -> NDArray[np.bool_]:
        bits = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
        return np.unpackbits(bits, axis=1, count=self.key_len).astype(np.bool_)
