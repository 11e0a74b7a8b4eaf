import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from attncli.errors import ModelError
from attncli.models.folder_check import check_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all that a model has but weights."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text("{}")
    return tmp_path


def refusal(folder: Path, *, allow_pickle: bool = False) -> ModelError:
    with pytest.raises(ModelError) as caught:
        check_folder(folder, "m", allow_pickle=allow_pickle, tokenizer=True)
    return caught.value


@pytest.mark.parametrize(
    ("index", "suffix"), [("model.safetensors", "safetensors"), ("pytorch_model.bin", "bin")]
)
def test_a_shard_that_is_missing_is_named(folder: Path, index: str, suffix: str) -> None:
    shards = {f"w{number}": f"part-{number}.{suffix}" for number in range(3)}
    (folder / f"{index}.index.json").write_text(json.dumps({"weight_map": shards}))
    (folder / f"part-1.{suffix}").write_bytes(b"")
    error = refusal(folder, allow_pickle=True)
    assert (
        error.message == f"m: weights are missing: part-0.{suffix} and 1 more, which {index}.index.json names"
    )


@pytest.mark.parametrize("content", ["[]", "{}", '{"weight_map": 3}', "{"])
def test_an_index_that_says_nothing_is_told(folder: Path, content: str) -> None:
    (folder / "model.safetensors.index.json").write_text(content)
    assert "model.safetensors.index.json" in refusal(folder).message


def test_weights_under_another_name_are_named(folder: Path) -> None:
    (folder / "weights.safetensors").write_bytes(b"")
    error = refusal(folder)
    assert error.message == "m: no model.safetensors there, only weights.safetensors"
    assert "rename it" in str(error.hint)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "vocab.txt"])
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Path.mkdir, "not a regular file"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.symlink_to("/nowhere"), "a link to a file that is not there"),
    ],
)
def test_what_is_no_file_is_named_and_not_read(
    folder: Path, name: str, make: Callable[[Path], None], words: str
) -> None:
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    assert refusal(folder).message == f"{folder / name} is {words}"


def test_where_a_model_lies_beside_is_told(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "inner").mkdir()
    (folder / "inner" / "config.json").write_text("{}")
    assert refusal(folder).hint == f"there is one in {folder / 'inner'}"
    (folder / "m.gguf").write_bytes(b"")
    assert refusal(folder).hint == f"name the GGUF file itself: {folder / 'm.gguf'}"
