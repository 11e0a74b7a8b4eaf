"""Similarity: how much two heads do the same."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attncli.batch import Batch
from attncli.heads.metrics import row_sums
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="similarity",
    summary="overlap with the head most like it: 1 where two heads share every row's weight alike",
    reference="Bhattacharyya 1943; clusters of heads: Clark et al. 2019, What Does BERT Look At?, §6, arXiv 1906.04341",
    attributes={"kinds": ("encoder", "decoder", "cross"), "unit": "share", "per": "pair"},
)


def vectors(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows keys"]:
    """Return √p, 0 in rows that do not count: the product of two heads' is Σ √(p·q), their overlap in that row.

    p is a weight's share of its row's sum.
    """
    counted = batch.rows[:, None, block.rows.start : block.rows.stop, None]
    sums = row_sums(block).unsqueeze(-1)
    share = torch.where(counted & (sums > 0), 1 / sums, 0.0)
    return (block.weights * share).sqrt_()
