"""Linear attention: its forms agree with each other and with implementations that others wrote."""

from __future__ import annotations

import math

import pytest
import torch
from counting import flops
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.attention.variants import linear

BATCH, HEADS, HEAD_DIM, VALUE_DIM = 2, 6, 5, 3


def tensors(query_len: int, key_len: int, *, kv_heads: int = HEADS, dtype=torch.float64, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(BATCH, HEADS, query_len, HEAD_DIM, generator=generator, dtype=dtype)
    key = torch.randn(BATCH, kv_heads, key_len, HEAD_DIM, generator=generator, dtype=dtype)
    value = torch.randn(BATCH, kv_heads, key_len, VALUE_DIM, generator=generator, dtype=dtype)
    return query, key, value


def padding(key_len: int) -> torch.Tensor:
    """Batch element 0 has padding on the left, 1 on the right."""
    position = torch.arange(key_len)
    return torch.stack((position >= 2, position < max(key_len - 3, 1)))


def by_definition(query, key, value, *, causal: bool, eps: float) -> torch.Tensor:
    """Equations (4) and (8) as two loops, φ through torch's own elu."""
    phi_query, phi_key = torch.nn.functional.elu(query) + 1, torch.nn.functional.elu(key) + 1
    output = value.new_zeros(*query.shape[:3], value.shape[-1])
    for i in range(query.shape[2]):
        seen = i + 1 + key.shape[2] - query.shape[2] if causal else key.shape[2]
        for j in range(seen):
            similarity = (phi_query[:, :, i] * phi_key[:, :, j]).sum(-1, keepdim=True)
            output[:, :, i] += similarity * value[:, :, j]
        total = (phi_query[:, :, i] * phi_key[:, :, : max(seen, 0)].sum(2)).sum(-1, keepdim=True)
        output[:, :, i] /= total + eps
    return output


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("query_len", "key_len"), [(1, 1), (7, 7), (13, 13), (4, 11), (11, 4), (1, 9)])
def test_every_length_equals_the_definition(query_len, key_len, causal):
    query, key, value = tensors(query_len, key_len)
    expected = by_definition(query, key, value, causal=causal, eps=1e-6)
    torch.testing.assert_close(
        linear.attend(query, key, value, causal=causal, chunk=4), expected, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("chunk", [1, 7, 64, 129])
@pytest.mark.parametrize("length", [1, 2, 7, 64, 100, 129])
def test_the_chunk_does_not_change_the_causal_output(length, chunk):
    query, key, value = tensors(length, length, kv_heads=2)
    expected = linear.weights(query, key, causal=True) @ value.repeat_interleave(3, dim=1)
    output = linear.attend(query, key, value, causal=True, chunk=chunk)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("query_len", "key_len"), [(9, 9), (5, 12), (12, 5)])
def test_the_fast_form_equals_weights_times_value_with_padding(query_len, key_len, causal):
    query, key, value = tensors(query_len, key_len)
    real = padding(key_len)
    expected = linear.weights(query, key, causal=causal, key_mask=real) @ value
    output = linear.attend(query, key, value, causal=causal, key_mask=real, chunk=4)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


def test_the_recurrent_form_equals_the_causal_one():
    query, key, value = tensors(23, 23, kv_heads=3)
    real = padding(23)
    output, _ = linear.recurrent(query, key, value, key_mask=real)
    expected = linear.attend(query, key, value, causal=True, key_mask=real)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


def test_the_recurrent_form_continues_from_its_state():
    query, key, value = tensors(11, 11)
    whole, last = linear.recurrent(query, key, value)
    _, state = linear.recurrent(query[:, :, :8], key[:, :, :8], value[:, :, :8])
    rest, state = linear.recurrent(query[:, :, 8:], key[:, :, 8:], value[:, :, 8:], state=state)
    torch.testing.assert_close(rest, whole[:, :, 8:])
    torch.testing.assert_close(state, last)


@given(
    length=st.integers(1, 40), chunk=st.integers(1, 50), causal=st.booleans(), seed=st.integers(0, 2**31 - 1)
)
@settings(max_examples=40, deadline=None)
def test_rows_of_weights_are_non_negative_and_sum_to_one(length, chunk, causal, seed):
    query, key, value = tensors(length, length, seed=seed)
    weights = linear.weights(query, key, causal=causal, chunk=chunk, eps=0.0)
    assert bool((weights >= 0).all())
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    constant = linear.attend(query, key, torch.full_like(value, 0.7), causal=causal, chunk=chunk, eps=0.0)
    torch.testing.assert_close(constant, torch.full_like(constant, 0.7))


@given(at=st.integers(0, 20), chunk=st.integers(1, 25))
@settings(max_examples=25, deadline=None)
def test_changing_a_token_changes_no_earlier_row_by_a_single_bit(at, chunk):
    query, key, value = tensors(21, 21, dtype=torch.float32)
    before = linear.attend(query, key, value, causal=True, chunk=chunk)
    key[:, :, at], value[:, :, at] = 9.0, -9.0
    after = linear.attend(query, key, value, causal=True, chunk=chunk)
    assert torch.equal(before[:, :, :at], after[:, :, :at])
    assert not torch.equal(before[:, :, at:], after[:, :, at:])


def test_permuting_the_keys_changes_nothing_without_a_mask():
    query, key, value = tensors(6, 17)
    order = torch.randperm(17, generator=torch.Generator().manual_seed(1))
    expected = linear.attend(query, key, value)
    torch.testing.assert_close(linear.attend(query, key[:, :, order], value[:, :, order]), expected)


def test_two_keys_give_numbers_one_can_work_out_by_hand():
    query = torch.tensor([[[[1.0]]]])
    key = torch.tensor([[[[0.0], [3.0]]]])
    # φ(1) = 2, φ(0) = 1, φ(3) = 4: products 2 and 8.
    torch.testing.assert_close(linear.weights(query, key, eps=0.0), torch.tensor([[[[0.2, 0.8]]]]))
    value = torch.tensor([[[[10.0], [20.0]]]])
    torch.testing.assert_close(linear.attend(query, key, value, eps=0.0), torch.tensor([[[[18.0]]]]))


def test_the_feature_map_keeps_its_precision_far_below_zero():
    x = torch.tensor([-20.0, -10.0, -0.5, 0.0, 3.0])
    expected = torch.tensor([math.exp(-20), math.exp(-10), math.exp(-0.5), 1.0, 4.0])
    torch.testing.assert_close(linear.feature_map(x), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("causal", [False, True])
def test_nan_in_padding_does_not_reach_the_output(causal):
    query, key, value = tensors(9, 9)
    real = padding(9)
    expected = linear.attend(query, key, value, causal=causal, key_mask=real, chunk=4)
    key[~real[:, None].expand(-1, HEADS, -1)] = torch.nan
    value[~real[:, None].expand(-1, HEADS, -1)] = torch.nan
    output = linear.attend(query, key, value, causal=causal, key_mask=real, chunk=4)
    torch.testing.assert_close(output, expected, rtol=0, atol=0)


def test_padded_keys_of_zeros_do_not_count():
    query, key, value = tensors(5, 8)
    real = (torch.arange(8) < 6).expand(BATCH, 8)
    key[:, :, 6:], value[:, :, 6:] = 0.0, 0.0
    shorter = linear.attend(query, key[:, :, :6], value[:, :, :6])
    torch.testing.assert_close(linear.attend(query, key, value, key_mask=real), shorter)


@pytest.mark.parametrize("eps", [0.0, 1e-6])
@pytest.mark.parametrize("causal", [False, True])
def test_a_row_without_any_key_gives_zeros_and_finite_gradients(causal, eps):
    query, key, value = (x.requires_grad_() for x in tensors(6, 4))
    real = torch.zeros(BATCH, 4, dtype=torch.bool)
    output = linear.attend(query, key, value, causal=causal, key_mask=real, chunk=2, eps=eps)
    assert torch.equal(output, torch.zeros_like(output))
    output.sum().backward()
    assert all(bool(x.grad.isfinite().all()) for x in (query, key, value))


@pytest.mark.parametrize("causal", [False, True])
def test_the_gradient_is_that_of_the_plain_form(causal):
    query, key, value = (x[:1, :2].clone().requires_grad_() for x in tensors(7, 7))
    fast = torch.autograd.grad(
        linear.attend(query, key, value, causal=causal, chunk=3).square().sum(), (query, key, value)
    )
    plain = torch.autograd.grad(
        (linear.weights(query, key, causal=causal) @ value).square().sum(), (query, key, value)
    )
    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float16, 3e-3), (torch.bfloat16, 2e-2)])
def test_short_floats_are_computed_in_float32(dtype, atol):
    query, key, value = tensors(100, 100)
    short = [x.to(dtype) for x in (query, key, value)]
    output = linear.attend(*short, causal=True)
    expected = linear.attend(*[x.double() for x in short], causal=True)
    assert output.dtype == dtype
    torch.testing.assert_close(output.double(), expected, rtol=atol, atol=atol)
    # The rounding of the result, and no more: half a unit of the last place.
    assert (output.double() - expected).abs().max() <= torch.finfo(dtype).eps * expected.abs().max()


def test_inputs_and_the_random_state_stay_as_they_were():
    query, key, value = tensors(9, 9)
    copies, state = [x.clone() for x in (query, key, value)], torch.random.get_rng_state()
    linear.attend(query, key, value, causal=True, key_mask=padding(9))
    assert all(torch.equal(x, copy) for x, copy in zip((query, key, value), copies, strict=True))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_work_grows_with_the_length_not_with_its_square():
    assert 1.5 < flops(linear, 8192, causal=True) / flops(linear, 4096, causal=True) <= 2.0


def test_shapes_that_do_not_fit_are_told():
    query, key, value = tensors(5, 8)
    with pytest.raises(ValueError, match="kv_heads must divide heads, got 4 kv_heads for 6 heads"):
        linear.attend(query, key[:, :4], value[:, :4])


# -- what others wrote -------------------------------------------------------------------------------------------------


def test_it_equals_the_onnx_operator_with_a_column_of_ones():
    onnx = pytest.importorskip("onnx", reason="the ONNX reference evaluator")
    helper = onnx.helper
    query, key, value = (x.float() for x in tensors(13, 13))
    ones = torch.cat((value, torch.ones_like(value[..., :1])), dim=-1)

    def packed(x: torch.Tensor):
        return x.transpose(1, 2).flatten(2).numpy()

    node = helper.make_node(
        "LinearAttention",
        ["q", "k", "v"],
        ["o", "s"],
        q_num_heads=HEADS,
        kv_num_heads=HEADS,
        update_rule="linear",
        scale=1.0,
    )
    names = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("q", "k", "v")]
    outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("o", "s")]
    graph = helper.make_graph([node], "linear", names, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)])
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator(model)
    phi = linear.feature_map
    numbers, state = evaluator.run(None, {"q": packed(phi(query)), "k": packed(phi(key)), "v": packed(ones)})
    numbers = torch.from_numpy(numbers).unflatten(-1, (HEADS, VALUE_DIM + 1)).transpose(1, 2)
    output, ours = linear.recurrent(query, key, value, eps=0.0)
    torch.testing.assert_close(output, numbers[..., :-1] / numbers[..., -1:], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours, torch.from_numpy(state), rtol=1e-5, atol=1e-5)
