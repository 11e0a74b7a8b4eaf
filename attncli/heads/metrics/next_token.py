"""Next token: how much a row attends to the token after it."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attncli.batch import Batch
from attncli.heads.metrics import distances, weight_on_diagonal
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="next_token",
    summary="weight on the token after the row's own",
    reference="Clark et al. 2019, What Does BERT Look At?, §3.1, arXiv 1906.04341",
    attributes={
        "kinds": ("encoder",),
        "unit": "weight",
        "per": "row",
        "null": "pairs",
        "offset": 1,
        "label": "next_token",
    },
)


def measure(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows"]:
    """Return each row's weight on the position after its own; NaN in the last row, and where the future is hidden."""
    return weight_on_diagonal(block, 1)


def marks(batch: Batch) -> Tensor:
    """Return by what each key's weight counts in each row, ``(#batch, #query, key)``. See `Marks`."""
    return distances(batch) == 1
