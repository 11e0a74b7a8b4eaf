"""Retention: its three forms agree with each other and with implementations that others wrote."""

from __future__ import annotations

import importlib.util
import types

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.attention.decay import decay_matrix, decay_rates
from attncli.attention.positions import retention_frequencies
from attncli.attention.variants import retention

BATCH, HEADS, HEAD_DIM, VALUE_DIM = 2, 6, 8, 5


def tensors(length: int, *, kv_heads: int = HEADS, dtype=torch.float64, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    sizes = ((HEADS, HEAD_DIM), (kv_heads, HEAD_DIM), (kv_heads, VALUE_DIM))
    return [torch.randn(BATCH, h, length, d, generator=generator, dtype=dtype) for h, d in sizes]


def padding(length: int) -> torch.Tensor:
    """Batch element 0 has padding on the left, 1 on the right."""
    position = torch.arange(length)
    return torch.stack((position >= 2, position < max(length - 3, 1)))


def turned(x: torch.Tensor) -> torch.Tensor:
    """Turn pairs (2t, 2t+1) with complex numbers, position by position."""
    theta = 10_000.0 ** -torch.linspace(0, 1, x.shape[-1] // 2, dtype=torch.float64)
    position = torch.arange(x.shape[-2], dtype=torch.float64)
    turn = torch.exp(1j * position.unsqueeze(-1) * theta)
    pairs = torch.complex(x[..., ::2], x[..., 1::2]) * turn
    return torch.stack((pairs.real, pairs.imag), dim=-1).flatten(-2)


def by_definition(query, key, value, gamma) -> torch.Tensor:
    """Equation (5) as two loops."""
    query, key = turned(query), turned(key)
    output = torch.zeros(*query.shape[:3], value.shape[-1], dtype=query.dtype)
    for i in range(query.shape[2]):
        for j in range(i + 1):
            product = (query[:, :, i] * key[:, :, j]).sum(-1) / query.shape[-1] ** 0.5
            output[:, :, i] += (gamma ** (i - j) * product).unsqueeze(-1) * value[:, :, j]
    return output


@pytest.mark.parametrize("length", [1, 2, 7, 13])
def test_every_form_equals_the_definition(length):
    query, key, value = tensors(length)
    gamma = torch.tensor([1 - 2.0 ** (-5 - head) for head in range(HEADS)], dtype=torch.float64)
    expected = by_definition(query, key, value, gamma)
    for output in (
        retention.weights(query, key) @ value,
        retention.attend(query, key, value, chunk=4),
        retention.recurrent(query, key, value)[0],
    ):
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("chunk", [1, 7, 64, 129])
@pytest.mark.parametrize("length", [1, 2, 7, 64, 100, 129])
def test_the_three_forms_agree_whatever_the_chunk(length, chunk, normalize):
    query, key, value = tensors(length, kv_heads=2)
    real = padding(length)
    settings = dict(key_mask=real, decay="experiments", normalize=normalize)
    expected = retention.weights(query, key, **settings) @ value.repeat_interleave(3, dim=1)
    chunkwise = retention.attend(query, key, value, chunk=chunk, **settings)
    recurrent, _ = retention.recurrent(query, key, value, **settings)
    torch.testing.assert_close(chunkwise, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(recurrent, expected, rtol=0, atol=1e-10)


@given(
    length=st.integers(1, 40),
    chunk=st.integers(1, 50),
    gamma=st.lists(st.floats(0.01, 1.0), min_size=HEADS, max_size=HEADS),
    rotate=st.booleans(),
    normalize=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_the_three_forms_agree_for_any_decays(length, chunk, gamma, rotate, normalize):
    query, key, value = tensors(length)
    settings = dict(decays=torch.tensor(gamma, dtype=torch.float64), rotate=rotate, normalize=normalize)
    expected = retention.weights(query, key, **settings) @ value
    chunkwise = retention.attend(query, key, value, chunk=chunk, **settings)
    recurrent, _ = retention.recurrent(query, key, value, **settings)
    torch.testing.assert_close(chunkwise, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(recurrent, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("normalize", [False, True])
def test_the_recurrent_form_continues_from_its_state(normalize):
    query, key, value = tensors(11)
    whole, last = retention.recurrent(query, key, value, normalize=normalize)
    first = [x[:, :, :8] for x in (query, key, value)]
    rest = [x[:, :, 8:] for x in (query, key, value)]
    _, state = retention.recurrent(*first, normalize=normalize)
    output, state = retention.recurrent(*rest, normalize=normalize, state=state)
    torch.testing.assert_close(output, whole[:, :, 8:])
    torch.testing.assert_close(state.memory, last.memory)
    assert state.position == last.position == 11


@given(at=st.integers(0, 20), chunk=st.integers(1, 25))
@settings(max_examples=25, deadline=None)
def test_changing_a_token_changes_no_earlier_row_by_a_single_bit(at, chunk):
    query, key, value = tensors(21, dtype=torch.float32)
    before = retention.attend(query, key, value, chunk=chunk)
    key[:, :, at], value[:, :, at] = 9.0, -9.0
    after = retention.attend(query, key, value, chunk=chunk)
    assert torch.equal(before[:, :, :at], after[:, :, :at])
    assert not torch.equal(before[:, :, at:], after[:, :, at:])


def test_the_past_fades_by_gamma_with_each_step():
    ones = torch.ones(1, 1, 4, 1)
    weights = retention.weights(ones, ones, rotate=False, decays=torch.tensor([0.5]))
    torch.testing.assert_close(weights[0, 0, 3], torch.tensor([0.125, 0.25, 0.5, 1.0]))
    output = retention.attend(ones, ones, ones, rotate=False, decays=torch.tensor([0.5]), chunk=3)
    torch.testing.assert_close(output[0, 0, :, 0], torch.tensor([1.0, 1.5, 1.75, 1.875]))


def test_normalised_rows_are_divided_by_what_one_can_work_out_by_hand():
    query, key = torch.full((1, 1, 3, 1), 3.0), torch.ones(1, 1, 3, 1)
    weights = retention.weights(query, key, rotate=False, normalize=True, decays=torch.tensor([0.5]))
    # The last row is 3·(¼, ½, 1), its sum 5.25; √(1.75) is less, so the sum divides.
    torch.testing.assert_close(weights[0, 0, 2], torch.tensor([1, 2, 4]) / 7)
    weights = retention.weights(query / 30, key, rotate=False, normalize=True, decays=torch.tensor([0.5]))
    # A tenth of (¼, ½, 1) sums to 0.175: now √1.75 divides.
    torch.testing.assert_close(weights[0, 0, 2], torch.tensor([0.025, 0.05, 0.1]) / 1.75**0.5)


def test_long_texts_do_not_overflow():
    query, key, value = (
        torch.randn(1, 1, 4096, 2, generator=torch.Generator().manual_seed(0)) for _ in "qkv"
    )
    output = retention.attend(query, key, value)
    expected = retention.attend(query.double(), key.double(), value.double())
    assert bool(output.isfinite().all())
    assert (output - expected).abs().max() < 5e-6 * expected.abs().max()


def test_decay_rates_are_those_of_the_paper_and_of_its_experiments():
    torch.testing.assert_close(decay_rates(3), torch.tensor([31 / 32, 63 / 64, 127 / 128]).double())
    expected = 1 - torch.exp(torch.linspace(torch.tensor(1 / 32).log(), torch.tensor(1 / 512).log(), 5))
    torch.testing.assert_close(decay_rates(5, "experiments").float(), expected)


def test_the_decay_matrix_has_no_nan_above_its_diagonal():
    matrix = decay_matrix(decay_rates(3), 4000)
    assert bool(matrix.isfinite().all())
    assert not bool(matrix.triu(1).any())


def test_its_frequencies_are_not_those_of_rope():
    torch.testing.assert_close(retention_frequencies(6), torch.tensor([1.0, 0.01, 0.0001]).double())
    torch.testing.assert_close(retention_frequencies(2), torch.ones(1).double())


def test_shifting_all_positions_changes_no_weight():
    query, key, _ = tensors(9)
    moved_query, moved_key = (torch.cat((x[:, :, :4], x), dim=2) for x in (query, key))
    moved = retention.weights(moved_query, moved_key)[:, :, 4:, 4:]
    torch.testing.assert_close(moved, retention.weights(query, key), rtol=0, atol=1e-12)


@pytest.mark.parametrize("normalize", [False, True])
def test_nan_in_padding_does_not_reach_the_output(normalize):
    query, key, value = tensors(9)
    real = padding(9)
    forms = (
        lambda: retention.attend(query, key, value, key_mask=real, normalize=normalize, chunk=4),
        lambda: retention.recurrent(query, key, value, key_mask=real, normalize=normalize)[0],
        lambda: retention.weights(query, key, key_mask=real, normalize=normalize),
    )
    expected = [form() for form in forms]
    key[~real[:, None].expand(-1, HEADS, -1)] = torch.nan
    value[~real[:, None].expand(-1, HEADS, -1)] = torch.nan
    for form, clean in zip(forms, expected, strict=True):
        torch.testing.assert_close(form(), clean, rtol=0, atol=0)


def test_left_padding_changes_nothing_for_the_tokens_after_it():
    query, key, value = tensors(9)
    real = (torch.arange(9) >= 4).expand(BATCH, 9)
    padded = retention.attend(query, key, value, key_mask=real, normalize=True)[:, :, 4:]
    alone = retention.attend(query[:, :, 4:], key[:, :, 4:], value[:, :, 4:], normalize=True)
    torch.testing.assert_close(padded, alone)


@pytest.mark.parametrize("normalize", [False, True])
def test_a_row_without_any_key_gives_zeros_and_finite_gradients(normalize):
    query, key, value = (x.requires_grad_() for x in tensors(6))
    real = torch.zeros(BATCH, 6, dtype=torch.bool)
    output = retention.attend(query, key, value, key_mask=real, normalize=normalize, chunk=4)
    assert torch.equal(output, torch.zeros_like(output))
    output.sum().backward()
    assert all(bool(x.grad.isfinite().all()) for x in (query, key, value))


@pytest.mark.parametrize("normalize", [False, True])
def test_the_gradient_is_that_of_the_parallel_form(normalize):
    query, key, value = (x.requires_grad_() for x in tensors(7))
    fast = retention.attend(query, key, value, normalize=normalize, chunk=3).square().sum()
    plain = (retention.weights(query, key, normalize=normalize) @ value).square().sum()
    inputs = (query, key, value)
    torch.testing.assert_close(
        torch.autograd.grad(fast, inputs), torch.autograd.grad(plain, inputs), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize(("dtype", "share"), [(torch.float16, 1e-3), (torch.bfloat16, 8e-3)])
def test_short_floats_are_computed_in_float32(dtype, share):
    short = [x.to(dtype) for x in tensors(100)]
    output = retention.attend(*short)
    expected = retention.attend(*[x.double() for x in short])
    assert output.dtype == dtype
    assert (output.double() - expected).abs().max() <= share / 2 * expected.abs().max()


def test_inputs_of_any_layout_give_the_same_output():
    query, key, value = tensors(9)
    expected = retention.attend(query, key, value)
    odd = torch.zeros(BATCH, HEADS, 9, HEAD_DIM + 1, dtype=torch.float64)
    odd[..., 1:] = query
    sideways = key.transpose(-1, -2).contiguous().transpose(-1, -2)
    torch.testing.assert_close(retention.attend(odd[..., 1:], sideways, value), expected)


def test_inputs_and_the_random_state_stay_as_they_were():
    inputs = tensors(9)
    copies, state = [x.clone() for x in inputs], torch.random.get_rng_state()
    retention.attend(*inputs, key_mask=padding(9), normalize=True)
    assert all(torch.equal(x, copy) for x, copy in zip(inputs, copies, strict=True))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_what_does_not_fit_is_told(as_a_user):
    query, key, value = tensors(5)
    with pytest.raises(ValueError, match="causal only"):
        retention.attend(query, key, value, causal=False)
    with pytest.raises(ValueError, match="differ in length: 5 and 4"):
        retention.attend(query, key[:, :, :4], value[:, :, :4])
    with pytest.raises(ValueError, match="even head_dim, got 7"):
        retention.attend(query[..., :7], key[..., :7], value)
    with pytest.raises(ValueError, match="each of 6 heads, got 2"):
        retention.attend(query, key, value, decays=torch.tensor([0.5, 0.9]))
    with pytest.raises(ValueError, match=r"in \(0, 1\]"):
        retention.weights(query, key, decays=torch.full((HEADS,), 1.5))


# -- the block ---------------------------------------------------------------------------------------------------------


# -- what others wrote -------------------------------------------------------------------------------------------------


def test_it_equals_minimax_lightning_attention_without_rotation():
    minimax = pytest.importorskip("transformers.models.minimax.modeling_minimax")
    config = pytest.importorskip("transformers").MiniMaxConfig(
        hidden_size=24,
        num_attention_heads=3,
        num_key_value_heads=3,
        head_dim=HEAD_DIM,
        num_hidden_layers=2,
        block_size=4,
        layer_types=["linear_attention", "full_attention"],
    )
    torch.manual_seed(0)
    layer = minimax.MiniMaxLightningAttention(config, layer_idx=0).double().eval()
    layer.norm, layer.out_proj = torch.nn.Identity(), torch.nn.Identity()
    x = torch.randn(2, 11, 24, dtype=torch.float64)
    with torch.no_grad():
        gated, _ = layer(x, position_embeddings=None, attention_mask=None)
        theirs = gated / torch.sigmoid(layer.output_gate(x))
        projected = layer.act_fn(layer.qkv_proj(x)).reshape(2, 11, 3, 24).transpose(1, 2)
    query, key, value = projected.split(HEAD_DIM, dim=-1)
    decays = torch.exp(-layer.slope_rate.flatten().double())
    ours = retention.attend(query * HEAD_DIM**0.5, key, value, rotate=False, decays=decays, chunk=5)
    torch.testing.assert_close(ours.transpose(1, 2).flatten(2), theirs, rtol=0, atol=1e-6)


def test_output_and_state_equal_those_of_the_onnx_operator():
    onnx = pytest.importorskip("onnx", reason="the ONNX reference evaluator")
    reference = pytest.importorskip("onnx.reference")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    query, key, value = (x.float() for x in tensors(13))
    node = helper.make_node(
        "LinearAttention",
        ["q", "k", "v", "", "decay"],
        ["o", "s"],
        q_num_heads=HEADS,
        kv_num_heads=HEADS,
        update_rule="gated",
    )
    inputs = [helper.make_tensor_value_info(name, floats, None) for name in ("q", "k", "v", "decay")]
    outputs = [helper.make_tensor_value_info(name, floats, None) for name in ("o", "s")]
    model = helper.make_model(
        helper.make_graph([node], "retention", inputs, outputs), opset_imports=[helper.make_opsetid("", 27)]
    )
    decay = decay_rates(HEADS).log().float().expand(BATCH, 13, HEADS).contiguous()
    feeds = {
        name: x.transpose(1, 2).flatten(2).numpy() for name, x in zip("qkv", (query, key, value), strict=True)
    }
    output, state = reference.ReferenceEvaluator(model).run(None, {**feeds, "decay": decay.numpy()})
    ours, last = retention.recurrent(query, key, value, rotate=False)
    largest = ours.abs().max()
    difference = torch.from_numpy(output) - ours.transpose(1, 2).flatten(2)
    assert difference.abs().max() < 5e-6 * largest
    assert (torch.from_numpy(state) - last.memory[..., :-1]).abs().max() < 5e-6 * largest


def _module_at(package: str, path: str) -> types.ModuleType:
    """Load one file of an installed package without running the package's own imports."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    spec = importlib.util.spec_from_file_location(
        f"{package}_oracle", f"{found.submodule_search_locations[0]}/{path}"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_equals_flash_linear_attentions_naive_retention():
    naive = _module_at("fla", "ops/retention/naive.py").naive_retention
    query, key, value = tensors(40, dtype=torch.float32)
    expected = naive(query, key, value)
    ours = retention.attend(query, key, value, rotate=False, chunk=16)
    assert (ours - expected).abs().max() < 5e-6 * expected.abs().max()
