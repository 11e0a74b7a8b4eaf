"""Which blocks of keys a block of queries reads: neighbours, global ones at both ends, and random ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attncli.attention.tiles import closed, extent


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """The blocks of a sequence, the last of which may be short, and who reads which.

    Args:
        length: Positions in the sequence.
        block: Positions in a block.
        random: Blocks drawn for each query block that is not global, from those it does not read otherwise.
        ends: Global blocks at each end.
        sides: Neighbours on each side.
        seed: Of the draw.
    """

    length: int
    block: int
    random: int
    ends: int
    sides: int
    seed: int

    @property
    def blocks(self) -> int:
        """Number of blocks, the short one included."""
        return -(-self.length // self.block)

    def positions(self, start: int, stop: int) -> slice:
        """Give the positions from one block up to another."""
        return slice(start * self.block, min(stop * self.block, self.length))

    def is_global(self, index: int) -> bool:
        """Tell whether a block reads everything."""
        return index < self.ends or index >= self.blocks - self.ends

    def stretches(self, index: int) -> list[slice]:
        """Give the positions that a block reads in every head, as stretches that do not overlap.

        >>> BlockLayout(100, 10, random=0, ends=1, sides=1, seed=0).stretches(4)
        [slice(0, 10, None), slice(30, 60, None), slice(90, 100, None)]
        """
        if self.is_global(index):
            return [slice(0, self.length)]
        last = self.blocks - self.ends
        low, high = max(index - self.sides, self.ends), min(index + self.sides + 1, last)
        runs = [(0, self.ends), (low, high), (last, self.blocks)]
        return [self.positions(*run) for run in runs if run[0] < run[1]]

    def fixed(self) -> Bool[Tensor, "blocks blocks"]:
        """Give which blocks each block reads in every head."""
        index = torch.arange(self.blocks)
        ends = (index < self.ends) | (index >= self.blocks - self.ends)
        near = (index.unsqueeze(-1) - index).abs() <= self.sides
        return near | ends | ends.unsqueeze(-1)

    def drawn(self, heads: int) -> Int[Tensor, "heads blocks random"]:
        """Draw each head's random blocks without replacement; −1 where none is left.

        The blocks of head a do not depend on the number of heads. Global random state is neither read nor changed.
        """
        generator = torch.Generator().manual_seed(self.seed)
        taken = self.fixed()
        count = min(self.random, self.blocks)
        draws = []
        for _ in range(heads):
            noise = torch.rand(self.blocks, self.blocks, generator=generator).masked_fill_(taken, -1.0)
            lots, blocks = noise.topk(count, dim=-1)
            draws.append(blocks.masked_fill(lots < 0.0, -1))
        return torch.stack(draws)

    def random_positions(self, drawn: Int[Tensor, "heads random"]) -> Int[Tensor, "heads keys"]:
        """Give the positions of one query block's random blocks; they may lie beyond the end of a short block.

        All heads have as many, for all choose from as many.
        """
        blocks = drawn[:, drawn[0] >= 0]
        return (blocks.unsqueeze(-1) * self.block + torch.arange(self.block, device=drawn.device)).flatten(1)

    def beyond_end(
        self, positions: Int[Tensor, "heads keys"], dtype: torch.dtype
    ) -> Float[Tensor, "heads 1 keys"] | None:
        """Give the bias that closes positions beyond the end; None where there are none."""
        inside = positions < self.length
        return None if bool(inside.all()) else closed(inside.unsqueeze(1), dtype)

    def pattern(self, heads: int) -> Bool[Tensor, "heads query key"]:
        """Give which pairs each head computes."""
        allowed = self.fixed().repeat(heads, 1, 1)
        drawn = self.drawn(heads)
        allowed |= torch.zeros_like(allowed).scatter_(2, drawn.clamp(min=0), drawn >= 0)
        return allowed.repeat_interleave(self.block, 1).repeat_interleave(self.block, 2)[
            :, : self.length, : self.length
        ]

    def height(self, index: int) -> int:
        """Count a block's positions."""
        return extent(self.positions(index, index + 1))

    def width(self, index: int) -> int:
        """Count the keys that a block reads in one head (a short random block as a whole one)."""
        if self.is_global(index):
            return self.length
        near = range(max(index - self.sides, self.ends), min(index + self.sides + 1, self.blocks - self.ends))
        left = self.blocks - 2 * self.ends - len(near)
        shared = sum(extent(stretch) for stretch in self.stretches(index))
        return shared + min(self.random, left) * self.block
