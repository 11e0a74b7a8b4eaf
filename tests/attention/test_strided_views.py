"""Parts cut from a tensor: what they hold, and that their gradients add up."""

from __future__ import annotations

import torch

from attncli.attention.strided_views import cut, pick


def test_overlapping_parts_add_up_their_gradients() -> None:
    tensor = torch.arange(12.0).view(1, 6, 2).requires_grad_()
    first, second, _ = cut(tensor, [slice(0, 4), slice(1, 6, 2), slice(5, 6)])
    assert torch.equal(second, tensor[:, 1::2])
    (grad,) = torch.autograd.grad(first.sum() + 10.0 * second.sum(), tensor)
    assert grad[0, :, 0].tolist() == [1.0, 11.0, 1.0, 11.0, 0.0, 10.0]


def test_picked_rows_add_up_their_gradients() -> None:
    table = torch.arange(8.0).view(4, 2).requires_grad_()
    first, _, third = pick(table, [torch.tensor([3, 0]), torch.tensor([1]), torch.tensor([3])])
    assert torch.equal(first, table[[3, 0]])
    (grad,) = torch.autograd.grad(first.sum() + 10.0 * third.sum(), table)
    assert grad[:, 1].tolist() == [1.0, 0.0, 0.0, 11.0]


def test_without_gradients_parts_are_views_and_rows_come_one_by_one() -> None:
    tensor = torch.zeros(3, 2)
    (part,) = cut(tensor, [slice(1, 3)])
    assert part.data_ptr() == tensor[1:].data_ptr()
    rows = pick(tensor, [torch.tensor([0]), torch.tensor([9])])
    assert torch.equal(next(rows), tensor[:1])
