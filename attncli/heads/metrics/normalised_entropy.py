"""Normalised entropy: how widely a row spreads its weight, of how widely it could."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attncli.heads.metrics import key_counts
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="normalised_entropy",
    summary="entropy over its largest value: 1 where all keys get the same",
    reference="Clark et al. 2019, What Does BERT Look At?, §3.2, arXiv 1906.04341",
    attributes={
        "kinds": ("encoder", "decoder", "cross"),
        "unit": "share",
        "per": "row",
        "null": "shuffled",
        "derived_from": "entropy",
    },
)


def derive(found: Float[Tensor, "batch heads rows"], block: WeightBlock) -> Float[Tensor, "batch heads rows"]:
    """Return H / log₂ n for a row that may attend to n keys; NaN where that is one."""
    largest = key_counts(block).log2()
    return found / torch.where(largest > 0, largest, torch.nan)
