"""The strided pattern of Sparse Transformers, against its definition and SDPA."""

from __future__ import annotations

import pytest
import torch
from counting import flops
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attncli.attention.variants import sparse_strided


def tensors(length: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(length)
    query, key, value = (
        torch.randn(2, heads, length, 8, dtype=torch.float64, generator=generator) for heads in (4, 2, 2)
    )
    return query, key, value


def literal(length: int, stride: int) -> Tensor:
    """The paper's two factors, united, row by row: positions i − stride … i, and every stride-th one."""
    allowed = torch.zeros(length, length, dtype=torch.bool)
    for row in range(length):
        window = {key for key in range(row + 1) if row - stride <= key}
        columns = {key for key in range(row + 1) if (row - key) % stride == 0}
        allowed[row, list(window | columns)] = True
    return allowed


@settings(max_examples=60, deadline=None)
@given(length=st.integers(1, 90), stride=st.integers(1, 100))
def test_the_mask_is_the_definition(length: int, stride: int) -> None:
    assert torch.equal(sparse_strided.mask(length, length, stride=stride), literal(length, stride))


@settings(max_examples=60, deadline=None)
@given(length=st.integers(1, 200), stride=st.integers(1, 150))
def test_the_output_is_that_of_sdpa_under_the_mask(length: int, stride: int) -> None:
    query, key, value = tensors(length)
    expected = sdpa(query, key, value, attn_mask=literal(length, stride), enable_gqa=True)
    output = sparse_strided.attend(query, key, value, stride=stride)
    torch.testing.assert_close(output, expected, atol=1e-12, rtol=0.0)


def test_two_layers_reach_every_earlier_position() -> None:
    mask = sparse_strided.mask(70, 70, stride=8).int()
    assert torch.equal(mask @ mask > 0, torch.ones(70, 70).tril().bool())


def test_a_key_that_is_in_window_and_column_counts_once() -> None:
    query, key = torch.zeros(1, 1, 5, 2), torch.zeros(1, 1, 5, 2)
    value = torch.tensor([[[[3.0], [0.0], [0.0], [0.0], [12.0]]]])
    output = sparse_strided.attend(query, key, value, stride=2)
    # Row 4 sees 4, 3, 2 and 0; row 3 sees 3, 2 and 1.
    torch.testing.assert_close(output.flatten(), torch.tensor([3.0, 1.5, 1.0, 0.0, 3.75]))


def test_columns_that_are_gone_through_in_chunks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, value = tensors(77)
    whole = sparse_strided.attend(query, key, value, stride=10)
    monkeypatch.setattr(sparse_strided, "COLUMN_SCORES", 1200)
    torch.testing.assert_close(
        sparse_strided.attend(query, key, value, stride=10), whole, atol=1e-13, rtol=0.0
    )


def test_work_is_that_of_a_window_and_of_the_columns() -> None:
    window = sum(64 * min(192, (block + 1) * 64) for block in range(64))
    assert flops(sparse_strided, 4096, causal=True) == 4 * (window + 128 * 32 * 32)


def test_weights_are_nowhere_zero_within_the_mask() -> None:
    query, key, _ = tensors(40)
    assert torch.equal(
        sparse_strided.weights(query, key, stride=7)[1, 2] > 0.0, sparse_strided.mask(40, 40, stride=7)
    )
