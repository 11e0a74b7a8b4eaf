"""Each measure is what transformers' own modules give, computed in the plain way: a vector for each pair of tokens."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from attncli.maps.measured import measured
from attncli.models.loading import LoadOptions, load
from attncli.models.pretrained import PretrainedSource, open_model
from attncli.models.vision import look_at
from attncli.observers.selection import parse_selection
from attncli.observers.weights import FullWeights
from attncli.record import Kind

EXACT = LoadOptions(dtype="float64")
TEXT = "the animal was too tired it did cross"
LAYER = 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    def write(family: str, **changes: Any) -> str:
        from transformers import AutoConfig, AutoModel

        sizes: dict[str, Any] = {
            "vocab_size": len(tiny.WORDS), "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
            "intermediate_size": 48, "max_position_embeddings": 64,
        }  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            model = AutoModel.from_config(AutoConfig.for_model(family, **(sizes | changes)))
            _spread(model)
        return str(tiny.write_model(tmp_path_factory.mktemp(family), model))

    return write


def _spread(model: nn.Module) -> None:
    """Let every weight, gain and bias count."""
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)


def shown(source: PretrainedSource, kind: Kind, name: Any, layer: int = LAYER) -> NDArray[np.float32]:
    made, _ = measured(source, kind, name, raw=True)
    queries, keys = made.axes(kind)
    every, one = parse_selection("all", "head"), parse_selection(str(layer), "layer")
    kept = FullWeights(kind, one, every, made.depth(kind), len(queries), len(keys))
    made.run([kept])
    return np.stack([matrix.values for matrix in kept.matrices()])


class Seen:
    """What some modules were given and gave, in one pass of a model that hands out its attention weights."""

    def __init__(self, source: PretrainedSource, **modules: str) -> None:
        model = source.loaded.model
        model.requires_grad_(False).set_attn_implementation("eager")
        self.given: dict[str, Tensor] = {}
        self.made: dict[str, Tensor] = {}
        handles = [
            model.get_submodule(path).register_forward_hook(self._keep(name), with_kwargs=True)
            for name, path in modules.items()
        ]
        with torch.inference_mode():
            self.output = model(**source.prepared.inputs, output_attentions=True)
        for handle in handles:
            handle.remove()

    def _keep(self, name: str) -> Callable[..., None]:
        def keep(module: nn.Module, args: Any, kwargs: Any, made: Any) -> None:
            given = args[0] if args else kwargs["hidden_states"]
            self.given[name], self.made[name] = given[0], (made[0] if isinstance(made, tuple) else made)[0]

        return keep


def vectors(weights: Tensor, value: Tensor, output: nn.Linear) -> Tensor:
    """Return what each head takes from each key: ``(heads, query, key, model_dim)``."""
    heads = weights.shape[1]
    matrices = output.weight.T.reshape(heads, -1, output.weight.shape[0])
    by_head = value.reshape(len(value), -1, matrices.shape[1]).transpose(0, 1)
    carried = by_head.repeat_interleave(heads // len(by_head), dim=0) @ matrices
    return weights[0, ..., None] * carried[:, None]


def _same(ours: NDArray[np.float32], theirs: Tensor) -> None:
    expected = theirs.detach().numpy()
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6 * float(expected.max()))


def _llama(model: Any) -> dict[str, str]:
    block = f"layers.{LAYER}"
    return {"block": block, "value": f"{block}.self_attn.v_proj", "output": f"{block}.self_attn.o_proj"}


@pytest.mark.parametrize("name", ["value", "norm"])
def test_a_heads_measures_are_lengths_of_its_vectors_where_heads_share_values(
    folder: Callable[..., str], name: str
) -> None:
    source = open_model(folder("llama", num_key_value_heads=2), TEXT, options=EXACT)
    ours = shown(source, "decoder", name)
    seen = Seen(source, **_llama(source.loaded.model))
    output = source.loaded.model.layers[LAYER].self_attn.o_proj
    weights = seen.output.attentions[LAYER]
    if name == "norm":
        _same(ours, vectors(weights, seen.made["value"], output).norm(dim=-1))
    else:
        value = (
            seen.made["value"].view(len(seen.made["value"]), 2, -1).transpose(0, 1).repeat_interleave(2, 0)
        )
        _same(ours, weights[0] * value.norm(dim=-1)[:, None])


def test_a_contribution_has_the_residual_in_it_and_no_norm_where_the_norm_comes_first(
    folder: Callable[..., str],
) -> None:
    source = open_model(folder("llama", num_key_value_heads=2), TEXT, options=EXACT)
    ours = shown(source, "decoder", "contribution")
    seen = Seen(source, **_llama(source.loaded.model))
    output = source.loaded.model.layers[LAYER].self_attn.o_proj
    together = vectors(seen.output.attentions[LAYER], seen.made["value"], output).sum(0)
    together += torch.diag_embed(seen.given["block"].T).permute(1, 2, 0)
    _same(ours[0], together.norm(dim=-1))


def test_a_norm_of_the_layers_output_is_folded_in_by_its_scale(folder: Callable[..., str]) -> None:
    source = open_model(folder("gemma2", num_key_value_heads=2, head_dim=8), TEXT, options=EXACT)
    ours = shown(source, "decoder", "contribution")
    parts = {"norm": f"layers.{LAYER}.post_attention_layernorm"}
    seen = Seen(source, **_llama(source.loaded.model), **parts)
    layer = source.loaded.model.layers[LAYER]
    together = vectors(seen.output.attentions[LAYER], seen.made["value"], layer.self_attn.o_proj).sum(0)
    norm = layer.post_attention_layernorm
    scale = (seen.given["norm"].square().mean(-1) + norm.eps).sqrt()
    together = together * (1 + norm.weight) / scale[:, None, None]
    together += torch.diag_embed(seen.given["block"].T).permute(1, 2, 0)
    _same(ours[0], together.norm(dim=-1))
    _same(shown(source, "decoder", "norm"), vectors(
        seen.output.attentions[LAYER], seen.made["value"], layer.self_attn.o_proj).norm(dim=-1))  # fmt: skip


def test_one_number_that_the_layers_output_is_multiplied_by_is_folded_in(folder: Callable[..., str]) -> None:
    source = open_model(
        folder("granite", num_key_value_heads=2, residual_multiplier=0.3), TEXT, options=EXACT
    )
    ours = shown(source, "decoder", "contribution")
    seen = Seen(source, **_llama(source.loaded.model))
    output = source.loaded.model.layers[LAYER].self_attn.o_proj
    together = 0.3 * vectors(seen.output.attentions[LAYER], seen.made["value"], output).sum(0)
    together += torch.diag_embed(seen.given["block"].T).permute(1, 2, 0)
    _same(ours[0], together.norm(dim=-1))


def test_parallel_blocks_leave_the_feed_forward_network_out(folder: Callable[..., str]) -> None:
    source = open_model(folder("gpt_neox"), TEXT, options=EXACT)
    ours = shown(source, "decoder", "contribution")
    block = f"layers.{LAYER}"
    seen = Seen(source, block=block, all=f"{block}.attention.query_key_value")
    value = seen.made["all"].view(len(TEXT.split()), 4, 3, 8)[:, :, 2].flatten(1)
    output = source.loaded.model.layers[LAYER].attention.dense
    together = vectors(seen.output.attentions[LAYER], value, output).sum(0)
    together += torch.diag_embed(seen.given["block"].T).permute(1, 2, 0)
    _same(ours[0], together.norm(dim=-1))


def _of_bert(source: PretrainedSource) -> None:
    ours = shown(source, "encoder", "contribution")
    block = f"encoder.layer.{LAYER}"
    seen = Seen(source, block=block, value=f"{block}.attention.self.value",
                norm=f"{block}.attention.output.LayerNorm")  # fmt: skip
    output = source.loaded.model.get_submodule(f"{block}.attention.output")
    weights = seen.output.attentions[LAYER]
    each = vectors(weights, seen.made["value"], output.dense)
    _same(shown(source, "encoder", "norm"), each.norm(dim=-1))
    together = each.sum(0) + torch.diag_embed(seen.given["block"].T).permute(1, 2, 0)
    scale = (seen.given["norm"].var(-1, correction=0) + output.LayerNorm.eps).sqrt()
    centred = together - together.mean(-1, keepdim=True)
    _same(ours[0], (centred * output.LayerNorm.weight / scale[:, None, None]).norm(dim=-1))


def test_a_norm_after_the_sum_is_folded_in_by_its_scale(tmp_path: Path) -> None:
    _of_bert(open_model(str(tiny.write_bert(tmp_path)), TEXT, options=EXACT))


def test_minilms_measures_are_those_of_its_modules(model_folder: Callable[[str], Path]) -> None:
    _of_bert(open_model(str(model_folder("all-minilm-l6-v2")), TEXT, options=EXACT))


def test_smollms_norms_are_those_of_its_modules(model_folder: Callable[[str], Path]) -> None:
    source = open_model(str(model_folder("smollm2-135m")), TEXT, options=EXACT)
    ours = shown(source, "decoder", "norm")
    seen = Seen(source, **_llama(source.loaded.model))
    output = source.loaded.model.layers[LAYER].self_attn.o_proj
    _same(ours, vectors(seen.output.attentions[LAYER], seen.made["value"], output).norm(dim=-1))


def test_cross_attention_has_the_norm_of_what_it_reads_from_the_encoder(tiny_marian: str) -> None:
    source = open_model(tiny_marian, TEXT, "it was", options=EXACT)
    ours = shown(source, "cross", "norm")
    block = f"decoder.layers.{LAYER}.encoder_attn"
    seen = Seen(source, value=f"{block}.v_proj")
    output = source.loaded.model.get_submodule(f"{block}.out_proj")
    _same(ours, vectors(seen.output.cross_attentions[LAYER], seen.made["value"], output).norm(dim=-1))


@pytest.mark.parametrize("family", ["dinov2", "vit"])
def test_patches_have_their_contributions_with_a_gain_on_the_layers_output(
    tmp_path: Path, family: str
) -> None:
    tiny.write_vit(tmp_path / "vit", family)
    Image.fromarray(np.random.default_rng(5).integers(0, 255, (40, 60, 3), np.uint8)).save(tmp_path / "a.png")
    loaded = load(str(tmp_path / "vit"), EXACT, tokenizer=False)
    _spread(loaded.model)
    source, _ = look_at(loaded, tmp_path / "a.png")
    ours = shown(source, "encoder", "contribution")
    names = {
        name.rsplit(".", 1)[-1]: name for name, _ in loaded.model.named_modules() if f".{LAYER}." in name
    }
    value = next(names[name] for name in ("value", "v_proj") if name in names)
    block = value[: value.index(f".{LAYER}.")] + f".{LAYER}"
    seen = Seen(source, block=block, value=value)
    path = next(name for name in (f"{block}.attention.output.dense", f"{block}.attention.o_proj",
                f"{block}.attention.out_proj") if name in dict(loaded.model.named_modules()))  # fmt: skip
    output = loaded.model.get_submodule(path)
    together = vectors(seen.output.attentions[LAYER], seen.made["value"], output).sum(0)
    if family == "dinov2":
        together = together * loaded.model.get_submodule(f"{block}.layer_scale1").lambda1
    together += torch.diag_embed(seen.given["block"].T).permute(1, 2, 0)
    _same(ours[0], together.norm(dim=-1))
