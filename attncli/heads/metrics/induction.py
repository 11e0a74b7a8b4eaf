"""Induction: how much a row attends to what came after another occurrence of its token."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attncli.batch import Batch
from attncli.heads.metrics import marks_on_pairs, weight_on_pairs
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="induction",
    summary="weight on what came after other occurrences of the row's own token",
    reference="Olsson et al. 2022, In-context Learning and Induction Heads, arXiv 2209.11895",
    attributes={
        "kinds": ("encoder", "decoder"),
        "unit": "weight",
        "per": "row",
        "null": "places",
        "label": "induction",
    },
)


def measure(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows"]:
    """Return each row's weight on the places after other occurrences of its token; NaN where it may attend to none."""
    return weight_on_pairs(block, batch.after_same_token)


def marks(batch: Batch) -> Tensor:
    """Return by what each key's weight counts in each row, ``(#batch, #query, key)``. See `Marks`."""
    return marks_on_pairs(batch, batch.after_same_token)
