from pathlib import Path

import pytest
import tiny
from commandline import Cli
from PIL import Image

from attncli.errors import ModelError
from attncli.models.loading import load

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}


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
    with pytest.raises(ModelError, match="it is a CLIPForCaptions, which the installed transformers does not have"):
        load(str(tmp_path))
