"""Pictures in a text: the processor's tokens are the patches that they come from, the weights the model's own."""

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_image_text
import torch
from commandline import Cli
from PIL import Image
from transformers import AutoModel, AutoModelForImageTextToText

from attncli.errors import ModelError, UsageError
from attncli.models.generation import Sampling, write
from attncli.models.image_text import prepare_image_text
from attncli.models.loading import Loaded, LoadOptions, load
from attncli.models.picture_file import Photo
from attncli.models.prepared_text import Prepared
from attncli.models.pretrained import PretrainedSource
from attncli.observers.selection import parse_selection
from attncli.observers.weights import FullWeights

TEXT = "what is on the table ?"
WIDE, HIGH = 96, 72
ALL = parse_selection("all", "layer"), parse_selection("all", "head")
LABELS = {
    "llava": ["img r3c3"],
    "llava_next": ["img global r3c3", "img r5c7", "img r5 end"],
    "llava_onevision": ["img global r3c3", "img r5c7", "img r5 end"],
    "pixtral": ["img r5c7"],
    "mistral3": ["img r2c3"],
    "qwen2_vl": ["img r3c5"],
    "qwen2_5_vl": ["img r3c5"],
    "qwen3_vl": ["img r3c5"],
    "gemma3": ["img r3c3"],
    "paligemma": ["img r3c3"],
    "idefics2": ["img #8"],
    "idefics3": ["img tile9 r1c1", "img global r1c1"],
    "smolvlm": ["img tile9 r1c1", "img global r1c1"],
    "internvl": ["img tile6 r1c1", "img global r1c1"],
}
Write = Callable[..., Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Write:
    made: dict[Any, Path] = {}

    def once(family: str, **how: bool) -> Path:
        needed = tiny_image_text.NEEDS.get(family)
        if needed is not None and find_spec(needed) is None:
            pytest.skip(f"{family} needs {needed}")
        key = (family, *how.items())
        if key not in made:
            made[key] = tiny_image_text.write_image_text(tmp_path_factory.mktemp(family), family, **how)
        return made[key]

    return once


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("photo") / "photo.png"
    noise().image.save(path)
    return path


def noise(size: tuple[int, int] = (HIGH, WIDE)) -> Photo:
    dice = np.random.default_rng(3)
    return Photo("photo.png", Image.fromarray(dice.integers(0, 256, (*size, 3), dtype=np.uint8)))


def labels(prepared: Prepared) -> list[str]:
    return [token.label for token in prepared.queries["decoder"]]


def weights(source: Any) -> Any:
    count = len(source.axes("decoder")[0])
    kept = FullWeights("decoder", *ALL, 2, count, count, None, None)
    source.run([kept])
    return np.stack([matrix.values for matrix in kept.matrices()])


@pytest.mark.parametrize("family", tiny_image_text.FAMILIES)
def test_the_weights_are_those_of_eager_with_the_picture_in_the_input(written: Write, family: str) -> None:
    folder = written(family, template=True)
    loaded = load(str(folder))
    prepared = prepare_image_text(loaded, TEXT, [noise(), noise((60, 30))])
    found = weights(PretrainedSource(loaded, prepared))
    model = AutoModel.from_pretrained(folder, attn_implementation="eager")
    with torch.inference_mode():
        expected = torch.cat(model(**prepared.inputs, use_cache=False, output_attentions=True).attentions)
    np.testing.assert_allclose(found, expected.numpy().reshape(found.shape), atol=2e-6)
    assert set(LABELS[family]) <= set(labels(prepared))
    assert any(label.startswith("img2 ") for label in labels(prepared))


@pytest.mark.parametrize("family", sorted(set(tiny_image_text.FAMILIES) - {"idefics2"}))
def test_a_patch_is_called_by_the_place_that_its_token_comes_from(written: Write, family: str) -> None:
    loaded = load(str(written(family, local=True)))
    dark = Image.new("RGB", (WIDE, HIGH))
    for number, picture in enumerate(prepare_image_text(loaded, TEXT, [Photo("a", dark)]).pictures):
        row, column = 1, picture.columns - 2
        bright = dark.copy()
        bright.paste((255, 255, 255), cell(row, picture.rows, HIGH, column, picture.columns, WIDE))
        before, after = (embedded(loaded, Photo("a", one)) for one in (dark, bright))
        changed = (after - before).norm(dim=1)[list(picture.places)]
        assert int(changed.argmax()) == row * picture.columns + column, (number, picture.name)


def cell(row: int, rows: int, height: int, column: int, columns: int, width: int) -> tuple[int, ...]:
    """The middle of a patch: left, upper, right, lower."""
    high, wide = height / rows, width / columns
    left, upper = round((column + 0.3) * wide), round((row + 0.3) * high)
    return left, upper, left + max(1, round(0.4 * wide)), upper + max(1, round(0.4 * high))


def embedded(loaded: Loaded, photo: Photo) -> torch.Tensor:
    """What the text model is given for each token."""
    seen: list[torch.Tensor] = []
    part = getattr(loaded.model, "language_model", None) or loaded.model.text_model
    hook = part.register_forward_pre_hook(
        lambda *given: seen.append(given[2]["inputs_embeds"][0]), with_kwargs=True
    )
    PretrainedSource(loaded, prepare_image_text(loaded, TEXT, [photo])).output()
    hook.remove()
    return seen[-1]


@pytest.mark.parametrize("family", ["llava", "qwen2_5_vl", "qwen3_vl", "gemma3", "paligemma", "idefics3"])
def test_a_picture_stays_in_sight_while_the_model_writes(written: Write, family: str) -> None:
    folder = written(family, template=True)
    loaded = load(str(folder), LoadOptions(head=True))
    prepared = prepare_image_text(loaded, TEXT, [noise()])
    source = write(loaded, prepared, Sampling(4))
    model = AutoModelForImageTextToText.from_pretrained(folder, attn_implementation="eager")
    wish = {
        "max_new_tokens": 4,
        "do_sample": False,
        "output_attentions": True,
        "return_dict_in_generate": True,
    }
    expected = model.generate(**prepared.inputs, **wish)
    assert expected.sequences[0, len(labels(prepared)) :].tolist() == list(source.written)
    found, row = weights(source), len(labels(prepared))
    for step in expected.attentions[1:]:
        theirs = torch.stack([layer[0] for layer in step]).flatten(0, 1)[:, 0]
        np.testing.assert_allclose(found[:, row, : theirs.shape[-1]], theirs.numpy(), atol=2e-6)
        row += 1
    assert source.pictures == prepared.pictures


def test_the_patch_that_gets_the_weight_is_bright_in_the_map(
    cli: Cli, written: Write, tmp_path: Path
) -> None:
    folder = written("paligemma", local=True)
    point_at(folder, row=1, column=2)
    Image.new("RGB", (320, 320)).save(tmp_path / "dark.png")
    drawn = tmp_path / "map.png"
    given = ("show", TEXT, "--image", str(tmp_path / "dark.png"), "-m", str(folder), "--layer", "0", "--head", "0",
             "--query", "table")  # fmt: skip
    assert cli(*given, "-q", "-o", str(drawn)).code == 0
    row = cli(*given, "--json").json
    best = int(np.argmax(row["attention"][0]["weights"][0]))
    assert row["key_tokens"][best]["label"] == "img r1c2" and row["attention"][0]["on_pictures"] > 0.99
    assert brightest_cell(drawn) == (1, 2)


def point_at(folder: Path, row: int, column: int) -> None:
    """Let layer 0 look at one patch alone: by a mark in its place's embedding, and keys that see only that."""
    model = AutoModelForImageTextToText.from_pretrained(folder)
    inner = model.model
    embeddings = inner.vision_tower.embeddings
    for weight in embeddings.parameters():
        weight.data.zero_()
    embeddings.position_embedding.weight.data[row * 4 + column, 0] = 100.0
    inner.vision_tower.post_layernorm.bias.data.zero_()
    projector = inner.multi_modal_projector.linear
    projector.weight.data.copy_(torch.eye(32))
    projector.bias.data.zero_()
    table = inner.language_model.embed_tokens.weight
    table.data.zero_()
    table.data[:, 1] = 1.0
    attention = inner.language_model.layers[0].self_attn
    for weight in (attention.q_proj.weight, attention.k_proj.weight):
        weight.data.zero_()
    attention.q_proj.weight.data[7, 1] = 30.0  # the slowest pair of the rotation
    attention.k_proj.weight.data[7, 0] = 30.0
    model.save_pretrained(folder)


def brightest_cell(path: Path) -> tuple[int, int]:
    """Row and column of the yellowest of 4 × 4 cells of the square that is drawn at the left."""
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(int)
    dark = pixels.sum(axis=2) < 60  # the picture, seen through no weight
    yellow = (pixels[..., 0] > 180) & (pixels[..., 2] < 120)
    painted = dark | yellow
    painted[:, int(pixels.shape[1] * 0.8) :] = False  # the scale
    rows, columns = np.nonzero(painted.sum(axis=1) > 300)[0], np.nonzero(painted.sum(axis=0) > 300)[0]
    middle = [float(one.mean()) for one in np.nonzero(yellow & painted)]
    edges = ((rows[0], rows[-1] + 1), (columns[0], columns[-1] + 1))
    down, across = (int(4 * (at - low) / (high - low)) for at, (low, high) in zip(middle, edges, strict=True))
    return down, across


@pytest.mark.parametrize(
    ("text", "marks", "message"),
    [
        ("what <image> is <image>", 1, "the text has 2 <image> marks for 1 picture"),
        ("what <image> is", 2, "the text has 1 <image> marks for 2 pictures"),
    ],
)
def test_marks_and_pictures_must_be_as_many(written: Write, text: str, marks: int, message: str) -> None:
    loaded = load(str(written("llava", template=True)))
    with pytest.raises(UsageError, match=message):
        prepare_image_text(loaded, text, [noise()] * marks)


def test_a_text_may_say_where_its_picture_stands(written: Write) -> None:
    loaded = load(str(written("llava", template=True)))
    found = labels(prepare_image_text(loaded, "a cat <image> is", [noise()]))
    assert (found[:2], found[2], found[-1]) == (["a", "cat"], "img r0c0", "is")
    told = labels(prepare_image_text(loaded, "a cat <image> is", [noise()], chat=True))
    assert (told[:5], told[-2:]) == (["user", ":", "a", "cat", "img r0c0"], ["answer", ":"])


def test_without_a_chat_template_the_picture_stands_before_the_text(written: Write) -> None:
    prepared = prepare_image_text(load(str(written("llava"))), TEXT, [noise()])
    assert labels(prepared)[15:18] == ["img r3c3", "what", "is"]
    assert "no chat template: the pictures stand before the text" in prepared.notes


def test_a_folder_without_a_processor_says_what_it_lacks(written: Write, tmp_path: Path) -> None:
    folder = tmp_path / "bare"
    folder.mkdir()
    for path in written("llava").iterdir():
        if not path.name.startswith(("processor", "preprocessor")):
            (folder / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ModelError, match="processor"):
        prepare_image_text(load(str(folder)), TEXT, [noise()])


def show(cli: Cli, *given: str) -> Any:
    return cli("show", *given, "--layer", "0", "--head", "0")


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (["photo.png", "-m", "llava"], 2, 'try: attncli show "What is this?" --image'),
        (["what <image> is", "-m", "llava"], 2, "the text has <image> in it, and no picture was given"),
        (["what", "--image", "photo.png", "-m", "tiny-decoder"], 2, "--image needs a pretrained model"),
        (["what", "--image", "photo.png", "-m", "llava", "--pair", "is"], 2, "--image and --pair were both given"),
        (["what", "--image", "none.png", "-m", "llava"], 1, "none.png: No such file"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(
    cli: Cli, written: Write, photo: Path, given: Sequence[str], code: int, message: str
) -> None:
    places = {"photo.png": str(photo), "llava": str(written("llava", template=True))}
    found = show(cli, *(places.get(one, one) for one in given))
    assert (found.code, found.out) == (code, "") and message in found.err and found.err.count("\n") <= 3


def test_the_mask_shows_a_picture_that_is_read_both_ways(cli: Cli, written: Write, photo: Path) -> None:
    folder = str(written("gemma3", template=True))
    found = cli("mask", TEXT, "--image", str(photo), "-m", folder, "--layer", "0", "--json").json
    mask = np.asarray(found["attention"][0]["allowed"])
    image = [place for place, token in enumerate(found["key_tokens"]) if token.get("segment") == "img"]
    assert mask[np.ix_(image, image)].all()
    assert mask[image[0] - 1, image[0]] == 0 and mask[-1].all()


def test_parts_of_the_text_are_chosen_by_name(cli: Cli, written: Write, photo: Path) -> None:
    given = (TEXT, "--image", str(photo), "-m", str(written("llava", template=True)))
    found = show(cli, *given, "--generate", "2", "--query", "generated", "--key", "img", "--json").json
    assert found["attention"][0]["shape"] == [len(found["query_tokens"]), 16]
    assert {token["segment"] for token in found["query_tokens"]} == {"generated"}


def test_a_saved_run_with_a_picture_is_drawn_again(
    cli: Cli, written: Write, photo: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "run.json"
    given = (TEXT, "--image", str(photo), "-m", str(written("llava", template=True)))
    assert show(cli, *given, "-q", "-o", str(saved)).code == 0
    assert json.loads(saved.read_text())["attention"][0]["on_pictures"] > 0
    assert "img r3c3" in cli("render", str(saved), "-f", "csv").out
