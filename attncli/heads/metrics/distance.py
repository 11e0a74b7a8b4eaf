"""Mean distance: how far a row looks."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attncli.batch import Batch
from attncli.heads.metrics import defined, distances, row_sums
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="distance",
    summary="how far a row looks: the weighted mean of |query − key|",
    reference="Vig and Belinkov 2019, Analyzing the Structure of Attention, §4.3, arXiv 1906.04284",
    attributes={"kinds": ("encoder", "decoder"), "unit": "tokens", "per": "row", "null": "shuffled"},
)


def measure(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows"]:
    """Return Σ w·|i − j| / Σ w, in tokens.

    A key before all of the block's rows is as far as the first of them is from it, which is the same for every row,
    plus ``i − first row``; so it is with keys after them. There a product with one vector does.

    >>> row = WeightBlock(None, (0,), range(3, 4), torch.tensor([[[[0.5, 0.0, 0.0, 0.5]]]]), None)
    >>> measure(row, None)
    tensor([[[1.5000]]])
    """
    rows, keys = block.rows, block.keys
    before = max(0, min(rows.start, keys.stop) - keys.start)
    after = max(before, min(rows.stop, keys.stop) - keys.start)
    row = torch.arange(rows.start, rows.stop).to(block.weights)
    key = torch.arange(keys.start, keys.stop).to(block.weights)
    near = block.weights[..., before:after]
    total = (near * (row[:, None] - key[before:after]).abs()).sum(dim=-1)
    left = row_sums(block) - near.sum(
        dim=-1
    )  # the weight before the rows: what is near and after is taken off
    if after < len(keys):
        far = block.weights[..., after:].flatten(0, -2)
        there = torch.mv(far, torch.ones_like(key[after:])).view(total.shape)
        to_edge = torch.mv(far, key[after:] - rows.stop).view(total.shape)
        total, left = total + to_edge + there * (rows.stop - row), left - there
    if before:
        to_edge = torch.mv(block.weights[..., :before].flatten(0, -2), rows.start - key[:before])
        total = total + to_edge.view(total.shape) + left * (row - rows.start)
    return defined(total / row_sums(block), block)


def marks(batch: Batch) -> Tensor:
    """Return by what each key's weight counts in each row, ``(#batch, #query, key)``. See `Marks`."""
    return distances(batch).abs()
