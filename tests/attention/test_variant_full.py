"""Full attention against PyTorch's kernels and the ONNX operator."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attncli.attention.variants import full


def tensors(queries: int, keys: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(queries)
    shapes = ((6, queries, 8), (3, keys, 8), (3, keys, 5))
    query, key, value = (torch.randn(2, *shape, dtype=dtype, generator=generator) for shape in shapes)
    return query, key, value


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (7, 7), (100, 100), (5, 37), (37, 5)])
def test_it_equals_sdpa_with_grouped_heads_and_padding(queries: int, keys: int) -> None:
    query, key, value = tensors(queries, keys)
    real = torch.arange(keys) < torch.tensor([[keys], [keys - keys // 3]])
    expected = sdpa(query, key, value, attn_mask=real[:, None, None], enable_gqa=True)
    torch.testing.assert_close(full.attend(query, key, value, key_mask=real), expected, atol=1e-12, rtol=0.0)


@pytest.mark.parametrize(("queries", "keys"), [(7, 7), (3, 5), (1, 9)])
def test_the_last_query_belongs_to_the_last_key(queries: int, keys: int) -> None:
    query, key, value = tensors(queries, keys)
    bottom_right = torch.ones(queries, keys).tril(keys - queries).bool()
    expected = sdpa(query, key, value, attn_mask=bottom_right, enable_gqa=True)
    torch.testing.assert_close(full.attend(query, key, value, causal=True), expected, atol=1e-12, rtol=0.0)


def test_rows_before_the_first_key_give_zeros() -> None:
    output = full.attend(*tensors(5, 3), causal=True)
    assert torch.equal(output[:, :, :2], torch.zeros_like(output[:, :, :2])) and bool(output[:, :, 2:].all())


def test_neighbouring_heads_share_a_key_head() -> None:
    query, key, value = tensors(4, 4)
    output = full.attend(query, key, value)
    for head in range(6):
        alone = full.attend(query[:, head : head + 1], key[:, head // 2, None], value[:, head // 2, None])
        torch.testing.assert_close(output[:, head : head + 1], alone, atol=1e-14, rtol=0.0)


def test_two_keys_worked_out_by_hand() -> None:
    query, key = torch.tensor([[[[2.0, 0.0, 0.0, 0.0]]]]), torch.eye(2, 4)[None, None]
    value = torch.tensor([[[[1.0], [0.0]]]])
    # Scores 2/√4 = 1 and 0, so the first key's weight is e/(e + 1) = 0.73106.
    assert full.attend(query, key, value).item() == pytest.approx(0.731059, abs=1e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("evaluator", ["reference", "onnxruntime"])
def test_it_equals_the_onnx_operator(causal: bool, evaluator: str) -> None:
    """ONNX defines attention with a plain evaluator; ONNX Runtime's kernel is written in C++, for float32."""
    onnx = pytest.importorskip("onnx", reason="the ONNX operator")
    exact = evaluator == "reference"
    helper, number = onnx.helper, onnx.TensorProto.DOUBLE if exact else onnx.TensorProto.FLOAT
    node = helper.make_node(
        "Attention", ["q", "k", "v"], ["o", "", "", "w"], is_causal=int(causal), qk_matmul_output_mode=3
    )
    axes = [None] * 4
    named = [helper.make_tensor_value_info(name, number, axes) for name in ("q", "k", "v", "o", "w")]
    graph = helper.make_graph([node], "attention", named[:3], named[3:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    query, key, value = tensors(9, 9)
    if exact:
        run = pytest.importorskip("onnx.reference", reason="the ONNX operator").ReferenceEvaluator(model).run
    else:
        query, key, value = query.float(), key.float(), value.float()
        runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime's kernel")
        run = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run
    output, weights = run(None, {"q": query.numpy(), "k": key.numpy(), "v": value.numpy()})
    within = {"atol": 1e-12 if exact else 1e-6, "rtol": 0.0}
    torch.testing.assert_close(
        full.attend(query, key, value, causal=causal), torch.from_numpy(output), **within
    )
    torch.testing.assert_close(full.weights(query, key, causal=causal), torch.from_numpy(weights), **within)
