"""Effective number of keys: over how many keys a row spreads its weight."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attncli.heads.metrics.entropy import measure as entropy
from attncli.record import Batch, WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="effective_keys",
    summary="as many keys, evenly attended to, would have the row's entropy: 2^entropy",
    reference="Hill 1973, Diversity and Evenness (the number of order 1); Shannon 1948, §6",
    attributes={"kinds": ("encoder", "decoder", "cross"), "unit": "keys", "per": "row", "null": "shuffled"},
)


def measure(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows"]:
    """Return 2^H."""
    return entropy(block, batch).exp2()
