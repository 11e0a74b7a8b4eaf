"""Position encodings against the paper's formulas, numbers worked out by hand, and transformers' own code."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.attention import positions
from attncli.attention.core import attention_scores


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
