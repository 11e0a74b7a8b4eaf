"""Effective number of keys: over how many keys a row spreads its weight."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="effective_keys",
    summary="as many keys, evenly attended to, would have the row's entropy: 2^entropy",
    reference="Hill 1973, Diversity and Evenness (the number of order 1); Shannon 1948, §6",
    attributes={
        "kinds": ("encoder", "decoder", "cross"),
        "unit": "keys",
        "per": "row",
        "null": "shuffled",
        "derived_from": "entropy",
    },
)


def derive(found: Float[Tensor, "batch heads rows"], block: WeightBlock) -> Float[Tensor, "batch heads rows"]:
    """Return 2^H."""
    return found.exp2()
