"""The fixed pattern of Sparse Transformers, against its definition and SDPA."""

from __future__ import annotations

import pytest
import torch
from counting import flops
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attncli.attention.variants import sparse_fixed


def tensors(length: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(length)
    query, key, value = (
        torch.randn(2, heads, length, 8, dtype=torch.float64, generator=generator) for heads in (4, 2, 2)
    )
    return query, key, value


def literal(length: int, stride: int, summary: int, run: int = 0) -> Tensor:
    """The paper's two factors, united, row by row."""
    allowed = torch.zeros(length, length, dtype=torch.bool)
    runs = stride // summary
    end = stride - (run % runs) * summary
    for row in range(length):
        own_block = {key for key in range(row + 1) if key // stride == row // stride}
        summaries = {key for key in range(row + 1) if key % stride in range(end - summary, end)}
        allowed[row, list(own_block | summaries)] = True
    return allowed


lengths, strides, summaries = st.integers(1, 90), st.integers(1, 30), st.integers(1, 8)


@settings(max_examples=60, deadline=None)
@given(length=lengths, stride=strides, summary=summaries)
def test_the_mask_is_the_definition(length: int, stride: int, summary: int) -> None:
    summary = min(summary, stride)
    mask = sparse_fixed.mask(length, length, stride=stride, summary=summary)
    assert torch.equal(mask, literal(length, stride, summary))


@settings(max_examples=50, deadline=None)
@given(length=st.integers(1, 200), stride=st.integers(1, 150), summary=summaries, per_head=st.booleans())
def test_the_output_is_that_of_sdpa_under_the_mask(
    length: int, stride: int, summary: int, per_head: bool
) -> None:
    summary = min(summary, stride)
    query, key, value = tensors(length)
    mask = torch.stack([literal(length, stride, summary, head if per_head else 0) for head in range(4)])
    expected = sdpa(query, key, value, attn_mask=mask[None], enable_gqa=True)
    output = sparse_fixed.attend(query, key, value, stride=stride, summary=summary, per_head=per_head)
    torch.testing.assert_close(output, expected, atol=1e-12, rtol=0.0)


def test_each_head_reads_another_run_of_summaries() -> None:
    columns = sparse_fixed.summary_columns(5, 12, stride=6, summary=2)
    assert columns.tolist() == [[4, 5, 10, 11], [2, 3, 8, 9], [0, 1, 6, 7], [4, 5, 10, 11], [2, 3, 8, 9]]
    query, key, _ = tensors(12)
    weights = sparse_fixed.weights(query, key, stride=6, summary=2, per_head=True)
    assert weights[0, 1, 7].nonzero().flatten().tolist() == [2, 3, 6, 7]


def test_a_summary_in_the_own_block_counts_once() -> None:
    query, key = torch.zeros(1, 1, 4, 2), torch.zeros(1, 1, 4, 2)
    value = torch.tensor([[[[0.0], [4.0], [0.0], [8.0]]]])
    output = sparse_fixed.attend(query, key, value, stride=2, summary=1)
    torch.testing.assert_close(output.flatten(), torch.tensor([0.0, 2.0, 2.0, 4.0]))


def test_work_grows_far_less_than_dense_attention() -> None:
    # 64-row tiles of 128-blocks: rows see 64 or 128 keys of their own, and 8 for each earlier block.
    expected = sum(64 * (own + 8 * block) for block in range(32) for own in (64, 128))
    assert flops(sparse_fixed, 4096, causal=True) == 4 * expected < 4 * 4096 * 4096 / 16


def test_weights_are_nowhere_zero_within_the_mask() -> None:
    query, key, _ = tensors(40)
    weights = sparse_fixed.weights(query, key, stride=9, summary=2)
    assert torch.equal(weights[0, 0] > 0.0, sparse_fixed.mask(40, 40, stride=9, summary=2))


def test_more_summaries_than_positions_in_a_block_are_refused() -> None:
    with pytest.raises(ValueError, match="summary=5 and stride=4"):
        sparse_fixed.mask(10, 10, stride=4, summary=5)
