"""A picture is made ready by the model's own processor; its tokens are patches, the weights the model's own."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from commandline import Cli
from PIL import Image
from transformers import AutoImageProcessor, AutoModel

from attncli.errors import ReadError
from attncli.models.loading import load
from attncli.models.picture_file import read_photo
from attncli.models.vision import look_at
from attncli.observers.selection import parse_selection
from attncli.observers.weights import FullWeights

SPECIALS = {
    "vit": ["[CLS]"],
    "deit": ["[CLS]", "[DIST]"],
    "beit": ["[CLS]"],
    "dinov2_with_registers": ["[CLS]", "[REG1]", "[REG2]"],
}
ALL = parse_selection("all", "layer"), parse_selection("all", "head")


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("photo") / "photo.png"
    dice = np.random.default_rng(5)
    Image.fromarray(dice.integers(0, 256, (50, 70, 3), dtype=np.uint8)).save(path)
    return path


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.write_vit(tmp_path_factory.mktemp("vit")))


@pytest.mark.parametrize("family", SPECIALS)
def test_the_weights_are_those_of_the_models_eager_attention(
    tmp_path: Path, photo: Path, family: str
) -> None:
    folder = tiny.write_vit(tmp_path, family)
    source, picture = look_at(load(str(folder), tokenizer=False), photo)
    tokens = source.axes("encoder")[0]
    assert [token.text for token in tokens if token.special] == SPECIALS[family]
    assert [token.text for token in tokens[len(SPECIALS[family]) :]][5:8] == ["r0c5", "r1c0", "r1c1"]
    assert (picture.rows, picture.columns) == (4, 6)
    kept = FullWeights("encoder", *ALL, 2, len(tokens), len(tokens), None, None)
    source.run([kept])
    pixels = AutoImageProcessor.from_pretrained(folder)(read_photo(photo).image, return_tensors="pt")
    model = AutoModel.from_pretrained(folder, attn_implementation="eager")
    with torch.inference_mode():
        expected = torch.cat(model(**pixels, output_attentions=True).attentions)
    found = np.stack([matrix.values for matrix in kept.matrices()]).reshape(expected.shape)
    np.testing.assert_allclose(found, expected.numpy(), atol=2e-6)


def test_the_picture_is_shown_as_the_processor_cropped_it(tmp_path: Path, vit: str) -> None:
    smooth = np.linspace(0, 255, 48 * 32 * 3).reshape(32, 48, 3).astype(np.uint8)
    Image.fromarray(smooth).save(tmp_path / "right.png")  # of the very size that the model takes
    _, picture = look_at(load(vit, tokenizer=False), tmp_path / "right.png")
    np.testing.assert_allclose(picture.pixels, smooth, atol=1)


def test_a_camera_that_was_held_upright_gives_an_upright_picture(tmp_path: Path) -> None:
    image, turned = Image.new("RGB", (20, 10)), Image.Exif()
    turned[0x0112] = 6
    image.save(tmp_path / "a.jpg", exif=turned)
    assert read_photo(tmp_path / "a.jpg").image.size == (10, 20)


def cut(photo: Path) -> bytes:
    return photo.read_bytes()[:900]


def bomb() -> bytes:
    stream = io.BytesIO()
    Image.new("1", (20_000, 10_000)).save(stream, "png")
    return stream.getvalue()


def test_what_is_no_picture_is_told_in_one_line(tmp_path: Path, photo: Path) -> None:
    bad = {"not a readable picture": b"hello", "cannot be read": cut(photo), "too many pixels": bomb()}
    for words, content in bad.items():
        path = tmp_path / "bad.png"
        path.write_bytes(content)
        with pytest.raises(ReadError, match=words):
            read_photo(path)


def test_tokens_that_are_no_grid_of_patches_are_numbered(cli: Cli, tmp_path: Path, photo: Path) -> None:
    folder = tiny.write_vit(tmp_path, "vit_mae", image_size=48)  # it hides most patches from itself
    tiny.image_processor("ViT")(size={"height": 48, "width": 48}).save_pretrained(folder)
    found = cli("show", str(photo), "-m", str(folder), "--layer", "0", "--head", "0", "--json").json
    assert [token["text"] for token in found["key_tokens"]] == [str(place) for place in range(10)]
    assert any("they are numbered" in note for note in found["notes"])
    assert found == cli("show", str(photo), "-m", str(folder), "--layer", "0", "--head", "0", "--json").json


def test_layers_with_fewer_and_fewer_tokens_are_shown_one_size_at_a_time(
    cli: Cli, tmp_path: Path, photo: Path
) -> None:
    from transformers import SegformerConfig, SegformerModel

    config = SegformerConfig(depths=[1, 1], hidden_sizes=[8, 16], num_attention_heads=[1, 2], num_encoder_blocks=2,
                             decoder_hidden_size=16)  # fmt: skip
    SegformerModel(config).save_pretrained(tmp_path)
    tiny.image_processor("ViT")(size={"height": 64, "width": 64}).save_pretrained(tmp_path)
    refused = cli("show", str(photo), "-m", str(tmp_path))
    assert (
        refused.code == 1 and "several sizes: 0: 256×4, 1: 64×4" in refused.err and "--layer" in refused.err
    )
    found = cli("show", str(photo), "-m", str(tmp_path), "--layer", "1", "--json").json
    assert [one["shape"] for one in found["attention"]] == [[64, 4]] * 2


def test_the_terminal_shows_the_patches_that_the_class_token_attends_to(
    cli: Cli, vit: str, photo: Path
) -> None:
    one = cli("show", str(photo), "-m", vit, "--layer", "1", "--head", "2")
    assert one.code == 0 and "layer 1 head 2 · [CLS] attends to patches" in one.out
    assert [line[:3] for line in one.out.splitlines() if line.startswith("r")] == ["r0 ", "r1 ", "r2 ", "r3 "]
    many = cli("show", str(photo), "-m", vit, "--query", "r2c3").out
    assert "6 heads shown · r2c3 attends to patches · 4×6 each" in many and "H0" in many


def test_data_have_all_queries_unless_one_is_asked_for(cli: Cli, vit: str, photo: Path) -> None:
    whole = cli("show", str(photo), "-m", vit, "--layer", "0", "--head", "1", "--json").json
    assert len(whole["query_tokens"]) == len(whole["key_tokens"]) == 25
    for query, place in (("cls", 0), ("r2c3", 16)):
        row = cli(
            "show", str(photo), "-m", vit, "--layer", "0", "--head", "1", "--query", query, "--json"
        ).json
        assert [token["position"] for token in row["query_tokens"]] == [place]
        found, expected = (one["attention"][0]["weights"] for one in (row, whole))
        np.testing.assert_allclose(found[0], expected[place], rtol=1e-6)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_picture_is_written_with_the_same_bytes_each_time(
    cli: Cli, vit: str, photo: Path, tmp_path: Path, ending: str
) -> None:
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        assert cli("show", str(photo), "-m", vit, "--layer", "1", "-q", "-o", str(path)).code == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_picture_and_data_can_be_written_together(cli: Cli, vit: str, photo: Path, tmp_path: Path) -> None:
    alone, both = tmp_path / "a.png", tmp_path / "b.png"
    cli("show", str(photo), "-m", vit, "-q", "-o", str(alone))
    cli("show", str(photo), "-m", vit, "-q", "-o", str(both), "-o", str(tmp_path / "b.npz"))
    first, second = (np.asarray(Image.open(path)).astype(int) for path in (alone, both))
    assert np.abs(first - second).max() <= 2
    with np.load(tmp_path / "b.npz") as run:
        assert run["encoder.1"].shape == (3, 25, 25)


def test_without_a_class_token_the_patch_in_the_middle_attends(cli: Cli, photo: Path, tmp_path: Path) -> None:
    folder = tiny.write_vit(tmp_path, "siglip_vision_model", image_size=48)
    tiny.image_processor("ViT")(size={"height": 48, "width": 48}).save_pretrained(folder)
    result = cli("show", str(photo), "-m", str(folder), "--layer", "1", "--head", "1")
    assert "r3c3 attends to patches" in result.out and "special" not in result.out


def test_several_queries_make_a_matrix_as_of_a_text(cli: Cli, vit: str, photo: Path) -> None:
    out = cli("show", str(photo), "-m", vit, "--layer", "1", "--head", "0", "--query", "r0c0,r3c5").out
    assert "rows attend to columns" in out


def test_what_does_not_go_with_a_picture_is_refused(cli: Cli, vit: str, photo: Path, tmp_path: Path) -> None:
    for option in (["--words"], ["--pair", "a"], ["--generate", "3"], ["--chat"], ["--stride", "8"]):
        result = cli("show", str(photo), "-m", vit, *option)
        assert (result.code, result.out) == (
            2,
            "",
        ) and f"{option[0]} cannot be used with a picture" in result.err
    missing = cli("show", str(tmp_path / "gone.png"), "-m", vit)
    assert missing.code == 1 and "gone.png: no such file" in missing.err


@pytest.mark.parametrize("command", ["show", "explain", "heads", "mask", "find"])
def test_a_text_for_a_model_of_pictures_is_told(cli: Cli, vit: str, command: str) -> None:
    more = ["--from", "a", "--to", "cat"] if command == "find" else []
    found = cli(command, "a cat", "-m", vit, *more)
    assert found.code == 2 and "this model takes a picture, not a text" in found.err
    assert f"try: attncli show photo.jpg --model {vit}" in found.err and found.err.count("\n") == 2


def test_a_model_must_say_how_it_wants_pictures(cli: Cli, photo: Path, tmp_path: Path) -> None:
    folder = tiny.write_vit(tmp_path / "vit")
    (folder / "preprocessor_config.json").unlink()
    result = cli("show", str(photo), "-m", str(folder))
    assert result.code == 4 and "no readable preprocessor_config.json" in result.err


@pytest.mark.parametrize(
    "command", [("show",), ("heads",), ("mask",), ("explain",), ("find", "--from", "a", "--to", "b")]
)
def test_a_picture_is_no_text_for_a_model_that_reads(
    cli: Cli, tiny_bert: str, photo: Path, command: tuple[str, ...]
) -> None:
    result = cli(*command, str(photo), "-m", tiny_bert)
    assert (result.code, result.out) == (2, "") and "is a picture" in result.err
    assert "a model of pictures" in result.err


def test_a_picture_is_no_text_for_models_of_our_own_either(cli: Cli, photo: Path) -> None:
    for command in ("tokens", "compare"):
        assert "is a picture, where a text is read" in cli(command, str(photo)).err
    for arguments in (
        (str(photo),),
        (str(photo), "-m", "scratch"),
        ("--file", str(photo)),
        ("a", "--pair", str(photo)),
    ):
        result = cli("show", *arguments)
        assert result.code == 2 and "-m NAME shows it, with a model of pictures" in result.err


@pytest.mark.parametrize("content", [b"", b"I am a text", b"\x89PNG\r\n\x1a\n"])
def test_a_file_that_is_no_picture_is_told(cli: Cli, vit: str, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "p.png").write_bytes(content)
    result = cli("show", str(tmp_path / "p.png"), "-m", vit)
    assert result.code == 1 and "p.png: not a readable picture" in result.err


def test_a_folder_or_a_pipe_with_a_pictures_name_is_told(cli: Cli, vit: str, tmp_path: Path) -> None:
    (tmp_path / "d.png").mkdir()
    os.mkfifo(tmp_path / "f.png")
    for name in ("d.png", "f.png"):
        result = cli("show", str(tmp_path / name), "-m", vit)
        assert result.code == 1 and f"{name}: not a regular file" in result.err
