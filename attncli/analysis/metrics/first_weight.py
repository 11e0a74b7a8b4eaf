"""First weight: how much a row attends to the first token."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attncli.analysis.metrics import weight_on_key
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="first",
    summary="weight on the first token, where many heads put what they have no use for",
    reference="Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks, §3.1, arXiv 2309.17453",
    attributes={"kinds": ("encoder", "decoder", "cross"), "unit": "weight"},
)


def measure(block: WeightBlock) -> Float[Tensor, "batch heads rows"]:
    """Give each row's weight on position 0; NaN where it may not attend there (a window has left it)."""
    return weight_on_key(block, 0)
