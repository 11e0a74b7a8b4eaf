"""Position encodings against the paper's formulas, numbers worked out by hand, and transformers' own code."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.attention import positions
from attncli.attention.core import attention_scores, scaled_dot_product_attention
from attncli.attention.masks.causal import create_causal_mask


def vectors(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# -- sinusoidal --------------------------------------------------------------------------------------------------------


def test_sinusoidal_positions_are_those_of_the_formula():
    encoding = positions.sinusoidal_positions(9, 6)
    for position in range(9):
        for t in range(3):
            angle = position / 10_000 ** (2 * t / 6)
            assert encoding[position, 2 * t] == pytest.approx(math.sin(angle), abs=1e-6)
            assert encoding[position, 2 * t + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoidal_positions_are_exact_far_out():
    assert positions.sinusoidal_positions(50_001, 4)[50_000, 0] == pytest.approx(math.sin(50_000), abs=1e-6)


@pytest.mark.parametrize(("length", "model_dim"), [(3, 5), (-1, 4), (3, -2)])
def test_sinusoidal_sizes_that_do_not_fit_are_told(length, model_dim):
    with pytest.raises(ValueError, match=f"got model_dim {model_dim}, length {length}"):
        positions.sinusoidal_positions(length, model_dim)


# -- rotary ------------------------------------------------------------------------------------------------------------


def test_interleaved_rotation_is_multiplication_by_a_complex_number():
    x = vectors(2, 3, 7, 10)
    angle = torch.arange(5, 12, dtype=torch.float64).unsqueeze(-1) * positions.rotary_frequencies(10)
    expected = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.exp(1j * angle))
    turned = positions.apply_rotary(x, positions.rotary_frequencies(10), layout="interleaved", offset=5)
    torch.testing.assert_close(turned, expected.flatten(-2))


def test_the_two_layouts_differ_by_an_order_of_the_dimensions_only():
    x, frequencies = vectors(7, 10), positions.rotary_frequencies(10)
    order = torch.cat((torch.arange(0, 10, 2), torch.arange(1, 10, 2)))
    interleaved = positions.apply_rotary(x, frequencies, layout="interleaved")[:, order]
    torch.testing.assert_close(positions.apply_rotary(x[:, order], frequencies, layout="half"), interleaved)
    assert not torch.allclose(positions.apply_rotary(x, frequencies, layout="half")[:, order], interleaved)


@given(shift=st.integers(0, 100_000), layout=st.sampled_from(["half", "interleaved"]))
@settings(max_examples=30, deadline=None)
def test_scores_depend_only_on_how_far_apart_positions_are(shift, layout):
    query, key, frequencies = vectors(5, 8), vectors(6, 8, seed=1), positions.rotary_frequencies(8)

    def scores(offset: int) -> torch.Tensor:
        turned = (positions.apply_rotary(x, frequencies, layout=layout, offset=offset) for x in (query, key))
        return attention_scores(*turned)

    torch.testing.assert_close(scores(shift), scores(0), rtol=0, atol=1e-9)


def test_an_offset_continues_where_a_cache_ended():
    x, frequencies = vectors(2, 9, 6), positions.rotary_frequencies(6)
    whole = positions.apply_rotary(x, frequencies)
    torch.testing.assert_close(positions.apply_rotary(x[:, 4:], frequencies, offset=4), whole[:, 4:])


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_dimensions_beyond_the_rotary_ones_pass_through(layout):
    x, frequencies = vectors(3, 7, 10), positions.rotary_frequencies(6)
    turned = positions.apply_rotary(x, frequencies, layout=layout)
    assert torch.equal(turned[..., 6:], x[..., 6:])
    torch.testing.assert_close(
        turned[..., :6], positions.apply_rotary(x[..., :6], frequencies, layout=layout)
    )


def test_bfloat16_turns_by_exact_angles():
    x = torch.ones(1, 2, dtype=torch.bfloat16)
    turned = positions.apply_rotary(x, positions.rotary_frequencies(2), offset=257)
    assert turned.dtype == torch.bfloat16
    expected = math.cos(257) - math.sin(257)
    assert turned[0, 0].item() == pytest.approx(expected, rel=4e-3)


def test_a_rotation_that_does_not_fit_is_told(as_a_user):
    with pytest.raises(ValueError, match="at least 6 dimensions to rotate, got 4"):
        positions.apply_rotary(vectors(3, 4), positions.rotary_frequencies(6))
    with pytest.raises(ValueError, match="'half' or 'interleaved', got 'both'"):
        positions.apply_rotary(vectors(3, 4), positions.rotary_frequencies(4), layout="both")
    with pytest.raises(ValueError, match="even number of dimensions to rotate, at least 2, got 5"):
        positions.rotary_frequencies(5)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("rotary_dim", [8, 4])
def test_rotation_equals_the_onnx_operator(layout, rotary_dim):
    onnx = pytest.importorskip("onnx", reason="the ONNX reference evaluator")
    reference = pytest.importorskip("onnx.reference")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    x = vectors(2, 3, 7, 8).float()
    angle = torch.arange(7, dtype=torch.float64).unsqueeze(-1) * positions.rotary_frequencies(rotary_dim)
    node = helper.make_node(
        "RotaryEmbedding",
        ["x", "cos", "sin", "at"],
        ["y"],
        interleaved=int(layout == "interleaved"),
        rotary_embedding_dim=rotary_dim,
    )
    inputs = [helper.make_tensor_value_info(name, floats, None) for name in ("x", "cos", "sin")]
    inputs.append(helper.make_tensor_value_info("at", onnx.TensorProto.INT64, None))
    output = helper.make_tensor_value_info("y", floats, None)
    model = helper.make_model(
        helper.make_graph([node], "rotary", inputs, [output]), opset_imports=[helper.make_opsetid("", 23)]
    )
    feeds = {
        "x": x,
        "cos": angle.cos().float(),
        "sin": angle.sin().float(),
        "at": torch.arange(7).expand(2, 7),
    }
    (expected,) = reference.ReferenceEvaluator(model).run(None, {k: v.numpy() for k, v in feeds.items()})
    ours = positions.apply_rotary(x, positions.rotary_frequencies(rotary_dim), layout=layout)
    torch.testing.assert_close(ours, torch.from_numpy(expected), rtol=0, atol=1e-6)


# -- frequencies -------------------------------------------------------------------------------------------------------


def theirs(rope: dict, *, length: int | None = None, head_dim: int = 64):
    """Ask transformers for inverse frequencies and the attention factor."""
    rope_utils = pytest.importorskip("transformers.modeling_rope_utils")
    config = pytest.importorskip("transformers").LlamaConfig(
        hidden_size=2 * head_dim,
        num_attention_heads=2,
        head_dim=head_dim,
        max_position_embeddings=rope.get("original_max_position_embeddings", 512),
        rope_parameters={"rope_theta": 10_000.0, **rope},
    )
    compute = rope_utils.ROPE_INIT_FUNCTIONS[rope["rope_type"]]
    return compute(config, "cpu", seq_len=length)


def close_to(frequencies: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(frequencies.float(), expected, rtol=1e-5, atol=1e-8)


def test_linear_scaling_equals_that_of_transformers():
    expected, _ = theirs({"rope_type": "linear", "factor": 3.0})
    close_to(positions.linear_frequencies(positions.rotary_frequencies(64), 3.0), expected)


def test_llama3_scaling_equals_that_of_transformers():
    rope = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    }
    ours = positions.llama3_frequencies(positions.rotary_frequencies(64), 8.0, original_length=512)
    close_to(ours, theirs(rope)[0])


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize("head_dim", [64, 12])
def test_yarn_scaling_equals_that_of_transformers(truncate, head_dim):
    rope = {
        "rope_type": "yarn",
        "factor": 5.0,
        "original_max_position_embeddings": 700,
        "truncate": truncate,
    }
    expected, factor = theirs(rope, head_dim=head_dim)
    ours = positions.yarn_frequencies(
        positions.rotary_frequencies(head_dim), 5.0, original_length=700, truncate=truncate
    )
    close_to(ours, expected)
    assert positions.yarn_attention_factor(5.0) == pytest.approx(factor)


@pytest.mark.parametrize("length", [100, 512, 513, 4000])
def test_dynamic_scaling_equals_that_of_transformers(length):
    expected, _ = theirs({"rope_type": "dynamic", "factor": 2.0}, length=length)
    close_to(positions.dynamic_frequencies(64, 2.0, length=length, original_length=512), expected)


def test_a_factor_of_one_scales_nothing():
    frequencies = positions.rotary_frequencies(16)
    for scaled in (
        positions.linear_frequencies(frequencies, 1.0),
        positions.llama3_frequencies(frequencies, 1.0, original_length=64),
        positions.yarn_frequencies(frequencies, 1.0, original_length=64),
        positions.dynamic_frequencies(16, 1.0, length=64, original_length=64),
    ):
        torch.testing.assert_close(scaled, frequencies)
    assert positions.yarn_attention_factor(1.0) == 1.0


def test_a_factor_that_shortens_is_told():
    with pytest.raises(ValueError, match=r"at least 1, got 0\.5"):
        positions.linear_frequencies(positions.rotary_frequencies(4), 0.5)
    with pytest.raises(ValueError, match="at least 4 dimensions to rotate, got 2"):
        positions.dynamic_frequencies(2, 2.0, length=8, original_length=4)


def test_the_attention_factor_multiplies_scores_by_its_square():
    query, key, frequencies = vectors(3, 8), vectors(4, 8, seed=1), positions.rotary_frequencies(8)
    plain = attention_scores(*(positions.apply_rotary(x, frequencies) for x in (query, key)))
    longer = attention_scores(
        *(positions.apply_rotary(x, frequencies, attention_factor=1.5) for x in (query, key))
    )
    torch.testing.assert_close(longer, plain * 2.25)


@pytest.mark.parametrize("scaled", [False, True])
def test_rotation_equals_that_of_llama(scaled):
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    config = pytest.importorskip("transformers").LlamaConfig(
        hidden_size=24,
        num_attention_heads=2,
        head_dim=12,
        rope_parameters={
            "rope_theta": 10_000.0,
            "rope_type": "yarn" if scaled else "default",
            "factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    )
    query, key = vectors(1, 2, 9, 12).float(), vectors(1, 2, 9, 12, seed=1).float()
    cos, sin = llama.LlamaRotaryEmbedding(config)(query, torch.arange(3, 12).unsqueeze(0))
    expected = llama.apply_rotary_pos_emb(query, key, cos, sin)
    frequencies, factor = positions.rotary_frequencies(12), 1.0
    if scaled:
        frequencies = positions.yarn_frequencies(frequencies, 4.0, original_length=32)
        factor = positions.yarn_attention_factor(4.0)
    ours = tuple(
        positions.apply_rotary(x, frequencies, offset=3, attention_factor=factor) for x in (query, key)
    )
    torch.testing.assert_close(ours, expected, rtol=0, atol=5e-6)


# -- ALiBi -------------------------------------------------------------------------------------------------------------


def test_slopes_for_a_power_of_two_fall_geometrically():
    torch.testing.assert_close(positions.alibi_slopes(4), torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256]))


def test_slopes_for_other_numbers_of_heads_interleave_those_of_the_next_power():
    four, eight = 2.0 ** -torch.arange(2.0, 9.0, 2.0), 2.0 ** -torch.arange(1.0, 9.0)
    torch.testing.assert_close(positions.alibi_slopes(6), torch.cat((four, eight[[0, 2]])))
    sixteen = 2.0 ** (-torch.arange(1.0, 17.0) / 2)
    torch.testing.assert_close(positions.alibi_slopes(12), torch.cat((eight, sixteen[[0, 2, 4, 6]])))


@pytest.mark.parametrize("heads", range(1, 21))
def test_slopes_equal_those_of_bloom(heads):
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    alibi = bloom.build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), heads, torch.float32)
    torch.testing.assert_close(positions.alibi_slopes(heads), alibi[:, 0, 1], rtol=0, atol=1e-7)


@pytest.mark.parametrize("heads", [6, 8])
def test_causal_weights_equal_those_of_blooms_key_only_bias(heads):
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    query, key, value = (vectors(1, heads, 11, 4, seed=seed) for seed in range(3))
    causal = create_causal_mask(11)
    alibi = bloom.build_alibi_tensor(torch.ones(1, 11, dtype=torch.long), heads, torch.float64)
    expected = scaled_dot_product_attention(query, key, value, causal, bias=alibi)
    ours = scaled_dot_product_attention(
        query, key, value, causal, bias=positions.alibi_bias(heads, 11).double()
    )
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-6)


def test_the_bias_of_a_cached_row_is_the_last_row():
    whole = positions.alibi_bias(6, 9)
    assert torch.equal(positions.alibi_bias(6, 2, 9), whole[:, -2:])


def test_the_bias_falls_with_distance_on_both_sides():
    bias = positions.alibi_bias(1, 5)[0]
    torch.testing.assert_close(bias, bias.T)
    torch.testing.assert_close(bias[2], torch.tensor([2.0, 1.0, 0.0, 1.0, 2.0]) * -(2.0**-8))


def test_alibi_without_heads_or_with_a_negative_length_is_told():
    with pytest.raises(ValueError, match="at least one head, got 0"):
        positions.alibi_slopes(0)
    with pytest.raises(ValueError, match="got query -1 and key 3"):
        positions.alibi_bias(2, -1, 3)
