"""Many overlapping parts cut out of one tensor, with a backward pass as cheap as the parts are together.

The gradient of a plain slice is a tensor of the whole length, zero but for the slice, so n/64 slices would cost O(n²).
Here the parts' gradients are added up in one tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable


def cut(
    tensor: Float[Tensor, "*batch length dim"], parts: Sequence[slice]
) -> Sequence[Float[Tensor, "*batch _ dim"]]:
    """Cut parts out of the last axis but one: views, which must not be changed in place."""
    if not (torch.is_grad_enabled() and tensor.requires_grad):
        return [tensor[..., part, :] for part in parts]
    views: tuple[Tensor, ...] = _Cut.apply(tensor, parts)  # type: ignore[no-untyped-call]
    return views


def pick(
    table: Float[Tensor, "rows width"], picks: Sequence[Int[Tensor, " _"]]
) -> Iterator[Float[Tensor, "_ width"]]:
    """Pick rows from a table, again and again: copies, each made when its turn comes if no gradient is wanted."""
    if not (torch.is_grad_enabled() and table.requires_grad):
        return (table.index_select(0, rows) for rows in picks)
    copies: tuple[Tensor, ...] = _Pick.apply(table, *picks)  # type: ignore[no-untyped-call]
    return iter(copies)


class _Cut(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, parts: Sequence[slice]) -> tuple[Tensor, ...]:
        ctx.shape, ctx.parts = tensor.shape, parts
        ctx.set_materialize_grads(False)
        return tuple(tensor[..., part, :] for part in parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        given = [(part, grad) for part, grad in zip(ctx.parts, grads, strict=True) if grad is not None]
        if not given:
            return None, None
        total = given[0][1].new_zeros(ctx.shape)
        for part, grad in given:
            total[..., part, :] += grad
        return total, None


class _Pick(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, *picks: Tensor) -> tuple[Tensor, ...]:
        ctx.shape = table.shape
        ctx.save_for_backward(*picks)
        ctx.set_materialize_grads(False)
        return tuple(table.index_select(0, rows) for rows in picks)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        picks = ctx.saved_tensors
        given = [(rows, grad) for rows, grad in zip(picks, grads, strict=True) if grad is not None]
        nothing = (None,) * len(picks)
        if not given:
            return None, *nothing
        total = given[0][1].new_zeros(ctx.shape)
        for rows, grad in given:
            total.index_add_(0, rows, grad)
        return total, *nothing
