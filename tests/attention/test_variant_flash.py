"""Tiled attention: the result, its gradients and its memory are right for any size of tile."""

from __future__ import annotations

import pytest
import torch
from counting import flops
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attncli.attention.core import repeat_kv
from attncli.attention.tiles.flash import flash_attention
from attncli.attention.variants import flash, full


def tensors(queries: int, keys: int, dtype: torch.dtype = torch.float64, dim: int = 8) -> list[Tensor]:
    generator = torch.Generator().manual_seed(queries)
    shapes = ((4, queries, dim), (2, keys, dim), (2, keys, dim + 3))
    return [torch.randn(2, *shape, dtype=dtype, generator=generator) for shape in shapes]


@settings(max_examples=60, deadline=None)
@given(
    queries=st.integers(1, 40),
    keys=st.integers(1, 40),
    block_q=st.integers(1, 50),
    block_k=st.integers(1, 50),
    causal=st.booleans(),
)
def test_the_size_of_the_tiles_changes_nothing(
    queries: int, keys: int, block_q: int, block_k: int, causal: bool
) -> None:
    query, key, value = tensors(queries, keys)
    output, lse = flash_attention(query, key, value, causal=causal, block_q=block_q, block_k=block_k)
    torch.testing.assert_close(output, full.attend(query, key, value, causal=causal), atol=1e-12, rtol=0.0)
    scores = query @ repeat_kv(key, 4).mT / 8**0.5
    scores = scores.masked_fill(~full.mask(queries, keys, causal=causal), -torch.inf)
    torch.testing.assert_close(lse, scores.logsumexp(-1), atol=1e-12, rtol=0.0)


@pytest.mark.parametrize("causal", [False, True])
def test_output_and_log_sum_exp_equal_torchs_own_kernel(causal: bool) -> None:
    query, key, value = (
        torch.randn(2, 3, 129, 16, generator=torch.Generator().manual_seed(seed)) for seed in range(3)
    )
    output, lse = flash_attention(query, key, value, causal=causal, block_q=50, block_k=24)
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    expected, expected_lse = kernel(query, key, value, is_causal=causal)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(lse, expected_lse, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("queries", "keys", "causal"), [(100, 100, True), (37, 101, False), (37, 101, True), (7, 3, True)]
)
def test_gradients_equal_those_of_sdpa(queries: int, keys: int, causal: bool) -> None:
    query, key, value = (tensor.requires_grad_() for tensor in tensors(queries, keys))
    mask = full.mask(queries, keys, causal=causal)
    upstream = torch.randn(2, 4, queries, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.autograd.grad(
        sdpa(query, key, value, attn_mask=mask, enable_gqa=True), (query, key, value), upstream
    )
    output, _ = flash_attention(query, key, value, causal=causal, block_q=24, block_k=32)
    for grad, want in zip(torch.autograd.grad(output, (query, key, value), upstream), expected, strict=True):
        torch.testing.assert_close(grad, want, atol=1e-10, rtol=0.0)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.usefixtures("as_a_user")  # hundreds of passes, which the check of shapes makes ten times slower
def test_gradients_of_output_and_log_sum_exp_pass_gradcheck(causal: bool) -> None:
    inputs = [tensor.requires_grad_() for tensor in tensors(5, 9, dim=3)]
    real = torch.tensor([[True] * 9, [True] * 4 + [False, True] * 2 + [True]])
    assert torch.autograd.gradcheck(
        lambda *given: flash_attention(*given, causal=causal, key_mask=real, block_q=2, block_k=4), inputs
    )


def test_rows_without_keys_have_finite_gradients() -> None:
    inputs = [tensor.requires_grad_() for tensor in tensors(7, 3)]
    output, lse = flash_attention(*inputs, causal=True, block_q=2, block_k=2)
    assert (
        torch.equal(lse[:, :, :4], torch.full_like(lse[:, :, :4], -torch.inf)) and not output[:, :, :4].any()
    )
    query_grad, key_grad, _ = torch.autograd.grad(output.sum(), inputs)
    assert (
        not query_grad[:, :, :4].any()
        and bool(key_grad.isfinite().all())
        and bool(query_grad[:, :, 5:].any())
    )


def test_parts_over_disjoint_keys_are_joined_by_their_log_sum_exps() -> None:
    query, key, value = tensors(11, 30)
    whole, _ = flash_attention(query, key, value)
    parts = [
        flash_attention(query, key[:, :, part], value[:, :, part]) for part in (slice(0, 13), slice(13, 30))
    ]
    lse = torch.logaddexp(parts[0][1], parts[1][1])
    joined = sum(output * (part_lse - lse).exp().unsqueeze(-1) for output, part_lse in parts)
    torch.testing.assert_close(joined, whole, atol=1e-12, rtol=0.0)


def test_weights_come_back_from_the_log_sum_exp() -> None:
    query, key, value = tensors(6, 10)
    _, lse = flash_attention(query, key, value, scale=0.7)
    weights = (0.7 * query @ repeat_kv(key, 4).mT - lse.unsqueeze(-1)).exp()
    torch.testing.assert_close(
        weights, torch.softmax(0.7 * query @ repeat_kv(key, 4).mT, -1), atol=1e-12, rtol=0.0
    )


def test_large_scores_lose_no_more_than_in_torchs_kernel() -> None:
    query, key, value = (
        torch.randn(1, 2, 600, 64, generator=torch.Generator().manual_seed(seed)) for seed in range(3)
    )
    query = query * 30.0
    exact = sdpa(query.double(), key.double(), value.double())
    error = (flash_attention(query, key, value)[0] - exact).abs().max()
    assert error <= 2 * (sdpa(query, key, value) - exact).abs().max() + 1e-6


def test_half_precision_is_summed_in_float32() -> None:
    query, key, value = (
        torch.randn(1, 2, 700, 64, generator=torch.Generator().manual_seed(seed)).half() for seed in range(3)
    )
    exact = sdpa(query.double(), key.double(), value.double())
    output, lse = flash_attention(query, key, value)
    assert output.dtype == torch.float16 and lse.dtype == torch.float32
    torch.testing.assert_close(output.double(), exact, atol=2e-4, rtol=1e-3)


def test_between_the_passes_only_what_grows_with_n_is_kept() -> None:
    kept: list[int] = []
    query, key, value = (torch.randn(1, 2, 900, 16, requires_grad=True) for _ in range(3))

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        flash.attend(query, key, value, causal=True)
    assert sum(kept) == 2 * 900 * (4 * 16 + 1)


def test_tiles_in_the_future_are_skipped() -> None:
    # Blocks of 128 rows see 128, 256, … 1024 keys: 128 · 128 · (1 + … + 8) pairs, 4 operations each.
    assert flops(flash, 1024, causal=True) == 4 * 128 * 128 * 36
    assert flops(flash, 1024, causal=False) == 4 * 1024 * 1024


def test_tensors_that_do_not_fit_are_refused() -> None:
    query, key, value = tensors(4, 6)
    for wrong in ((query[..., :5], key, value), (query, key[:, :, :5], value), (query[:, :3], key, value)):
        with pytest.raises((ValueError, TypeError), match=r"got|Type-check"):
            flash_attention(*wrong)
    with pytest.raises((ValueError, TypeError), match=r"key_mask must be|Type-check"):
        flash_attention(query, key, value, key_mask=torch.ones(2, 5, dtype=torch.bool))
