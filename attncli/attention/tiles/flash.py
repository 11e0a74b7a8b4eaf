"""Full attention in tiles, forward and backward, in O(n) memory.

For a block of queries the keys pass by in blocks, and the softmax is kept up to date on the way: of each row only its
maximum m, its sum l and the un-normalised output A are held (the *online softmax*)

    m' = max(m, max S)    p = e^(S − m')    α = e^(m − m')    l ← α·l + Σp    A ← α·A + p·V    at the end O = A / l

The backward pass makes the weights again from the log-sum-exp of each row, ``P = e^(S − LSE)``, tile by tile, so that
O(n) numbers are kept between the passes and not O(n²).

Reference:
    Dao et al. 2022, FlashAttention, arXiv 2205.14135; Dao 2023, FlashAttention-2, arXiv 2307.08691.
    Online softmax: Milakov & Gimelshein 2018, arXiv 1805.02867.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from attncli.attention.inputs import check_lengths
from attncli.attention.tiles.partial import LOG2E, closed, finite


def flash_attention(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    scale: float | None = None,
    block_q: int = 128,
    block_k: int = 256,
) -> tuple[Float[Tensor, "batch heads query value_dim"], Float[Tensor, "batch heads query"]]:
    """Attend in tiles, and give each row's log-sum-exp beside the output.

    From it the weights of any row can be made without the others: ``e^(scale·q·kᵀ − lse)``; and results over disjoint
    sets of keys can be joined: ``lse = logaddexp(lse₁, lse₂)``, ``output = Σ output_t · e^(lse_t − lse)``.

    Args:
        causal: Key j only for query i where ``j ≤ i + (key − query)``; tiles wholly in the future are skipped.
        key_mask: True = a real key, False = padding.
        scale: Multiplies QKᵀ; 1/√head_dim where None.
        block_q: Queries in a tile.
        block_k: Keys in a tile.

    Returns:
        The output, and the log-sum-exp (natural; float32, or float64 for float64). A row without any key gives zeros
        and −∞.

    Raises:
        ValueError: The tensors do not fit together.

    >>> zeros, values = torch.zeros(1, 1, 3, 4), torch.eye(3)[None, None]
    >>> output, lse = flash_attention(zeros[:, :, :1], zeros, values)
    >>> output[0, 0, 0], round(lse.exp().item(), 4)
    (tensor([0.3333, 0.3333, 0.3333]), 3.0)
    """
    check_lengths(query, key, value, key_mask)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    tiling = _Tiling(query.shape[2], key.shape[2], causal, block_q, block_k, scale)
    output, lse = _Flash.apply(query, key, value, key_mask, tiling)  # type: ignore[no-untyped-call]
    return output, lse


@dataclass(frozen=True, slots=True)
class _Tiling:
    """Which tiles there are: blocks of queries, and the blocks of keys that each of them needs."""

    query_len: int
    key_len: int
    causal: bool
    block_q: int
    block_k: int
    scale: float = 1.0

    def query_blocks(self) -> Iterator[slice]:
        for start in range(0, self.query_len, self.block_q):
            yield slice(start, min(start + self.block_q, self.query_len))

    def key_blocks(self, rows: slice) -> Iterator[slice]:
        """Yield the key blocks that a block of queries needs."""
        for start in range(0, self.reach(rows), self.block_k):
            yield slice(start, min(start + self.block_k, self.reach(rows)))

    def reach(self, rows: slice) -> int:
        """Count the keys that a block of queries needs: up to its last row's own, where causal."""
        return max(rows.stop + self.key_len - self.query_len, 0) if self.causal else self.key_len

    def triangle(
        self, rows: slice, columns: slice, device: torch.device
    ) -> Bool[Tensor, "rows columns"] | None:
        """Return which pairs of a tile are not in the future; None where all of them."""
        diagonal = rows.start + self.key_len - self.query_len
        if not self.causal or columns.stop - 1 <= diagonal:
            return None
        row = torch.arange(diagonal, diagonal + rows.stop - rows.start, device=device)
        return torch.arange(columns.start, columns.stop, device=device) <= row.unsqueeze(-1)


class _Tensors:
    """The inputs cut into tiles, with the query heads that share a key/value head stacked as rows.

    All query heads of a group read the same keys, so that ``(batch · kv_heads, group · rows, head_dim)`` multiplies
    them by one tile of keys and nothing is repeated in memory.
    """

    def __init__(
        self, query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None, tiling: _Tiling
    ) -> None:
        self.query, self.key, self.value, self.key_mask, self.tiling = query, key, value, key_mask, tiling
        self.dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
        self.batch, self.heads = query.shape[:2]
        self.stacks = self.batch * key.shape[1]
        self.group = self.heads // key.shape[1]
        self.scores_buffer = self.buffer()

    def buffer(self) -> Tensor:
        """Return room for the scores of the largest tile."""
        rows = min(self.tiling.block_q, self.tiling.query_len) * self.group
        columns = min(self.tiling.block_k, self.tiling.key_len)
        return torch.empty(self.stacks * rows * columns, dtype=self.dtype, device=self.query.device)

    def stack(self, tensor: Tensor, rows: slice) -> Tensor:
        """Cut rows out of ``(batch, heads, query, …)`` and stack the heads of a group."""
        part = tensor[:, :, rows].to(self.dtype)
        return part.reshape(self.stacks, -1, tensor.shape[-1])

    def unstack(self, tensor: Tensor) -> Tensor:
        return tensor.view(self.batch, self.heads, -1, tensor.shape[-1])

    def scaled_query(self, rows: slice) -> Tensor:
        """Return the query times ``scale · log₂e``: scores come out in base two, for exp2 is faster than exp."""
        return self.stack(self.query, rows) * (self.tiling.scale * LOG2E)

    def keys(self, columns: slice) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return a tile of keys and values, and which of them are real: None where all. Padding is zeroed."""
        key, value = self.stack(self.key, columns), self.stack(self.value, columns)
        real = None if self.key_mask is None else self.key_mask[:, columns]
        if real is None or bool(real.all()):
            return key, value, None
        padded = ~real.repeat_interleave(self.key.shape[1], dim=0).unsqueeze(-1)
        return key.masked_fill(padded, 0.0), value.masked_fill(padded, 0.0), real[:, None, None]

    def scores(self, query: Tensor, key: Tensor, real: Tensor | None, rows: slice, columns: slice) -> Tensor:
        """Compare a tile, in base two; what may not be seen is −∞."""
        scores = self.room(self.scores_buffer, query, key)
        torch.bmm(query, key.mT, out=scores)
        allowed = self.tiling.triangle(rows, columns, scores.device)
        if real is not None:
            allowed = real if allowed is None else allowed & real
        if allowed is not None:
            self.unstack(scores).add_(closed(allowed, self.dtype))
        return scores

    def room(self, buffer: Tensor, query: Tensor, key: Tensor) -> Tensor:
        shape = (self.stacks, query.shape[1], key.shape[1])
        return buffer[: math.prod(shape)].view(shape)


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None, tiling: _Tiling
    ) -> tuple[Tensor, Tensor]:
        tensors = _Tensors(query, key, value, key_mask, tiling)
        output = query.new_empty(*query.shape[:3], value.shape[-1])
        lse = query.new_empty(query.shape[:3], dtype=tensors.dtype)
        for rows in tiling.query_blocks():
            block, block_lse = _attend_block(tensors, rows)
            output[:, :, rows] = tensors.unstack(block)
            lse[:, :, rows] = tensors.unstack(block_lse).squeeze(-1)
        ctx.save_for_backward(query, key, value, key_mask, output, lse)
        ctx.tiling = tiling
        return output, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_grad: Tensor, lse_grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, key_mask, output, lse = ctx.saved_tensors
        tensors = _Tensors(query, key, value, key_mask, ctx.tiling)
        grads = _gradients(tensors, output, lse, output_grad, lse_grad)
        return (*(grad.to(query.dtype) for grad in grads), None, None)


def _attend_block(tensors: _Tensors, rows: slice) -> tuple[Tensor, Tensor]:
    """Return the output and log-sum-exp of one block of queries, stacked."""
    query = tensors.scaled_query(rows)
    numerator = query.new_zeros(*query.shape[:2], tensors.value.shape[-1])
    denominator = query.new_zeros(*query.shape[:2], 1)
    top = torch.full_like(denominator, -torch.inf)
    for columns in tensors.tiling.key_blocks(rows):
        key, value, real = tensors.keys(columns)
        scores = tensors.scores(query, key, real, rows, columns)
        new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
        shift = finite(new_top)
        powers = scores.sub_(shift).exp2_()
        shrink = torch.exp2(top - shift)
        denominator.mul_(shrink).add_(powers.sum(dim=-1, keepdim=True))
        numerator.mul_(shrink)
        torch.baddbmm(numerator, powers, value, out=numerator)
        top = new_top
    lse = (top + denominator.log2()) / LOG2E
    return numerator.div_(denominator.masked_fill_(denominator == 0.0, 1.0)), lse


def _gradients(
    tensors: _Tensors, output: Tensor, lse: Tensor, output_grad: Tensor, lse_grad: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Go through the tiles again: ``dV += Pᵀ·dO``, ``dS = P ∘ (dO·Vᵀ − Δ)``, ``dQ += dS·K``, ``dK += dSᵀ·Q``.

    ``Δ`` is the row sum of dO ∘ O, less the gradient of the log-sum-exp.
    """
    tiling, dtype = tensors.tiling, tensors.dtype
    query_grad = torch.zeros_like(tensors.query, dtype=dtype)
    key_grad, value_grad = (
        torch.zeros_like(tensors.key, dtype=dtype),
        torch.zeros_like(tensors.value, dtype=dtype),
    )
    second_buffer = tensors.buffer()
    for rows in tiling.query_blocks():
        query, upstream = tensors.scaled_query(rows), tensors.stack(output_grad, rows)
        delta = (upstream * tensors.stack(output, rows)).sum(dim=-1, keepdim=True)
        delta -= tensors.stack(lse_grad.unsqueeze(-1), rows)
        # A row without keys has LSE −∞, and e^(S − LSE) would be infinite; +∞ makes its weights 0.
        block_lse = tensors.stack(lse.unsqueeze(-1), rows) * LOG2E
        block_lse.masked_fill_(block_lse == -torch.inf, torch.inf)
        block_grad = torch.zeros_like(query)
        for columns in tiling.key_blocks(rows):
            key, value, real = tensors.keys(columns)
            weights = tensors.scores(query, key, real, rows, columns).sub_(block_lse).exp2_()
            value_grad[:, :, columns] += (weights.mT @ upstream).view_as(value_grad[:, :, columns])
            scores_grad = torch.bmm(upstream, value.mT, out=tensors.room(second_buffer, query, key))
            scores_grad.sub_(delta).mul_(weights)
            torch.baddbmm(block_grad, scores_grad, key, out=block_grad)
            key_grad[:, :, columns] += (scores_grad.mT @ query).view_as(key_grad[:, :, columns])
        query_grad[:, :, rows] = tensors.unstack(block_grad).mul_(tiling.scale)
    return query_grad, key_grad.div_(LOG2E), value_grad
