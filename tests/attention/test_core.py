"""Scaled dot-product attention against PyTorch's, against numbers worked out by hand, and its properties."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attncli import causal_attention, create_causal_mask, scaled_dot_product_attention
from attncli.attention.core import attention_scores, attention_weights, repeat_kv, without_unreachable

HEAD_DIM, VALUE_DIM = 5, 3


def tensors(*batch: int, query_len: int = 7, key_len: int = 11, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = ((query_len, HEAD_DIM), (key_len, HEAD_DIM), (key_len, VALUE_DIM))
    return [torch.randn(*batch, *size, generator=generator, dtype=torch.float64) for size in sizes]


def random_mask(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.6


# -- against PyTorch ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize(("query_len", "key_len"), [(1, 1), (7, 7), (4, 11), (11, 4), (1, 9)])
def test_it_equals_pytorch_over_batches_and_lengths(batch, query_len, key_len):
    query, key, value = tensors(*batch, query_len=query_len, key_len=key_len)
    output, weights = scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(output, sdpa(query, key, value), rtol=0, atol=1e-10)
    torch.testing.assert_close(weights @ value, output, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "shape", [(7, 11), (1, 11), (7, 1), (3, 7, 11), (2, 1, 7, 11), (2, 3, 7, 11), (2, 1, 1, 11)]
)
def test_it_equals_pytorch_under_masks_of_every_shape(shape):
    query, key, value = tensors(2, 3)
    mask = random_mask(*shape)
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    torch.testing.assert_close(output, sdpa(query, key, value, attn_mask=mask), rtol=0, atol=1e-10)
    assert not bool(weights.masked_fill(mask, 0.0).any())


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_it_equals_pytorch_with_grouped_heads(kv_heads):
    query, _, _ = tensors(2, 6)
    _, key, value = tensors(2, kv_heads, seed=1)
    output, _ = scaled_dot_product_attention(query, repeat_kv(key, 6), repeat_kv(value, 6))
    expected = sdpa(query, key, value, enable_gqa=True)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_it_equals_pytorch_with_another_scale(scale):
    query, key, value = tensors(2, 3)
    output, _ = scaled_dot_product_attention(query, key, value, scale=scale)
    torch.testing.assert_close(output, sdpa(query, key, value, scale=scale), rtol=0, atol=1e-10)


@pytest.mark.parametrize("masked", [False, True])
def test_it_equals_pytorch_with_a_bias(masked):
    query, key, value = tensors(2, 3)
    bias = torch.randn(3, 7, 11, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mask = random_mask(7, 11) if masked else None
    output, _ = scaled_dot_product_attention(query, key, value, mask, bias=bias)
    added = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    torch.testing.assert_close(output, sdpa(query, key, value, attn_mask=added), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("query_len", "key_len"), [(1, 1), (7, 7), (4, 11), (1, 9)])
def test_causal_attention_equals_pytorchs_lower_right_triangle(query_len, key_len):
    query, key, value = tensors(2, 3, query_len=query_len, key_len=key_len)
    output, _ = causal_attention(query, key, value)
    triangle = torch.ones(query_len, key_len, dtype=torch.bool).tril(key_len - query_len)
    torch.testing.assert_close(output, sdpa(query, key, value, attn_mask=triangle), rtol=0, atol=1e-10)
    same_width = torch.cat((value, value[..., : HEAD_DIM - VALUE_DIM]), dim=-1)
    expected = sdpa(query, key, same_width, attn_mask=causal_lower_right(query_len, key_len))
    torch.testing.assert_close(output, expected[..., :VALUE_DIM], rtol=0, atol=1e-10)


def test_causality_and_padding_combine():
    query, key, value = tensors(2, 3, query_len=9, key_len=9)
    real = torch.stack((torch.arange(9) >= 2, torch.arange(9) < 6))[:, None, None]
    output, _ = causal_attention(query, key, value, real)
    expected = sdpa(query, key, value, attn_mask=real & create_causal_mask(9))
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


def test_gradients_equal_pytorchs():
    inputs = [x.requires_grad_() for x in tensors(2, 3)]
    mask = random_mask(7, 11)
    ours = torch.autograd.grad(scaled_dot_product_attention(*inputs, mask)[0].square().sum(), inputs)
    expected = torch.autograd.grad(sdpa(*inputs, attn_mask=mask).square().sum(), inputs)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-10)


def test_gradients_pass_gradcheck_with_every_modifier():
    query, key, value = (x.requires_grad_() for x in tensors(2, query_len=3, key_len=4))
    sink = torch.tensor([[[0.3]], [[-1.0]]], dtype=torch.float64, requires_grad=True)
    bias = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    mask = torch.tensor([[True, True, False, True], [False] * 4, [True] * 4])

    def attend(query, key, value, sink, bias):
        return scaled_dot_product_attention(query, key, value, mask, softcap=2.0, bias=bias, sink=sink)[0]

    assert torch.autograd.gradcheck(attend, (query, key, value, sink, bias))


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_two_by_two_is_what_one_works_out_by_hand():
    ones = torch.eye(2, dtype=torch.float64)
    output, weights = scaled_dot_product_attention(ones, ones, torch.tensor([[10.0], [20.0]]).double())
    e = math.exp(1 / math.sqrt(2))
    assert weights[0].tolist() == pytest.approx([e / (e + 1), 1 / (e + 1)])
    assert output[0].item() == pytest.approx((10 * e + 20) / (e + 1))


def test_the_scale_is_that_of_one_head():
    query = torch.full((1, 4), 2.0)
    assert attention_scores(query, query).item() == pytest.approx(16 / math.sqrt(4))


def test_scores_are_masked_by_weight_not_by_a_large_number():
    weights = attention_weights(torch.tensor([[1e30, 0.0, math.log(3)]]), torch.tensor([[False, True, True]]))
    torch.testing.assert_close(weights, torch.tensor([[0.0, 0.25, 0.75]]))


def test_very_large_scores_do_not_overflow():
    weights = attention_weights(
        torch.tensor([[1e4, 1e4 - math.log(3), -1e4]]), torch.ones(1, 3, dtype=torch.bool)
    )
    torch.testing.assert_close(weights, torch.tensor([[0.75, 0.25, 0.0]]), rtol=1e-3, atol=1e-6)


# -- rows without keys, and NaN that no row may see --------------------------------------------------------------------


@pytest.mark.parametrize("keys", [1, 7, 15, 16, 17])
def test_rows_shorter_than_a_vector_have_pytorchs_weights_and_gradients(keys):
    scores = 30 * torch.randn(2, 3, keys, generator=torch.Generator().manual_seed(keys))
    scores[0, 1, 0] = -torch.inf if keys > 1 else 0.0
    scores[1, 2, -1] = torch.nan
    ours, theirs = (scores.clone().requires_grad_() for _ in range(2))
    weights, expected = attention_weights(ours), theirs.softmax(-1)
    torch.testing.assert_close(weights, expected, rtol=1e-6, atol=1e-7, equal_nan=True)
    upstream = torch.arange(float(keys)).expand_as(scores)
    for made in (weights, expected):
        made[:1].backward(upstream[:1])
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_a_fully_masked_row_gives_zeros():
    query, key, value = tensors(2)
    mask = torch.ones(7, 11, dtype=torch.bool)
    mask[3] = False
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    assert not bool(weights[:, 3].any())
    assert not bool(output[:, 3].any())
    torch.testing.assert_close(weights[:, 4].sum(-1), torch.ones(2).double())


def test_a_fully_masked_row_has_a_gradient_of_zero():
    inputs = [x.requires_grad_() for x in tensors(2)]
    mask = torch.ones(7, 11, dtype=torch.bool)
    mask[3] = False
    scaled_dot_product_attention(*inputs, mask)[0].sum().backward()
    assert all(bool(x.grad.isfinite().all()) for x in inputs)
    assert not bool(inputs[0].grad[:, 3].any())


def test_with_fewer_keys_than_queries_the_first_rows_see_nothing():
    query, key, value = tensors(2, query_len=5, key_len=3)
    output, weights = causal_attention(query, key, value)
    assert not bool(output[:, :2].any())
    torch.testing.assert_close(weights[:, 2], torch.tensor([1.0, 0.0, 0.0]).double().expand(2, -1))


def test_nan_in_a_masked_key_and_value_does_not_reach_the_output():
    query, key, value = tensors(2, 3)
    mask = (torch.arange(11) < 8).expand(7, 11)
    expected, _ = scaled_dot_product_attention(query, key, value, mask)
    key[..., 8:, :], value[..., 8:, :] = torch.nan, torch.nan
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    torch.testing.assert_close(output, expected, rtol=0, atol=0)
    assert bool(weights.isfinite().all())


def test_nan_is_kept_out_of_one_batch_element_only():
    value = torch.full((2, 4, VALUE_DIM), torch.nan)
    mask = torch.tensor([[True, False, True, True], [True, True, True, True]])[:, None]
    cleaned = without_unreachable(value, mask)
    assert cleaned[0].isnan().any(-1).tolist() == [True, False, True, True]
    assert bool(cleaned[1].isnan().all())


def test_a_mask_of_one_axis_hides_keys_from_all_rows():
    query, key, value = tensors(2)
    value[:, 4] = torch.nan
    output, weights = scaled_dot_product_attention(query, key, value, torch.arange(11) != 4)
    assert bool(output.isfinite().all())
    assert not bool(weights[..., 4].any())


# -- properties --------------------------------------------------------------------------------------------------------

lengths = st.integers(1, 12)
seeds = st.integers(0, 2**31 - 1)


@given(query_len=lengths, key_len=lengths, seed=seeds)
@settings(max_examples=40, deadline=None)
def test_rows_with_a_key_sum_to_one_and_others_to_zero(query_len, key_len, seed):
    query, key, value = tensors(2, query_len=query_len, key_len=key_len, seed=seed)
    mask = random_mask(2, query_len, key_len, seed=seed)
    _, weights = scaled_dot_product_attention(query, key, value, mask)
    assert bool((weights >= 0).all())
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).double())


@given(at=st.integers(0, 8), seed=seeds)
@settings(max_examples=30, deadline=None)
def test_a_causal_row_does_not_change_when_later_tokens_do(at, seed):
    query, key, value = tensors(2, query_len=9, key_len=9, seed=seed)
    before, _ = causal_attention(query, key, value)
    key[:, at], value[:, at] = 9.0, -9.0
    after, _ = causal_attention(query, key, value)
    assert torch.equal(before[:, :at], after[:, :at])
    assert not torch.equal(before[:, at:], after[:, at:])


@given(seed=seeds)
@settings(max_examples=30, deadline=None)
def test_permuting_keys_permutes_weights_and_leaves_the_output(seed):
    query, key, value = tensors(2, seed=seed)
    order = torch.randperm(11, generator=torch.Generator().manual_seed(seed))
    output, weights = scaled_dot_product_attention(query, key, value)
    permuted_output, permuted = scaled_dot_product_attention(query, key[:, order], value[:, order])
    torch.testing.assert_close(permuted, weights[..., order])
    torch.testing.assert_close(permuted_output, output)


@given(shift=st.floats(-1e3, 1e3), seed=seeds)
@settings(max_examples=30, deadline=None)
def test_adding_a_number_to_a_row_of_scores_changes_no_weight(shift, seed):
    scores = tensors(2, seed=seed)[0]
    mask = random_mask(2, *scores.shape[-2:], seed=seed)
    torch.testing.assert_close(attention_weights(scores + shift, mask), attention_weights(scores, mask))


def test_inputs_are_not_modified():
    inputs = [*tensors(2), random_mask(7, 11)]
    copies = [x.clone() for x in inputs]
    scaled_dot_product_attention(*inputs, softcap=3.0)
    causal_attention(*inputs)
    assert all(torch.equal(x, copy) for x, copy in zip(inputs, copies, strict=True))


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((3, 4), (5, 6), (5, 2)), "query and key differ in head_dim: 4 and 6"),
        (((3, 4), (5, 4), (6, 2)), "key and value differ in length: 5 and 6"),
    ],
)
def test_shapes_that_do_not_fit_are_told(as_a_user, shapes, message):
    with pytest.raises(ValueError, match=message):
        scaled_dot_product_attention(*(torch.zeros(shape) for shape in shapes))


@pytest.mark.parametrize("shape", [(6, 11), (7, 10), (3, 7, 11), (1, 2, 7, 11)])
def test_a_mask_that_does_not_broadcast_is_told(shape):
    query, key, value = tensors(2)
    with pytest.raises(ValueError, match=r"must broadcast to .* = \(2, 7, 11\), got"):
        scaled_dot_product_attention(query, key, value, torch.ones(shape, dtype=torch.bool))


def test_a_mask_that_is_not_boolean_is_told(as_a_user):
    query, key, value = tensors(2)
    with pytest.raises(ValueError, match=r"boolean \(True = may attend\), got torch.float32"):
        scaled_dot_product_attention(query, key, value, torch.zeros(7, 11))


def test_kv_heads_that_do_not_divide_are_told():
    with pytest.raises(ValueError, match="got 4 kv_heads for 6 heads"):
        repeat_kv(torch.zeros(1, 4, 2, 2), 6)


def test_kv_heads_repeat_in_groups_not_in_turns():
    tensor = torch.arange(2.0).reshape(1, 2, 1, 1)
    assert repeat_kv(tensor, 6).flatten().tolist() == [0, 0, 0, 1, 1, 1]


def test_half_precision_is_computed_in_float32_and_comes_back_as_it_was() -> None:
    x = (200 * torch.randn(1, 1, 5, 64, generator=torch.Generator().manual_seed(0))).half()
    output, weights = scaled_dot_product_attention(x, x, x)
    assert output.dtype == weights.dtype == torch.float16
    torch.testing.assert_close(output, torch.nn.functional.scaled_dot_product_attention(x, x, x))


def test_a_row_whose_bias_is_minus_infinity_gives_zeros_and_no_nan_gradient() -> None:
    q = torch.randn(1, 1, 3, 8, generator=torch.Generator().manual_seed(1), requires_grad=True)
    bias = torch.zeros(3, 3).index_fill(0, torch.tensor([1]), -torch.inf)
    output, weights = scaled_dot_product_attention(q, q, q, bias=bias)
    output.sum().backward()
    assert not output[0, 0, 1].any() and not weights[0, 0, 1].any()
    assert q.grad is not None and q.grad.isfinite().all()


def test_no_keys_at_all_give_zeros_as_torch_does() -> None:
    q, k, v = torch.randn(1, 2, 3, 8), torch.zeros(1, 2, 0, 8), torch.zeros(1, 2, 0, 5)
    output, weights = scaled_dot_product_attention(q, k, v)
    assert torch.equal(output, torch.zeros(1, 2, 3, 5)) and weights.shape == (1, 2, 3, 0)
