"""Each step of a row against the model's own modules, run again by hand."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from torch import Tensor, nn

from attncli.errors import CaptureError, UsageError
from attncli.explain.forward import explain
from attncli.explain.row import Explained
from attncli.models.pretrained import PretrainedSource, open_model
from attncli.models.scratch import ScratchSource
from attncli.models.trained import TrainedSource

TEXT = "the animal was too tired ."
REAL = "The animal didn't cross the street because it was too tired."


def near(ours: np.ndarray | None, theirs: Tensor) -> None:
    """Hold numbers to 1e-5 of the largest of them."""
    assert ours is not None
    wanted = theirs.detach().numpy()
    np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-5 * max(1.0, float(np.abs(wanted).max())))


def layer_inputs(source: PretrainedSource, module: nn.Module) -> dict[str, Tensor]:
    """Run the model's eager attention and keep what an attention module was given."""
    kept: dict[str, Tensor] = {}

    def hook(module: nn.Module, args: tuple, inputs: dict) -> None:
        kept.update({name: value for name, value in inputs.items() if value is not None})
        kept.update({"hidden_states": args[0]} if args else {})

    handle = module.register_forward_pre_hook(hook, with_kwargs=True)
    source.loaded.model.set_attn_implementation("eager")
    with torch.inference_mode():
        source.loaded.model(**source.prepared.inputs)
    handle.remove()
    return kept


def check_arithmetic(row: Explained) -> None:
    """What must hold of any row, whatever the model."""
    np.testing.assert_allclose(row.products.sum(axis=1), row.dots, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(row.weights.sum(), 1.0, atol=1e-5)
    np.testing.assert_allclose(row.scaled, row.dots * row.scale, rtol=1e-5, atol=1e-5)
    assert row.output_error is not None and row.output_error < 1e-5 * max(1, np.abs(row.output).max())
    if row.allowed is not None:
        assert not row.weights[~row.allowed].any()


def check_llama(folder: Path, text: str, layer: int, head: int, position: int) -> None:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    source = open_model(str(folder), text)
    row, _ = explain(source, "decoder", layer, head, position)
    check_arithmetic(row)
    block = source.network.layers[layer]
    attention, d = block.self_attn, block.self_attn.head_dim
    given = layer_inputs(source, attention)
    x, group = given["hidden_states"], attention.num_key_value_groups
    with torch.inference_mode():
        query, key, value = (
            layer(x).unflatten(-1, (-1, d)).transpose(1, 2)
            for layer in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        near(row.query_before, query[0, head, position])
        near(row.key_before, key[0, head // group])
        query, key = apply_rotary_pos_emb(query, key, *given["position_embeddings"])
        dots = key[0, head // group] @ query[0, head, position]
        weights = (dots / d**0.5)[: position + 1].softmax(-1)
        output = weights @ value[0, head // group, : position + 1]
        alone = torch.zeros(attention.o_proj.in_features)
        alone[head * d : (head + 1) * d] = output
        near(row.input, x[0, position])
        near(row.query, query[0, head, position])
        near(row.key, key[0, head // group])
        near(row.value, value[0, head // group])
        near(row.dots, dots)
        near(row.weights[: position + 1], weights)
        near(row.output, output)
        near(row.added.vector, attention.o_proj(alone))
    assert row.kv_head == head // group and not row.weights[position + 1 :].any()


def check_bert(folder: Path, text: str, layer: int, head: int, position: int) -> None:
    source = open_model(str(folder), text)
    row, _ = explain(source, "encoder", layer, head, position)
    check_arithmetic(row)
    block = source.network.encoder.layer[layer].attention
    x = layer_inputs(source, block.self)["hidden_states"]
    d = block.self.attention_head_size
    with torch.inference_mode():
        query, key, value = (
            made(x).unflatten(-1, (-1, d))[0, :, head]
            for made in (block.self.query, block.self.key, block.self.value)
        )
        dots = key @ query[position]
        weights = (dots / d**0.5).softmax(-1)
        every = block.self(x)[0]
        alone = torch.zeros_like(every[0, 0])
        part = slice(head * d, (head + 1) * d)
        alone[part] = weights @ value
        near(row.input, x[0, position])
        near(row.query, query[position])
        near(row.key, key)
        near(row.value, value)
        near(row.dots, dots)
        near(row.weights, weights)
        near(row.output, every[0, position, part])
        near(row.added.vector, block.output.dense(alone) - block.output.dense.bias)
        near(row.added.all_heads, block.output.dense(every)[0, position])
        near(row.added.stream, x[0, position])
    assert (row.query_before, row.key_before) == (None, None)


def test_every_step_of_a_bert_is_what_its_own_modules_compute(tiny_bert: str) -> None:
    check_bert(Path(tiny_bert), TEXT, 1, 2, 5)


def test_every_step_of_a_llama_with_shared_keys_is_what_its_own_modules_compute(tiny_llama: str) -> None:
    check_llama(Path(tiny_llama), TEXT, 2, 3, 4)


@pytest.mark.models
@pytest.mark.parametrize(("layer", "head", "position"), [(0, 0, 0), (4, 7, 10), (5, 11, 15)])
def test_minilm_is_explained_to_the_fifth_digit(
    model_folder: Callable[[str], Path], layer: int, head: int, position: int
) -> None:
    check_bert(model_folder("all-minilm-l6-v2"), REAL, layer, head, position)


@pytest.mark.models
@pytest.mark.parametrize(("layer", "head", "position"), [(0, 0, 1), (20, 3, 8), (29, 8, 12)])
def test_smollm2_is_explained_to_the_fifth_digit(
    model_folder: Callable[[str], Path], layer: int, head: int, position: int
) -> None:
    check_llama(model_folder("smollm2-135m"), REAL, layer, head, position)


def test_cross_attention_has_an_input_for_its_keys(tiny_marian: str) -> None:
    source = open_model(tiny_marian, "the animal was", "it was")
    row, _ = explain(source, "cross", 1, 1, 1)
    check_arithmetic(row)
    assert row.key_input is not None and row.key_input.shape == (3, 24)
    attention = source.network.decoder.layers[1].encoder_attn
    near(row.key, attention.k_proj(torch.from_numpy(row.key_input))[:, 12:])
    near(row.query, attention.q_proj(torch.from_numpy(row.input))[12:])


@pytest.mark.parametrize("kind", ["encoder", "cross", "decoder"])
def test_the_scratch_models_heads_together_add_what_their_layer_adds(kind: str) -> None:
    source = ScratchSource("a b c d e", "x y z", layers=2, heads=4, d_model=24)
    rows = [explain(source, kind, 1, head, 2)[0] for head in range(4)]
    for row in rows:
        check_arithmetic(row)
    together = sum(row.added.vector for row in rows)
    np.testing.assert_allclose(together, rows[0].added.all_heads, atol=1e-5)
    assert rows[0].added.stream is not None and rows[0].input is not None


def test_a_shipped_model_is_explained_with_its_own_projections() -> None:
    source = TrainedSource("tiny-translator", "the fourth of july, seventeen seventy-six")
    row, run = explain(source, "cross", 1, 2, 3)
    check_arithmetic(row)
    attention = source.network.decoder[1].cross
    near(row.query, attention.query(torch.from_numpy(row.input))[32:48])
    near(row.value, attention.value(torch.from_numpy(row.key_input))[:, 32:48])
    alone = torch.zeros(64)
    alone[32:48] = torch.from_numpy(row.output)
    near(row.added.vector, attention.output(alone) - attention.output.bias)
    assert row.added.stream is not None and run.source.kind == "trained"


def test_the_residual_stream_of_the_scratch_model_is_what_its_layer_is_given() -> None:
    source = ScratchSource("a b c", heads=2)
    row, _ = explain(source, "encoder", 0, 1, 2)
    near(row.added.stream, source.embed(source.source_tokens)[0, 2])


def test_the_other_scale_is_the_row_without_scaling() -> None:
    row, _ = explain(ScratchSource("a b c d", heads=2), "encoder", 0, 0, 3)
    weights = torch.from_numpy(row.dots.astype(np.float64)).softmax(-1)
    assert row.other.scale == 1.0 and row.own.scale == pytest.approx(32**-0.5)
    assert row.other.variance == pytest.approx(float(row.dots.astype(np.float64).var()), rel=1e-4)
    jacobian = torch.diag(weights) - torch.outer(weights, weights)
    assert row.other.gradient == pytest.approx(float(jacobian.norm()), rel=1e-5)
    assert row.other.largest == pytest.approx(float(weights.max()), rel=1e-5)


def test_a_family_without_queries_to_be_seen_is_refused_in_one_line(tmp_path: Path) -> None:
    source = open_model(str(tiny.write_bloom(tmp_path)), TEXT)
    with pytest.raises(CaptureError, match="its queries and keys are not to be seen"):
        explain(source, "decoder", 0, 0, 1)


@pytest.mark.parametrize(
    ("layer", "head", "message"),
    [(0, 9, "--head 9: out of range"), (7, 0, "--layer 7: layer 7 has no encoder attention")],
)
def test_what_is_not_there_is_said(tiny_bert: str, layer: int, head: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        explain(open_model(tiny_bert, TEXT), "encoder", layer, head, 1)


def test_a_sink_a_cap_and_a_bias_are_steps_of_their_own(tmp_path: Path) -> None:
    from attncli.attention.operation import AttentionOperation
    from attncli.attention.row_steps import row_steps

    draw = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(1, 2, n, 6, generator=draw) for n in (3, 5, 5))
    bias, sink = torch.randn(1, 2, 3, 5, generator=draw), torch.tensor([0.5, -0.25])
    made = AttentionOperation(q, k, v, 0.5, bias=bias, softcap=2.0, sink=sink)
    steps = row_steps(made, 1, 2)
    scores = 2 * torch.tanh(0.5 * k[0, 1] @ q[0, 1, 2] / 2) + bias[0, 1, 2]
    torch.testing.assert_close(steps.scores, scores)
    torch.testing.assert_close(steps.weights, torch.cat([scores, sink[1:]]).softmax(-1)[:-1])
    torch.testing.assert_close(steps.weights, made.weights((1,), slice(2, 3))[0, 0, 0])
