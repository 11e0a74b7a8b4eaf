"""Entropy: how widely a row spreads its weight."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attncli.batch import Batch
from attncli.heads.metrics import defined, row_sums
from attncli.record import WeightBlock
from attncli.registry import Entry

ENTRY = Entry(
    name="entropy",
    summary="how widely a row spreads its weight: 0 for one key, log2(n) for n keys evenly",
    reference="Shannon 1948, §6; of attention: Clark et al. 2019, What Does BERT Look At?, §3.2, arXiv 1906.04341",
    attributes={"kinds": ("encoder", "decoder", "cross"), "unit": "bits", "per": "row", "null": "shuffled"},
)

_WEAK = 1e-30
"""Below it a float32 loses digits."""


def measure(block: WeightBlock, batch: Batch) -> Float[Tensor, "batch heads rows"]:
    """Return −Σ p·log₂ p over the keys, in bits. With a sink, p is the share of what the keys get together.

    Where the scores s are known no logarithm of each weight is needed, since log w = s − log Σ exp s.

    >>> half = WeightBlock(None, (0,), range(1), torch.tensor([[[[0.5, 0.5, 0.0]]]]), None)
    >>> measure(half, None)
    tensor([[[1.]]])
    """
    sums = row_sums(block)
    if block.scores is not None:
        nats = _from_scores(block.weights, block.scores, sums)
        if not bool((nats.isnan() & (sums > 0)).any()):
            return defined(nats / math.log(2), block)
    logs = block.weights.clamp(min=torch.finfo(block.weights.dtype).tiny).log_()
    plain = sums.log() - logs.mul_(block.weights).sum(dim=-1) / sums
    return defined((plain / math.log(2)).clamp(min=0.0), block)


def _from_scores(weights: Tensor, scores: Tensor, sums: Tensor) -> Tensor:
    """Return log Z + log S − Σ w·s / S, with log Z = s − log w at any key and S the row's sum."""
    mean_score = _row_products(weights.flatten(0, 2), scores.flatten(0, 2)).view(sums.shape) / sums
    return (_log_total(weights, scores) + sums.log() - mean_score).clamp(min=0.0)


def _row_products(left: Tensor, right: Tensor) -> Tensor:
    """Sum the products of each row. NumPy does it in one pass, more than twice as fast on a CPU as torch in two."""
    if left.device.type != "cpu":
        return (left * right).sum(dim=-1)
    return torch.from_numpy(np.vecdot(left.numpy(), right.numpy()))


def _log_total(weights: Tensor, scores: Tensor) -> Tensor:
    """Compute log Z from the stronger of a row's first and last key; where both are weak, from its strongest."""
    weight, which = weights[..., :: max(1, weights.shape[-1] - 1)].max(dim=-1, keepdim=True)
    score = scores[..., :: max(1, weights.shape[-1] - 1)].gather(-1, which)
    if bool((weight < _WEAK).any()):
        strong = weights.amax(dim=-1, keepdim=True)
        weak = weight < _WEAK
        weight = torch.where(weak, strong, weight)
        score = torch.where(weak, scores.amax(dim=-1, keepdim=True), score)
    return (score - weight.log()).squeeze(-1)
