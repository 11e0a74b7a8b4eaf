"""Received: how unevenly the keys of a text are attended to, over all rows together."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from attncli.batch import Batch
from attncli.heads.metrics import wide
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="received",
    summary="how much the attention of all rows gathers on few keys: 0 where all get the same, 1 where one gets all",
    reference="after Kovaleva et al. 2019, Revealing the Dark Secrets of BERT, §4.1 (vertical), arXiv 1908.08593",
    attributes={"kinds": ("encoder", "decoder", "cross"), "unit": "share", "per": "text", "null": "shuffled"},
)


def collect(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads parts"]:
    """Return each key's weight from the counted rows together."""
    counted = batch.rows[:, block.rows.start : block.rows.stop]
    here = (counted.to(block.weights)[:, None, None] @ block.weights).squeeze(2).to(wide(block.weights))
    before, after = block.keys.start, batch.keys.ids.shape[1] - block.keys.stop
    return torch.nn.functional.pad(here, (before, after))


def finish(sums: Float[Tensor, "batch heads parts"], batch: Batch) -> Float[Tensor, "batch heads"]:
    """Return 1 − H / log₂ n, with H the entropy of what the n keys of a text receive; NaN where n is 1."""
    shares = sums / sums.sum(dim=-1, keepdim=True)
    bits = -torch.xlogy(shares, shares).sum(dim=-1) / math.log(2)
    largest = batch.keys.present.sum(dim=1).to(sums).log2()
    return 1 - bits / torch.where(largest > 0, largest, torch.nan).unsqueeze(1)
