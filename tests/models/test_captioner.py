"""Models that write down what they see: the class that the config names is loaded, and the weights are eager's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from commandline import Cli
from PIL import Image

from attncli.models.captioner import write_of
from attncli.models.loading import load
from attncli.observers.selection import parse_selection
from attncli.observers.weights import FullWeights
from attncli.record import KINDS

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
VOCABULARY = {"vocab_size": len(tiny.WORDS), "pad_token_id": 0, "eos_token_id": 3, "bos_token_id": 2}
SPECIAL = {"decoder_start_token_id": 2, "pad_token_id": 0, "eos_token_id": 3}
ALL = parse_selection("all", "layer"), parse_selection("all", "head")


def blip() -> Any:
    from transformers import BlipConfig, BlipForConditionalGeneration

    text = SIZES | VOCABULARY | {"encoder_hidden_size": 24, "sep_token_id": 3, "max_position_embeddings": 16,
                                 "num_hidden_layers": 3}  # fmt: skip
    vision = SIZES | {"image_size": 24, "patch_size": 8}
    return BlipForConditionalGeneration(BlipConfig(text_config=text, vision_config=vision))


def trocr() -> Any:
    from transformers import TrOCRConfig, VisionEncoderDecoderConfig, VisionEncoderDecoderModel, ViTConfig

    decoder = TrOCRConfig(d_model=24, decoder_layers=3, decoder_attention_heads=3, decoder_ffn_dim=40,
                          max_position_embeddings=32, **VOCABULARY)  # fmt: skip
    encoder = ViTConfig(image_size=24, patch_size=8, **SIZES)
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder, **SPECIAL)
    return VisionEncoderDecoderModel(config=config)


def donut() -> Any:
    from transformers import (
        DonutSwinConfig,
        MBartConfig,
        VisionEncoderDecoderConfig,
        VisionEncoderDecoderModel,
    )

    encoder = DonutSwinConfig(image_size=24, patch_size=2, embed_dim=12, depths=[1, 1, 1], num_heads=[1, 2, 3],
                              window_size=2)  # fmt: skip
    decoder = MBartConfig(d_model=24, decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=40,
                          encoder_layers=2, max_position_embeddings=32, **VOCABULARY)  # fmt: skip
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder, **SPECIAL)
    return VisionEncoderDecoderModel(config=config)


def pix2struct() -> Any:
    from transformers import Pix2StructConfig, Pix2StructForConditionalGeneration

    sizes = {"hidden_size": 24, "d_kv": 8, "d_ff": 40}
    text = sizes | VOCABULARY | {"num_layers": 2, "num_heads": 3, "decoder_start_token_id": 0}
    vision = sizes | {"num_hidden_layers": 2, "num_attention_heads": 3, "patch_size": 8, "seq_len": 32,
                      "patch_embed_hidden_size": 192}  # fmt: skip
    return Pix2StructForConditionalGeneration(
        Pix2StructConfig(text_config=text, vision_config=vision, **SPECIAL)
    )


FAMILIES = {"blip": blip, "trocr": trocr, "donut": donut, "pix2struct": pix2struct}


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("photo") / "photo.png"
    Image.fromarray(np.random.default_rng(5).integers(0, 256, (24, 40, 3), dtype=np.uint8)).save(path)
    return path


def write(folder: Path, family: str) -> Path:
    """Write a tiny model of a family, its weights large enough that attention is not flat."""
    torch.manual_seed(3)
    model = FAMILIES[family]()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn_like(parameter) * parameter[0].numel() ** -0.5)
    tiny.write_model(folder, model)
    if family == "pix2struct":
        processor = tiny.image_processor("Pix2Struct")(patch_size={"height": 8, "width": 8}, max_patches=20)
    else:
        processor = tiny.image_processor("ViT")(size={"height": 24, "width": 24})
    processor.save_pretrained(folder)
    return folder


def eager(family: str, folder: Path, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Run the same weights with transformers' own eager attention."""
    model = type(FAMILIES[family]()).from_pretrained(folder, attn_implementation="eager").eval()
    with torch.inference_mode():
        if family == "blip":
            seen = model.vision_model(inputs["pixel_values"], output_attentions=True)
            read = model.text_decoder(inputs["input_ids"], encoder_hidden_states=seen.last_hidden_state,
                                      output_attentions=True)  # fmt: skip
            return {"encoder": seen.attentions, "decoder": read.attentions, "cross": read.cross_attentions}
        made = model(**inputs, output_attentions=True)
    return {kind: getattr(made, f"{kind}_attentions") for kind in KINDS}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_kind_of_attention_equals_eager(tmp_path: Path, photo: Path, family: str) -> None:
    folder = write(tmp_path, family)
    source, picture = write_of(load(str(folder)), photo, tokens=5)
    assert picture is not None and len(source.axes("cross")[1]) >= picture.rows * picture.columns
    expected = eager(family, folder, source.prepared.inputs)
    for kind in KINDS:
        if family == "donut" and kind == "encoder":
            continue  # attends inside windows
        queries, keys = source.axes(kind)
        kept = FullWeights(kind, *ALL, source.depth(kind), len(queries), len(keys), None, None)
        source.run([kept])
        theirs = torch.cat(expected[kind]).flatten(0, 1).numpy()
        np.testing.assert_allclose(np.stack([one.values for one in kept.matrices()]), theirs, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_it_writes_is_what_its_library_writes(tmp_path: Path, photo: Path, family: str) -> None:
    loaded = load(str(write(tmp_path, family)))
    source, _ = write_of(loaded, photo, tokens=5)
    inputs = {name: source.prepared.inputs[name] for name in ("pixel_values", "flattened_patches", "attention_mask")
              if name in source.prepared.inputs}  # fmt: skip
    ids = loaded.model.generate(**inputs, max_new_tokens=5, do_sample=False)[0].tolist()
    assert [token.id for token in source.axes("cross")[0]] == ids


def test_each_written_word_has_its_map_over_the_picture(cli: Cli, tmp_path: Path, photo: Path) -> None:
    folder = str(write(tmp_path, "trocr"))
    asked = ("show", str(photo), "-m", folder, "--layer", "1", "--head", "0")
    out = cli(*asked, "--pair", "the animal was tired").out
    assert "each row attends to patches · 3×3 each" in out and "1 the" in out and "2 animal" in out
    one = cli(*asked, "--pair", "the animal was tired", "--query", "animal").out
    assert "animal attends to patches" in one
    whole = cli(*asked, "--generate", "3", "--json").json
    assert whole["attention"][0]["shape"] == [4, 10] and whole["attention"][0]["kind"] == "cross"


def test_the_picture_alone_shows_its_encoder(cli: Cli, tmp_path: Path, photo: Path) -> None:
    folder = str(write(tmp_path, "blip"))
    found = cli("show", str(photo), "-m", folder, "--kind", "encoder", "--json").json
    assert {one["kind"] for one in found["attention"]} == {"encoder"} and len(found["attention"]) == 6
    assert not any("written" in note for note in found["notes"])


def test_a_text_alone_is_refused_by_a_model_that_reads_pictures(cli: Cli, tmp_path: Path) -> None:
    result = cli("show", "the animal", "-m", str(write(tmp_path, "blip")))
    assert result.code == 2 and "this model takes a picture, not a text" in result.err


def test_an_encoder_decoder_of_two_models_reads_texts(cli: Cli, tmp_path: Path) -> None:
    from transformers import BertConfig, EncoderDecoderConfig, EncoderDecoderModel

    sizes = SIZES | {"vocab_size": len(tiny.WORDS), "max_position_embeddings": 16}
    decoder = BertConfig(**sizes, is_decoder=True, add_cross_attention=True)
    config = EncoderDecoderConfig.from_encoder_decoder_configs(BertConfig(**sizes), decoder, **SPECIAL)
    tiny.write_model(tmp_path, EncoderDecoderModel(config=config))
    asked = ("show", "the animal was", "-m", str(tmp_path), "--json")
    assert cli(*asked, "--pair", "it did").json["attention"][0]["shape"] == [2, 3]
    written = cli(*asked, "--generate", "3").json
    assert written["attention"][0]["kind"] == "cross" and len(written["query_tokens"]) > 1
