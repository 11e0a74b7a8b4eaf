"""Delimiters: how much a row attends to special tokens."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attncli.batch import Batch
from attncli.heads.metrics import weight_on_keys
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="delimiter",
    summary="weight on special tokens ([CLS], [SEP], <s>) together",
    reference="Clark et al. 2019, What Does BERT Look At?, §3.2, arXiv 1906.04341",
    attributes={
        "kinds": ("encoder", "decoder", "cross"),
        "unit": "weight",
        "per": "row",
        "null": "chance",
        "label": "delimiter",
    },
)


def measure(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows"]:
    """Return each row's weight on special tokens; NaN where it may attend to none."""
    return weight_on_keys(block, batch.keys.special & batch.keys.present)


def marks(batch: Batch) -> Tensor:
    """Return by what each key's weight counts in each row, ``(#batch, #query, key)``. See `Marks`."""
    return (batch.keys.special & batch.keys.present).unsqueeze(1)
