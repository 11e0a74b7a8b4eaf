"""Chunks of rows put together."""

from __future__ import annotations

import pytest
import torch

from attncli.attention.tiles.chunks import join


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("sizes", [(5,), (2, 2, 1), (0, 3, 2)])
def test_joined_chunks_are_the_whole_again_with_its_gradient(sizes, gradient):
    whole = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(0), requires_grad=gradient)
    joined = join(iter(whole.split(sizes, dim=2)), 5)
    assert torch.equal(joined, whole)
    assert joined.requires_grad == gradient
    if gradient:
        joined.square().sum().backward()
        torch.testing.assert_close(whole.grad, 2 * whole)
