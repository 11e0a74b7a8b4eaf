"""Maximum: how much of a row's weight lies on one key."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attncli.batch import Batch
from attncli.heads.metrics import defined
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="maximum",
    summary="the largest weight of a row: near 1 where a head looks at one key",
    reference="Voita et al. 2019, Analyzing Multi-Head Self-Attention, §4 (a head's confidence), arXiv 1905.09418",
    attributes={"kinds": ("encoder", "decoder", "cross"), "unit": "weight", "per": "row", "null": "shuffled"},
)


def measure(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows"]:
    """Return the largest weight of each row."""
    return defined(block.weights.amax(dim=-1), block)
