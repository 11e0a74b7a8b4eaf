import json
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
import torch
from commandline import Cli
from safetensors.torch import load_file, save_file
from torch import Tensor

from attncli.errors import ModelError
from attncli.models.loading import LoadOptions, load

Weights = dict[str, Tensor]
QUERY = "layers.0.self_attn.q_proj"


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return tiny.write_llama(tmp_path)


def edit(folder: Path, change: Callable[[Weights], Weights]) -> Path:
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file, metadata={"format": "pt"})
    return folder


def without(folder: Path, *words: str) -> Path:
    return edit(folder, lambda all: {k: v for k, v in all.items() if not any(word in k for word in words)})


def adding(folder: Path, **more: Tensor) -> Path:
    return edit(folder, lambda all: all | {name.replace("__", "."): tensor for name, tensor in more.items()})


def refusal(folder: Path, head: bool = False) -> ModelError:
    with pytest.raises(ModelError) as caught:
        load(str(folder), LoadOptions(head=head), tokenizer=False)
    assert caught.value.exit_code == 4
    return caught.value


def test_a_model_without_its_feed_forward_layers_is_refused(tmp_path: Path) -> None:
    error = refusal(without(tiny.write_bert(tmp_path), "layer.1.intermediate"))
    assert "lacks 2 of the model's weights (encoder.layer.1.intermediate.dense.bias, " in error.message


def test_a_model_without_its_token_embeddings_is_refused(llama: Path) -> None:
    assert "(embed_tokens.weight)" in refusal(without(llama, "embed_tokens")).message


def test_a_model_without_its_positions_is_refused(tmp_path: Path) -> None:
    error = refusal(without(tiny.write_bert(tmp_path), "position_embeddings"))
    assert "(embeddings.position_embeddings.weight)" in error.message


def test_a_picture_model_without_its_positions_is_refused(tmp_path: Path) -> None:
    assert (
        "(embeddings.position_embeddings)"
        in refusal(without(tiny.write_vit(tmp_path), "position_emb")).message
    )


def test_a_sound_model_without_a_convolution_is_refused(tmp_path: Path) -> None:
    assert "(encoder.conv1.weight)" in refusal(without(tiny.write_whisper(tmp_path), "conv1.weight")).message


def test_what_comes_after_the_last_attention_may_be_missing(tmp_path: Path) -> None:
    folder = without(tiny.write_bert(tmp_path), "pooler")
    assert load(str(folder), tokenizer=False).family == "bert"


def test_a_last_norm_is_needed_to_predict_and_not_to_attend(llama: Path) -> None:
    from transformers import LlamaForCausalLM

    LlamaForCausalLM(load(str(llama)).model.config).save_pretrained(llama)
    without(llama, "model.norm")
    assert load(str(llama), tokenizer=False).family == "llama"
    assert "(model.norm.weight)" in refusal(llama, head=True).message


def test_a_missing_head_is_told_as_such(llama: Path) -> None:
    assert "no language-model head, so it cannot generate" in refusal(llama, head=True).message


def test_positions_that_the_model_computes_may_be_missing(tmp_path: Path) -> None:
    from transformers import MarianMTModel

    config = load(str(tiny.write_marian(tmp_path))).model.config
    MarianMTModel(config).save_pretrained(tmp_path)
    assert "model.encoder.embed_positions.weight" not in load_file(tmp_path / "model.safetensors")
    assert load(str(tmp_path), tokenizer=False).family == "marian"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("weight_scale", "quantised"),
        ("lora_A.weight", "merge_and_unload"),
        ("bias", "do not match"),
    ],
)
def test_what_a_projection_does_not_take_is_refused(llama: Path, name: str, hint: str) -> None:
    error = refusal(adding(llama, **{f"{QUERY}.{name}": torch.full((1, 32), 0.5)}))
    assert f"does not take 1 of the checkpoint's weights ({QUERY}.{name})" in error.message
    assert hint in str(error.hint)


def test_a_base_layer_of_an_unmerged_adapter_is_refused_with_the_remedy(llama: Path) -> None:
    edit(
        llama, lambda all: {k.replace("q_proj.weight", "q_proj.base_layer.weight"): v for k, v in all.items()}
    )
    error = refusal(llama)
    assert f"({QUERY}.weight, " in error.message and "merge_and_unload" in str(error.hint)


def test_masks_positions_and_heads_of_old_checkpoints_are_no_obstacle(llama: Path) -> None:
    adding(
        llama,
        layers__0__self_attn__bias=torch.ones(1, 1, 8, 8, dtype=torch.uint8).tril(),
        layers__0__self_attn__masked_bias=torch.tensor(-1e9),
        layers__0__self_attn__inverse=10.0 ** -torch.arange(4),
        layers__0__positions=torch.arange(9)[None],
        layers__9__mlp__weight=torch.ones(3),
        score__weight=torch.ones(2, 32),
    )
    assert load(str(llama), tokenizer=False).family == "llama"


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int32])
def test_whole_numbers_are_no_weights_without_a_method(llama: Path, kind: torch.dtype) -> None:
    edit(llama, lambda all: all | {f"{QUERY}.weight": (all[f"{QUERY}.weight"] * 1000).to(kind)})
    assert f"its weights are quantised ({QUERY}.weight is " in refusal(llama).message


def test_small_floats_without_scales_are_loaded_as_they_are(llama: Path) -> None:
    name = f"{QUERY}.weight"
    edit(llama, lambda all: all | {name: all[name].to(torch.float8_e4m3fn)})
    wanted = load_file(llama / "model.safetensors")[name].float()
    assert torch.equal(load(str(llama), tokenizer=False).model.get_parameter(name), wanted)


def test_a_method_of_quantisation_that_is_not_known_is_named(llama: Path) -> None:
    config = json.loads((llama / "config.json").read_text())
    (llama / "config.json").write_text(
        json.dumps(config | {"quantization_config": {"quant_method": "modelopt"}})
    )
    error = refusal(llama)
    assert "quantised with quant_method modelopt" in error.message and "compressed-tensors" in str(error.hint)


def test_a_checkpoint_with_more_layers_than_its_config_names_is_told(llama: Path, cli: Cli) -> None:
    config = json.loads((llama / "config.json").read_text())
    kept = config["num_hidden_layers"] - 1
    (llama / "config.json").write_text(json.dumps(config | {"num_hidden_layers": kept}))
    result = cli("show", "a b", "-m", str(llama), "--json")
    assert result.code == 0
    assert f"the checkpoint has more layers than config.json names (layers.{kept}, …)" in result.json["notes"]
