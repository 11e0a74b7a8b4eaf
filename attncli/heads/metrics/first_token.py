"""First token: how much a row attends to the first token."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attncli.batch import Batch
from attncli.heads.metrics import weight_on_key, weight_on_keys
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="first_token",
    summary="weight on the first token, where many heads put what they have no use for (a sink)",
    reference="Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks, §3.1, arXiv 2309.17453",
    attributes={
        "kinds": ("encoder", "decoder", "cross"),
        "unit": "weight",
        "per": "row",
        "null": "chance",
        "label": "sink",
    },
)


def measure(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows"]:
    """Return each row's weight on the first key; NaN where it may not attend there (a window has left it)."""
    starts = batch.keys.starts
    if len(set(starts)) == 1:
        return weight_on_key(block, starts[0])
    first = torch.zeros_like(batch.keys.present)
    first[range(len(starts)), starts] = True
    return weight_on_keys(block, first)


def marks(batch: Batch) -> Tensor:
    """Return by what each key's weight counts in each row, ``(#batch, #query, key)``. See `Marks`."""
    places = torch.arange(batch.keys.ids.shape[1]).to(batch.rows.device)
    return (places == torch.tensor(batch.keys.starts).to(places).unsqueeze(1)).unsqueeze(1)
