"""Soft-cap, bias and sink: where each belongs, against the code of the models that use them."""

from __future__ import annotations

import types

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attncli.attention.core import attention_scores, attention_weights, scaled_dot_product_attention
from attncli.attention.masks.causal import create_causal_mask

HEADS, KV_HEADS, HEAD_DIM = 6, 2, 4


def tensors(query_len: int = 9, key_len: int = 9) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = ((HEADS, query_len), (KV_HEADS, key_len), (KV_HEADS, key_len))
    return [torch.randn(2, *size, HEAD_DIM, generator=generator, dtype=torch.float64) for size in sizes]


def grouped(key: torch.Tensor) -> torch.Tensor:
    return key.repeat_interleave(HEADS // KV_HEADS, dim=1)


def additive(mask: torch.Tensor) -> torch.Tensor:
    return torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -torch.inf)


@pytest.fixture
def window() -> torch.Tensor:
    """Give a causal window of four keys."""
    return create_causal_mask(9) & ~create_causal_mask(9).tril(-4)


def test_soft_capped_attention_equals_gemma2(window):
    gemma2 = pytest.importorskip("transformers.models.gemma2.modeling_gemma2")
    query, key, value = tensors()
    module = types.SimpleNamespace(num_key_value_groups=3, head_dim=HEAD_DIM, training=False)
    expected = gemma2.eager_attention_forward(
        module, query, key, value, additive(window), scaling=0.7, softcap=1.5
    )
    output, weights = scaled_dot_product_attention(
        query, grouped(key), grouped(value), window, scale=0.7, softcap=1.5
    )
    torch.testing.assert_close(weights, expected[1], rtol=0, atol=1e-6)
    torch.testing.assert_close(output.transpose(1, 2), expected[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 40.0])
def test_attention_with_sinks_equals_gpt_oss(window, offset):
    gpt_oss = pytest.importorskip("transformers.models.gpt_oss.modeling_gpt_oss")
    query, key, value = tensors()
    sinks = torch.randn(HEADS, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + offset
    module = types.SimpleNamespace(num_key_value_groups=3, sinks=sinks, training=False)
    expected = gpt_oss.eager_attention_forward(module, query, key, value, additive(window), scaling=0.7)
    output, weights = scaled_dot_product_attention(
        query, grouped(key), grouped(value), window, scale=0.7, sink=sinks.reshape(-1, 1, 1)
    )
    torch.testing.assert_close(weights, expected[1], rtol=0, atol=1e-12)
    torch.testing.assert_close(output.transpose(1, 2), expected[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("softcap", [0.0, 1.5])
def test_output_and_weights_equal_those_of_the_onnx_operator(softcap):
    onnx = pytest.importorskip("onnx", reason="the ONNX reference evaluator")
    reference = pytest.importorskip("onnx.reference")
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    query, key, value = tensors(5, 9)
    mask = torch.rand(2, 1, 5, 9, generator=torch.Generator().manual_seed(2)) < 0.6
    mask[0, 0, 3] = False
    node = helper.make_node(
        "Attention",
        ["q", "k", "v", "mask"],
        ["output", "", "", "weights"],
        softcap=softcap,
        scale=0.25,
        qk_matmul_output_mode=3,
    )
    inputs = [helper.make_tensor_value_info(name, double, None) for name in ("q", "k", "v")]
    inputs.append(helper.make_tensor_value_info("mask", onnx.TensorProto.BOOL, None))
    outputs = [helper.make_tensor_value_info(name, double, None) for name in ("output", "weights")]
    graph = helper.make_graph([node], "attention", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    feeds = {
        name: x.numpy() for name, x in zip(("q", "k", "v", "mask"), (query, key, value, mask), strict=True)
    }
    expected = reference.ReferenceEvaluator(model).run(None, feeds)
    ours = scaled_dot_product_attention(
        query, grouped(key), grouped(value), mask, scale=0.25, softcap=softcap or None
    )
    for mine, theirs in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, torch.from_numpy(theirs), rtol=0, atol=1e-10)


def test_the_cap_comes_after_the_scale_and_before_the_bias():
    query, key = torch.tensor([[3.0]]), torch.tensor([[2.0]])
    scores = attention_scores(query, key, scale=0.5, softcap=2.0, bias=torch.tensor([[7.0]]))
    # 3 · 2 · 0.5 = 3, capped to 2·tanh(1.5), and the bias on top.
    assert scores.item() == pytest.approx(2 * 0.9051483 + 7.0)


def test_a_huge_cap_changes_nothing_and_scores_stay_below_a_small_one():
    query, key, _ = tensors()
    plain = attention_scores(query, grouped(key))
    torch.testing.assert_close(attention_scores(query, grouped(key), softcap=1e6), plain, rtol=0, atol=1e-9)
    assert attention_scores(query * 100, grouped(key), softcap=0.5).abs().max() <= 0.5


def test_a_capped_masked_key_gets_no_weight_at_all():
    query, key, value = tensors()
    mask = create_causal_mask(9)
    _, weights = scaled_dot_product_attention(query, grouped(key), grouped(value), mask, softcap=0.1)
    assert not bool(weights.masked_fill(mask, 0.0).any())


def test_a_sink_is_one_more_key_with_a_value_of_zero():
    query, key, value = tensors()
    sink = torch.randn(HEADS, 1, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    bias = torch.cat((torch.zeros(HEADS, 9, 9).double(), sink.expand(-1, 9, -1)), dim=-1)
    with_zero = [
        torch.cat((grouped(x), torch.zeros(2, HEADS, 1, HEAD_DIM).double()), dim=2) for x in (key, value)
    ]
    expected = sdpa(query, *with_zero, attn_mask=bias)
    output, _ = scaled_dot_product_attention(query, grouped(key), grouped(value), sink=sink)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


def test_a_sink_scales_full_attention_by_a_sigmoid_of_its_log_sum():
    query, key, value = tensors()
    sink = torch.tensor(0.7).double()
    scores = attention_scores(query, grouped(key))
    share = torch.sigmoid(scores.logsumexp(-1, keepdim=True) - sink)
    output, _ = scaled_dot_product_attention(query, grouped(key), grouped(value), sink=sink.reshape(1, 1))
    expected = share * sdpa(query, grouped(key), grouped(value))
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


def test_weights_and_sink_share_what_one_can_work_out_by_hand():
    scores = torch.tensor([[0.0, 0.0]])
    torch.testing.assert_close(attention_weights(scores, sink=torch.zeros(1, 1)), torch.full((1, 2), 1 / 3))
    twice = torch.full((1, 1), 2.0).log()
    torch.testing.assert_close(attention_weights(scores, sink=twice), torch.full((1, 2), 1 / 4))


def test_a_sink_far_above_the_scores_does_not_overflow():
    scores = torch.tensor([[1.0, 2.0]], requires_grad=True)
    sink = torch.full((1, 1), 200.0, requires_grad=True)
    weights = attention_weights(scores, sink=sink)
    assert weights.sum() < 1e-6
    weights.sum().backward()
    assert bool(scores.grad.isfinite().all())
    assert bool(sink.grad.isfinite().all())


def test_a_sink_of_minus_infinity_is_none():
    query, key, value = tensors()
    sink = torch.full((1, 1), -torch.inf, dtype=torch.float64)
    with_sink = scaled_dot_product_attention(query, grouped(key), grouped(value), sink=sink)
    torch.testing.assert_close(with_sink, scaled_dot_product_attention(query, grouped(key), grouped(value)))


def test_a_row_without_keys_gives_everything_to_the_sink():
    query, key, value = (x.requires_grad_() for x in tensors())
    sink = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    mask = torch.ones(9, 9, dtype=torch.bool)
    mask[2] = False
    output, weights = scaled_dot_product_attention(query, grouped(key), grouped(value), mask, sink=sink)
    assert not bool(weights[:, :, 2].any())
    output.sum().backward()
    assert all(bool(x.grad.isfinite().all()) for x in (query, key, value, sink))


def test_the_gradient_of_a_sink_is_that_of_a_key_of_zeros():
    query, key, value = tensors()
    sink = torch.randn(HEADS, 1, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours, theirs = sink.clone().requires_grad_(), sink.clone().requires_grad_()
    scaled_dot_product_attention(query, grouped(key), grouped(value), sink=ours)[0].square().sum().backward()
    bias = torch.cat((torch.zeros(HEADS, 9, 9).double(), theirs.expand(-1, 9, -1)), dim=-1)
    with_zero = [
        torch.cat((grouped(x), torch.zeros(2, HEADS, 1, HEAD_DIM).double()), dim=2) for x in (key, value)
    ]
    sdpa(query, *with_zero, attn_mask=bias).square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-10)
