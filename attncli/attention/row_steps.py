"""One row of one head, each step of its attention kept: what `AttentionOperation.weights` does in one go."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncli.attention.core import attention_weights
from attncli.attention.operation import AttentionOperation, part_of, precise


@dataclass(frozen=True)
class RowSteps:
    """Every number between a query and what its head gives out, in float32 (float64 stays).

    Args:
        products: ``query · key`` dimension by dimension; a row's sum is the key's dot product.
        scaled: ``scale · dots``.
        capped: `scaled` after the soft-cap; the same where there is none.
        scores: `capped` plus the bias: what goes into softmax, masked keys too.
        allowed: None where every key is.
        sink: The logit that joins the denominator, or None.
        weights: Exactly 0 where masked; they sum to less than 1 where there is a sink.
        output: ``weights · value``; None where the value was not seen.
    """

    query: Float[Tensor, " head_dim"]
    key: Float[Tensor, "key head_dim"]
    value: Float[Tensor, "key value_dim"] | None
    products: Float[Tensor, "key head_dim"]
    dots: Float[Tensor, " key"]
    scaled: Float[Tensor, " key"]
    capped: Float[Tensor, " key"]
    bias: Float[Tensor, " key"] | None
    scores: Float[Tensor, " key"]
    allowed: Bool[Tensor, " key"] | None
    sink: float | None
    weights: Float[Tensor, " key"]
    output: Float[Tensor, " value_dim"] | None


def row_steps(operation: AttentionOperation, head: int, row: int, *, scale: float | None = None) -> RowSteps:
    """Take one row of one head through attention, step by step; of a batch, the first text.

    Args:
        row: Counted from the operation's first query.
        scale: What multiplies the products instead of the operation's own scale.
    """
    scale = operation.scale if scale is None else scale
    query = precise(operation.query[0, head, row])
    key = precise(of_head(operation.key, head, operation.heads))
    value = None if operation.value is None else precise(of_head(operation.value, head, operation.heads))
    products = query * key
    dots = key @ query
    scaled = dots * scale
    cap = operation.softcap
    capped = scaled if cap is None else cap * torch.tanh(scaled / cap)
    bias = _part(operation.bias, head, row)
    bias = None if bias is None else precise(bias).expand_as(capped)
    scores = capped if bias is None else capped + bias
    allowed = operation.allowed((head,), slice(row, row + 1))
    allowed = None if allowed is None else allowed[0, 0, 0].expand(scores.shape)
    sink = _sink(operation, head, row)
    weights = row_weights(scores, allowed, sink)
    output = None if value is None else weights @ _reachable(value, allowed)
    return RowSteps(
        query, key, value, products, dots, scaled, capped, bias, scores, allowed, sink, weights, output
    )


def row_weights(
    scores: Float[Tensor, " key"], allowed: Bool[Tensor, " key"] | None, sink: float | None
) -> Float[Tensor, " key"]:
    """Return one row's weights."""
    logit = None if sink is None else scores.new_tensor([[sink]])
    return attention_weights(scores.unsqueeze(0), allowed, sink=logit)[0]


def of_head(
    tensor: Float[Tensor, "batch kv_heads key dim"], head: int, heads: int
) -> Float[Tensor, "key dim"]:
    """Return the keys or values that a query head reads, of the first text of a batch."""
    return tensor[0, head // (heads // tensor.shape[1])]


def _part(tensor: Tensor | None, head: int, row: int) -> Tensor | None:
    return None if tensor is None else part_of(tensor, (head,), slice(row, row + 1))[0, 0, 0]


def _sink(operation: AttentionOperation, head: int, row: int) -> float | None:
    if operation.sink is None:
        return None
    if operation.sink.dim() == 1:
        return float(operation.sink[head])
    return float(part_of(operation.sink, (head,), slice(row, row + 1))[0, 0, 0, 0])


def _reachable(value: Tensor, allowed: Tensor | None) -> Tensor:
    """Zero what no weight falls on: 0 · NaN would be NaN in a padded slot."""
    return value if allowed is None else value.masked_fill(~allowed.unsqueeze(-1), 0.0)
