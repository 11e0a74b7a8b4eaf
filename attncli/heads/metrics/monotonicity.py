"""Monotonicity: how steadily a head moves on through the source, step by step."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attncli.batch import Batch
from attncli.heads.metrics import wide
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="monotonicity",
    summary="how steadily the attended place moves on with the rows: their correlation, from −1 to 1",
    reference="Raffel et al. 2017, Online and Linear-Time Attention by Monotonic Alignments, arXiv 1704.00784",
    attributes={"kinds": ("cross",), "unit": "share", "per": "text", "null": "shuffled"},
)


_FLAT = 1e-6
"""Tokens: whose mean place moves less than that stands still."""


def collect(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads parts"]:
    """Return the sums of 1, i, μ, i², i·μ, μ² over the counted rows i, with μ the mean place that row i attends to."""
    key = torch.arange(block.keys.start, block.keys.stop).to(block.weights.device, wide(block.weights))
    moments = block.weights.to(key.dtype) @ torch.stack([torch.ones_like(key), key], dim=-1)
    place = moments[..., 1] / moments[..., 0]
    row = torch.arange(block.rows.start, block.rows.stop).to(place).expand_as(place)
    counted = batch.rows[:, None, block.rows.start : block.rows.stop] & (moments[..., 0] > 0)
    parts = torch.stack([torch.ones_like(row), row, place, row * row, row * place, place * place], dim=-1)
    return torch.where(counted.unsqueeze(-1), parts, 0.0).sum(dim=2)


def finish(sums: Float[Tensor, "batch heads parts"], batch: Batch) -> Float[Tensor, "batch heads"]:
    """Return the correlation of i and μ; NaN with fewer than three rows, or where μ stands still."""
    count, row, place, rows, both, places = sums.unbind(dim=-1)
    spread_row, spread_place = rows / count - (row / count) ** 2, places / count - (place / count) ** 2
    found = (both / count - row * place / count**2) / (spread_row * spread_place).sqrt()
    return torch.where((count > 2) & (spread_place > _FLAT**2), found.clamp(-1, 1), torch.nan)
