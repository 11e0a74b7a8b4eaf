"""Capture is held against what transformers' own eager attention returns, on tiny random models of many kinds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attncli.capture.attention_interface import Call, _flash_mask
from attncli.errors import CaptureError
from attncli.models.loading import Loaded, LoadOptions
from attncli.models.prepared_text import from_inputs
from attncli.models.pretrained import PretrainedSource
from attncli.observers.masks import MaskOnly
from attncli.observers.selection import parse_selection
from attncli.observers.weights import FullWeights
from attncli.record import Kind

N = 11
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
GROUPED = SMALL | {
    "num_key_value_heads": 2,
    "vocab_size": 50,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": SMALL | {"vocab_size": 50},
    "roberta": SMALL | {"vocab_size": 50},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "vocab_size": 50},
    "albert": SMALL | {"vocab_size": 50, "embedding_size": 16, "num_hidden_layers": 3},
    "modernbert": SMALL | {"vocab_size": 50, "local_attention": 6, "pad_token_id": 0, "num_hidden_layers": 4},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50, "n_positions": 64},
    "gpt_neox": SMALL | {"vocab_size": 50},
    "opt": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 48, "vocab_size": 50,
            "word_embed_proj_dim": 32},
    "llama": GROUPED,
    "qwen3": GROUPED | {"head_dim": 8},
    "mistral": GROUPED | {"sliding_window": 4},
    "gemma2": GROUPED | {"sliding_window": 4, "head_dim": 8, "attn_logit_softcapping": 2.0},
    "gpt_oss": GROUPED | {"sliding_window": 4, "head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1},
}  # fmt: skip
TWO_STACKS: dict[str, dict[str, Any]] = {
    "bart": {"d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
             "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "vocab_size": 50},
    "marian": {"d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
               "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "vocab_size": 50,
               "pad_token_id": 0, "decoder_start_token_id": 0},
    "t5": {"d_model": 32, "d_kv": 8, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4, "d_ff": 48,
           "vocab_size": 50},
}  # fmt: skip
FIELDS = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}


def tiny(family: str, settings: dict[str, Any], **more: Any) -> Any:
    from transformers import AutoConfig, AutoModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return AutoModel.from_config(AutoConfig.for_model(family, **settings), **more).eval()


def ids(length: int, batch: int = 1) -> torch.Tensor:
    return torch.randint(4, 50, (batch, length), generator=torch.Generator().manual_seed(5))


def source(
    model: Any, inputs: dict[str, torch.Tensor], lengths: dict[Kind, tuple[int, int]]
) -> PretrainedSource:
    loaded = Loaded("tiny", model, None, LoadOptions(), None)
    return PretrainedSource(loaded, from_inputs(loaded, inputs, lengths))


def captured(made: PretrainedSource, kind: Kind) -> tuple[FullWeights, Any]:
    queries, keys = made.axes(kind)
    every = parse_selection("all", "layer"), parse_selection("all", "head")
    kept = FullWeights(kind, *every, made.depth(kind), len(queries), len(keys))
    return kept, made.run([kept])


def eager(model: Any, inputs: dict[str, torch.Tensor]) -> Any:
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        outputs = model(**inputs, output_attentions=True)
    model.set_attn_implementation(before)
    return outputs


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_equal_eager_in_every_layer_and_head(family: str) -> None:
    model, inputs = tiny(family, FAMILIES[family]), {"input_ids": ids(N)}
    kind: Kind = "encoder" if "bert" in family else "decoder"
    kept, run = captured(source(model, inputs, {kind: (N, N)}), kind)
    reference = eager(model, inputs).attentions
    assert [m.layer for m in kept.matrices()] == [layer for layer in range(len(reference)) for _ in range(4)]
    for matrix in kept.matrices():
        np.testing.assert_allclose(matrix.values, reference[matrix.layer][0, matrix.head].numpy(), atol=1e-5)
    assert all(report.output_error is not None and report.output_error < 1e-5 for report in run.reports)
    assert {layer.kind for layer in run.attention_layers} == {kind}


@pytest.mark.parametrize("family", TWO_STACKS)
@pytest.mark.parametrize("kind", FIELDS)
def test_encoder_decoder_and_cross_attention_equal_eager(family: str, kind: Kind) -> None:
    model, inputs = tiny(family, TWO_STACKS[family]), {"input_ids": ids(N), "decoder_input_ids": ids(6)}
    made = source(model, inputs, {"encoder": (N, N), "decoder": (6, 6), "cross": (6, N)})
    kept, _ = captured(made, kind)
    reference = getattr(eager(model, inputs), FIELDS[kind])
    assert len(kept.matrices()) == 4 * len(reference)
    for matrix in kept.matrices():
        np.testing.assert_allclose(matrix.values, reference[matrix.layer][0, matrix.head].numpy(), atol=1e-5)


def test_the_observed_models_output_is_bit_for_bit_what_it_is_unobserved() -> None:
    model, inputs = tiny("llama", FAMILIES["llama"]), {"input_ids": ids(N)}
    with torch.inference_mode():
        before = model(**inputs).last_hidden_state
    made = source(model, inputs, {"decoder": (N, N)})
    seen: list[torch.Tensor] = []
    forward = made._forward
    made._forward = lambda *a, **k: seen.append(forward(*a, **k).last_hidden_state)  # type: ignore[method-assign]
    captured(made, "decoder")
    assert torch.equal(seen[0], before)


def test_the_attention_interface_is_left_as_it_was() -> None:
    from transformers import AttentionInterface

    before = (
        AttentionInterface.get_interface,
        AttentionInterface.__getitem__,
        "__getitem__" in vars(AttentionInterface),
    )
    model = tiny("bert", FAMILIES["bert"])
    made = source(model, {"input_ids": ids(N) + 1000}, {"encoder": (N, N)})
    with pytest.raises(CaptureError, match="bert does not run on this input"):
        captured(made, "encoder")
    after = (
        AttentionInterface.get_interface,
        AttentionInterface.__getitem__,
        "__getitem__" in vars(AttentionInterface),
    )
    assert after == before


@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_keys_get_nothing_on_either_side(side: str) -> None:
    model, mask = tiny("llama", FAMILIES["llama"]), torch.ones(1, N, dtype=torch.long)
    mask[0, : 3 if side == "left" else None] = 0
    if side == "right":
        mask[0] = 1
        mask[0, -3:] = 0
    inputs = {"input_ids": ids(N), "attention_mask": mask}
    kept, _ = captured(source(model, inputs, {"decoder": (N, N)}), "decoder")
    real = mask[0].bool().numpy()
    reference = eager(model, inputs).attentions
    for matrix in kept.matrices():
        assert (matrix.values[:, ~real] == 0).all()
        theirs = reference[matrix.layer][0, matrix.head].numpy()
        np.testing.assert_allclose(matrix.values[real], theirs[real], atol=1e-5)


def test_layers_of_a_shared_module_are_counted() -> None:
    model = tiny("albert", FAMILIES["albert"])
    _, run = captured(source(model, {"input_ids": ids(N)}, {"encoder": (N, N)}), "encoder")
    assert [layer.index for layer in run.attention_layers] == [0, 1, 2]


def test_layers_of_a_hybrid_model_keep_their_true_index_and_the_others_are_named() -> None:
    settings = GROUPED | {"num_hidden_layers": 4, "head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 2,
                          "linear_key_head_dim": 8, "linear_value_head_dim": 8, "num_experts": 2,
                          "num_experts_per_tok": 1, "moe_intermediate_size": 16,
                          "shared_expert_intermediate_size": 16}  # fmt: skip
    model = tiny("qwen3_next", settings)
    kept, run = captured(source(model, {"input_ids": ids(N)}, {"decoder": (N, N)}), "decoder")
    assert {matrix.layer for matrix in kept.matrices()} == {3}
    assert run.notes == ("decoder layers without softmax attention: 0-2 (linear attention)",)


def test_a_family_beside_the_interface_falls_back_to_eager_and_says_so() -> None:
    model = tiny("bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50})
    inputs = {"input_ids": ids(N)}
    kept, run = captured(source(model, inputs, {"decoder": (N, N)}), "decoder")
    reference = eager(model, inputs).attentions
    for matrix in kept.matrices():
        np.testing.assert_array_equal(matrix.values, reference[matrix.layer][0, matrix.head].numpy())
    assert run.source.capture == "eager" and "bloom computes attention in a way of its own" in run.notes[0]
    np.testing.assert_array_equal(kept.matrices()[0].allowed, np.tri(N, dtype=bool))


def test_a_model_without_softmax_attention_ends_with_one_clear_error() -> None:
    model = tiny("mamba", {"hidden_size": 16, "num_hidden_layers": 2, "vocab_size": 50, "state_size": 4})
    with pytest.raises(
        CaptureError, match=r"mamba: no softmax over the tokens was found in its layers \(MambaBlock\)"
    ):
        captured(source(model, {"input_ids": ids(N)}, {"decoder": (N, N)}), "decoder")


def test_the_mask_of_a_window_is_seen_and_layers_are_told_apart() -> None:
    model = tiny("gemma2", FAMILIES["gemma2"])
    kept = MaskOnly("decoder", parse_selection("all", "layer"), 2, N, N)
    source(model, {"input_ids": ids(N)}, {"decoder": (N, N)}).run([kept])
    (window, full) = kept.groups()
    assert (window[0], full[0]) == ((0,), (1,))
    assert window[1].sum(axis=1).tolist() == [1, 2, 3] + [4] * 8
    assert full[1].sum(axis=1).tolist() == list(range(1, N + 1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_precision_model_is_recomputed_in_float32_and_checked(dtype: torch.dtype) -> None:
    model = tiny("llama", FAMILIES["llama"]).to(dtype)
    kept, run = captured(source(model, {"input_ids": ids(N)}, {"decoder": (N, N)}), "decoder")
    assert kept.matrices()[0].values.dtype == np.float32
    np.testing.assert_allclose(kept.matrices()[0].values.sum(axis=1), 1.0, atol=1e-6)
    assert max(report.output_error or 0 for report in run.reports) > 0


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "text", "pair"),
    [
        ("all-minilm-l6-v2", "The animal didn't cross the street because it was too tired.", None),
        ("smollm2-135m", "The animal didn't cross the street because it was too tired.", None),
        ("annalog-marian", "CC(=O)Nc1ccc(O)cc1", "CC(=O)Nc1ccc(O)cc1"),
    ],
)
@pytest.mark.parametrize(("dtype", "within"), [("float64", 1e-6), ("float32", 2e-5)])
def test_real_models_equal_eager(
    model_folder: Callable[[str], Path], name: str, text: str, pair: str | None, dtype: str, within: float
) -> None:
    """In float32 a model's two kernels differ by 1e-5 after some layers, and SmolLM2 takes all softmax in it."""
    from attncli.models.loading import LoadOptions
    from attncli.models.pretrained import open_model

    made = open_model(str(model_folder(name)), text, pair, options=LoadOptions(dtype=dtype))
    outputs = eager(made.loaded.model, dict(made.prepared.inputs))
    for kind in made.kinds:
        kept, _ = captured(made, kind)
        reference = getattr(outputs, FIELDS[kind]) if pair else outputs.attentions
        for matrix in kept.matrices():
            np.testing.assert_allclose(
                matrix.values, reference[matrix.layer][0, matrix.head].numpy(), atol=within
            )


@pytest.mark.models
@pytest.mark.parametrize("kind", FIELDS)
def test_whisper_equals_eager_on_real_audio_features(model_folder: Callable[[str], Path], kind: Kind) -> None:
    from transformers import AutoFeatureExtractor

    from attncli.models.loading import load

    folder = str(model_folder("whisper-tiny-en"))
    loaded = load(folder, tokenizer=False)
    seconds = np.arange(16_000 * 2) / 16_000
    sweep = np.sin(2 * np.pi * (200 + 300 * seconds) * seconds) * np.hanning(len(seconds))
    features = AutoFeatureExtractor.from_pretrained(folder)(sweep, sampling_rate=16_000, return_tensors="pt")
    inputs = {
        "input_features": features["input_features"],
        "decoder_input_ids": torch.tensor([[50257, 50362, 383]]),
    }
    prepared = from_inputs(loaded, inputs, {"encoder": (1500, 1500), "decoder": (3, 3), "cross": (3, 1500)})
    made = PretrainedSource(loaded, prepared)
    rows, keys = made.axes(kind)
    chosen = parse_selection("1,-1", "layer"), parse_selection("0,5", "head")
    kept = FullWeights(kind, *chosen, made.depth(kind), len(rows), len(keys))
    made.run([kept])
    reference = getattr(eager(loaded.model, inputs), FIELDS[kind])
    for matrix in kept.matrices():
        np.testing.assert_allclose(matrix.values, reference[matrix.layer][0, matrix.head].numpy(), atol=1e-5)


@pytest.mark.parametrize(("queries", "window"), [(5, 2), (5, 1), (2, 3)])
def test_a_window_of_a_flash_call_is_so_many_keys_the_query_included(queries: int, window: int) -> None:
    query, key = torch.zeros(1, 1, queries, 2), torch.zeros(1, 1, 5, 2)
    asked = {"sliding_window": window, "is_causal": True}
    call = Call("flash_attention_2", torch.nn.Module(), query, key, key, None, asked, None, lambda: None)
    mask, bias, offset = _flash_mask(call)
    seen = mask[0, 0] & torch.ones(queries, 5, dtype=torch.bool).tril(offset)
    assert bias is None and offset == 5 - queries
    assert seen.sum(-1).tolist() == [min(window, offset + row + 1) for row in range(queries)]
