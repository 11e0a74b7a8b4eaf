"""Span: how wide the stretch is that a row looks at."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attncli.batch import Batch
from attncli.heads.metrics import defined, wide
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="span",
    summary="how wide the stretch is that a row looks at: the standard deviation of the attended positions",
    reference="after Sukhbaatar et al. 2019, Adaptive Attention Span in Transformers, arXiv 1905.07799",
    attributes={"kinds": ("encoder", "decoder", "cross"), "unit": "tokens", "per": "row", "null": "shuffled"},
)


def measure(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows"]:
    """Return √(Σ p·(j − μ)²) with μ = Σ p·j, in tokens; p is a weight's share of its row's sum.

    >>> row = WeightBlock(None, (0,), range(3, 4), torch.tensor([[[[0.5, 0.0, 0.0, 0.5]]]]), None)
    >>> measure(row, None)
    tensor([[[1.5000]]])
    """
    key = torch.arange(block.weights.shape[-1]).to(block.weights.device, wide(block.weights))
    moments = block.weights.to(key.dtype) @ torch.stack([torch.ones_like(key), key, key * key], dim=-1)
    total, first, second = moments.unbind(dim=-1)  # in float64, since far and sharp rows cancel
    mean = first / total
    spread = (second / total - mean * mean).clamp(min=0.0).sqrt()
    return defined(spread.to(block.weights), block)
