"""Own weight: how much a row attends to its own token."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attncli.batch import Batch
from attncli.heads.metrics import distances, weight_on_diagonal
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="self",
    summary="weight on the row's own token",
    reference="Clark et al. 2019, What Does BERT Look At?, §3.1, arXiv 1906.04341",
    attributes={
        "kinds": ("encoder", "decoder"),
        "unit": "weight",
        "per": "row",
        "null": "chance",
        "label": "self",
    },
)


def measure(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows"]:
    """Return each row's weight on its own position; NaN where it may not attend there."""
    return weight_on_diagonal(block, 0)


def marks(batch: Batch) -> Tensor:
    """Return by what each key's weight counts in each row, ``(#batch, #query, key)``. See `Marks`."""
    return distances(batch) == 0
