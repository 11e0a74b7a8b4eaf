"""Which blocks of keys a block of queries reads: neighbours, global ones at both ends, and random ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """The blocks of a sequence, the last of which may be short, and which block reads which.

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

    def rows(self, index: int) -> slice:
        """Return the positions of a block."""
        return slice(index * self.block, min((index + 1) * self.block, self.length))

    def is_global(self, index: int) -> bool:
        """Return whether a block reads everything."""
        return index < self.ends or index >= self.blocks - self.ends

    def fixed(self) -> Bool[Tensor, "blocks blocks"]:
        """Return which blocks each block reads in every head."""
        index = torch.arange(self.blocks)
        ends = (index < self.ends) | (index >= self.blocks - self.ends)
        near = (index.unsqueeze(-1) - index).abs() <= self.sides
        return near | ends | ends.unsqueeze(-1)

    def pattern(self, heads: int) -> Bool[Tensor, "heads blocks blocks"]:
        """Return which blocks each block reads in each head: the fixed ones and as many drawn from the others.

        The draw for head a does not depend on the number of heads. Global random state is neither read nor changed.
        """
        generator = torch.Generator().manual_seed(self.seed)
        fixed = self.fixed()
        count = min(self.random, self.blocks)
        patterns = []
        for _ in range(heads):
            noise = torch.rand(self.blocks, self.blocks, generator=generator).masked_fill_(fixed, -1.0)
            # Where too few are left, blocks that are read anyway are drawn as well: to set them changes nothing.
            drawn = noise.topk(count, dim=-1).indices
            patterns.append(fixed.scatter(1, drawn, True))
        return torch.stack(patterns)

    def first_draw(self) -> Int[Tensor, "blocks drawn"]:
        """List the blocks that head 0 draws for each query block, those of `pattern`; −1 where it is read anyway.

        Some query blocks at a time, so that long sequences of small blocks need no matrix of all pairs of blocks.
        """
        generator = torch.Generator().manual_seed(self.seed)
        count, index = min(self.random, self.blocks), torch.arange(self.blocks)
        ends = (index < self.ends) | (index >= self.blocks - self.ends)
        parts = []
        for rows in torch.split(index, max((1 << 20) // max(self.blocks, 1), 1)):
            fixed = ((rows.unsqueeze(-1) - index).abs() <= self.sides) | ends | ends[rows].unsqueeze(-1)
            noise = torch.rand(len(rows), self.blocks, generator=generator).masked_fill_(fixed, -1.0)
            drawn = noise.topk(count, dim=-1)
            parts.append(drawn.indices.masked_fill(drawn.values < 0, -1))
        return torch.cat(parts)

    def read(
        self, pattern: Bool[Tensor, "heads blocks blocks"], index: int
    ) -> Int[Tensor, "heads blocks_read"]:
        """List the blocks that a block reads, in order. Every head reads as many."""
        return pattern[:, index].nonzero()[:, 1].view(len(pattern), -1)

    def width(self, index: int) -> int:
        """Count the keys that a block reads in one head, a short block as a whole one."""
        if self.is_global(index):
            return self.length
        near = range(max(index - self.sides, self.ends), min(index + self.sides + 1, self.blocks - self.ends))
        return min(2 * self.ends + len(near) + self.random, self.blocks) * self.block

    def positions(self, pattern: Bool[Tensor, "heads blocks blocks"]) -> Bool[Tensor, "heads query key"]:
        """Write a pattern of blocks as one of positions."""
        whole = pattern.repeat_interleave(self.block, 1).repeat_interleave(self.block, 2)
        return whole[:, : self.length, : self.length]
