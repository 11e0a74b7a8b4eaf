"""Duplicate token: how much a row attends to other places that hold its own token."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attncli.batch import Batch
from attncli.heads.metrics import marks_on_pairs, weight_on_pairs
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="duplicate_token",
    summary="weight on other places with the row's own token",
    reference="Wang et al. 2022, Interpretability in the Wild, §3.1, arXiv 2211.00593",
    attributes={
        "kinds": ("encoder", "decoder"),
        "unit": "weight",
        "per": "row",
        "null": "places",
        "label": "duplicate_token",
    },
)


def measure(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows"]:
    """Return each row's weight on all other occurrences of its token; NaN where it may attend to none."""
    return weight_on_pairs(block, batch.same_token)


def marks(batch: Batch) -> Tensor:
    """Return by what each key's weight counts in each row, ``(#batch, #query, key)``. See `Marks`."""
    return marks_on_pairs(batch, batch.same_token)
