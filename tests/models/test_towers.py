from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from commandline import Cli
from PIL import Image

from attncli.errors import ModelError
from attncli.models.loading import load
from attncli.models.pretrained import open_model
from attncli.models.vision import look_at
from attncli.observers.selection import parse_selection
from attncli.observers.weights import FullWeights

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
ALL = parse_selection("all", "layer"), parse_selection("all", "head")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole CLIP: 3 × 2 patches, and texts of up to 16 tokens."""
    from transformers import CLIPConfig, CLIPModel, ViTImageProcessorPil

    folder = tiny.write_bert(tmp_path_factory.mktemp("clip"))
    text = SIZES | {"vocab_size": len(tiny.WORDS), "max_position_embeddings": 16, "eos_token_id": 3}
    vision = SIZES | {"image_size": 24, "patch_size": 8, "num_hidden_layers": 1}
    CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)).save_pretrained(folder)
    ViTImageProcessorPil(size={"height": 24, "width": 24}).save_pretrained(folder)
    return folder


def test_a_text_goes_to_the_text_tower(cli: Cli, clip: Path) -> None:
    found = cli("show", "the animal", "-m", str(clip), "--json").json
    assert [(one["layer"], one["shape"]) for one in found["attention"][::3]] == [(0, [4, 4]), (1, [4, 4])]
    assert cli("heads", "the animal was tired", "-m", str(clip)).code == 0


def test_a_picture_goes_to_the_vision_tower(cli: Cli, clip: Path, tmp_path: Path) -> None:
    Image.new("RGB", (24, 24), (200, 30, 90)).save(tmp_path / "p.png")
    found = cli("show", str(tmp_path / "p.png"), "-m", str(clip), "--json").json
    assert found["source"]["family"] == "clip_vision_model" and found["attention"][0]["shape"] == [10, 10]


def test_a_tower_has_the_weights_of_the_whole(clip: Path) -> None:
    from safetensors.torch import load_file

    stored = load_file(clip / "model.safetensors")
    tower = load(str(clip)).model
    for name, tensor in tower.state_dict().items():
        assert any(key.endswith(name) and tensor.equal(value) for key, value in stored.items()), name


def test_a_checkpoint_with_more_than_towers_is_refused(clip: Path, tmp_path: Path) -> None:
    for file in clip.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace("CLIPModel", "CLIPForCaptions"))
    with pytest.raises(
        ModelError, match="it is a CLIPForCaptions, which the installed transformers does not have"
    ):
        load(str(tmp_path))


@pytest.mark.parametrize("family", ["CLIP", "Siglip"])
def test_each_towers_weights_equal_eager(family: str, tmp_path: Path) -> None:
    import transformers

    text = SIZES | {"vocab_size": len(tiny.WORDS), "max_position_embeddings": 16, "eos_token_id": 3}
    vision = SIZES | {"image_size": 24, "patch_size": 8}
    config = getattr(transformers, f"{family}Config")(text_config=text, vision_config=vision)
    whole = getattr(transformers, f"{family}Model")
    folder = tiny.write_model(tmp_path, whole(config))
    tiny.image_processor("ViT")(size={"height": 24, "width": 24}).save_pretrained(folder)
    Image.effect_noise((24, 24), 90).convert("RGB").save(tmp_path / "p.png")
    sources = [open_model(str(folder), "the animal was tired"),
               look_at(load(str(folder), tokenizer=False), tmp_path / "p.png")[0]]  # fmt: skip
    eager = whole.from_pretrained(folder, attn_implementation="eager").eval()
    for source, part in zip(sources, (eager.text_model, eager.vision_model), strict=True):
        (kind,) = source.kinds
        kept = FullWeights(kind, *ALL, 2, *map(len, source.axes(kind)), None, None)
        source.run([kept])
        theirs = torch.cat(part(**source.prepared.inputs, output_attentions=True).attentions).flatten(0, 1)
        found = np.stack([one.values for one in kept.matrices()])
        np.testing.assert_allclose(found, theirs.detach().numpy(), atol=1e-5)
