"""The tiles that cover a window: blocks of query rows, each with the stretch of keys that its window needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from attncli.attention.tiles.partial import ROWS


@dataclass(frozen=True, slots=True)
class WindowTile:
    """A block of rows and its keys, as slices of the inputs.

    Args:
        lead: How many keys lie before the first row's own.
    """

    rows: slice
    keys: slice
    height: int
    width: int
    lead: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """What the tile's mask depends on."""
        return self.height, self.width, self.lead


@dataclass(frozen=True, slots=True)
class Band:
    """A window over the keys: `window` keys to the left of each row, itself included, and to the right likewise.

    A dilated window is an undilated one over every dilation-th position: each residue class is a band of its own,
    whose slices have a step. Query row i has the position ``i + (key_len − query_len)``.

    Args:
        causal: Whether the right side is hidden.
        window: Number of keys, at least 1.
        dilation: From key to key, in positions.
        first: Positions below this are no part of the band, neither as rows nor as keys.
    """

    query_len: int
    key_len: int
    causal: bool
    window: int
    dilation: int = 1
    first: int = 0

    @property
    def offset(self) -> int:
        """Position of the first query row."""
        return self.key_len - self.query_len

    @property
    def first_row(self) -> int:
        """The first query row that is part of the band."""
        return min(max(self.first - self.offset, 0), self.query_len)

    def tiles(self) -> Iterator[WindowTile]:
        """Yield the tiles, residue class by residue class."""
        step = self.dilation
        for start in range(self.first_row, min(self.first_row + step, self.query_len)):
            for row in range(start, self.query_len, step * ROWS):
                yield self._tile(range(row, min(row + step * ROWS, self.query_len), step))

    def _tile(self, rows: range) -> WindowTile:
        own, last = rows[0] + self.offset, rows[-1] + self.offset
        reach = (self.window - 1) * self.dilation
        lowest = self.first + (own - self.first) % self.dilation
        low = max(own - reach, lowest)
        high = last if self.causal else min(last + reach, self.key_len - 1)
        # Products over a multiple of eight keys are faster; the keys added are hidden by the bias.
        odd = -(len(range(low, high + 1, self.dilation)) + min(self.first, self.key_len)) % 8
        low = max(low - odd * self.dilation, lowest)
        keys = range(low, high + 1, self.dilation)
        return WindowTile(
            slice(rows.start, rows.stop, self.dilation),
            slice(keys.start, keys.stop, self.dilation),
            len(rows),
            len(keys),
            (own - low) // self.dilation,
        )

    def allowed(self, tile: WindowTile) -> Bool[Tensor, "rows keys"]:
        """Return which pairs of a tile lie within the window."""
        distance = torch.arange(tile.height).unsqueeze(-1) + tile.lead - torch.arange(tile.width)
        return (distance < self.window) & (distance >= (0 if self.causal else 1 - self.window))

    def order(self) -> Tensor | None:
        """Return where each row from `first_row` on stands among the tiles' rows; None where they are in order."""
        if self.dilation == 1:
            return None
        rows = [torch.arange(tile.rows.start, tile.rows.stop, tile.rows.step) for tile in self.tiles()]
        return torch.cat(rows).argsort() if rows else None
