"""Diagonal: how much a row attends to the key at its own position, where the two axes are different texts."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attncli.batch import Batch
from attncli.heads.metrics import distances, weight_on_diagonal
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="diagonal",
    summary="weight on the key at the row's own position: step t looks at source token t",
    reference="Raffel et al. 2017, Online and Linear-Time Attention by Monotonic Alignments, arXiv 1704.00784",
    attributes={
        "kinds": ("cross",),
        "unit": "weight",
        "per": "row",
        "null": "pairs",
        "offset": 0,
        "label": "aligned",
    },
)


def measure(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows"]:
    """Return each row's weight on the key at its own position; NaN where there is none."""
    return weight_on_diagonal(block, 0)


def marks(batch: Batch) -> Tensor:
    """Return by what each key's weight counts in each row, ``(#batch, #query, key)``. See `Marks`."""
    return distances(batch) == 0
