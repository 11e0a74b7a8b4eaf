"""Looks through a model's folder before anything is loaded from it, and names the file that is missing or broken."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attncli.errors import ModelError
from attncli.labels import safe_label
from attncli.models.tokens import load_tokenizer

_SAFE, _SAFE_INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLE, _PICKLE_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "source.spm",
    "tokenizer_config.json",
)
_READ = (".json", ".safetensors", ".txt", ".model", ".spm")
"""Endings of files that loading may read."""

_TOKENIZER_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json")


def check_folder(folder: Path, name: str, *, allow_pickle: bool, tokenizer: bool) -> None:
    """Check that a model's files are there and can be read.

    Args:
        name: The model as the user named it, for messages.
        allow_pickle: Whether pickled weights will do.
        tokenizer: Whether there must be a tokenizer too.

    Raises:
        ModelError: They are not.
    """
    try:
        paths = {path.name: path for path in folder.iterdir()}
    except OSError as error:
        raise ModelError(f"{name}: {error.strerror or error}") from error
    if "config.json" not in paths:
        raise ModelError(f"{name}: no config.json, so it is not a Hugging Face model folder", _beside(folder))
    for path in paths.values():
        if path.suffix in _READ or path.name == _PICKLE:
            _check_regular(path)
    config = read_json(folder / "config.json", name)
    if "transformers_weights" not in config:
        _check_weights(folder, set(paths), name, allow_pickle)
    if tokenizer and not paths.keys() & set(_TOKENIZERS):
        raise ModelError(f"{name}: no tokenizer found (tokenizer.json)")
    for file in sorted(folder.glob("*.safetensors")):
        _check_safetensors(file)


def check_gguf(name: str) -> None:
    """Check that GGUF files can be read here.

    Raises:
        ModelError: They cannot.
    """
    for package in ("gguf", "accelerate"):
        if find_spec(package) is None:
            raise ModelError(
                f"{safe_label(name)}: GGUF files need {package}, which is not installed",
                'pip install "attncli[gguf]"',
            )


def read_json(file: Path, name: str) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        ModelError: The file holds none, or cannot be read.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{name}: {file.name}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{name}: its {file.name} is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise ModelError(f"{name}: its {file.name} is not a JSON object")
    return found


def _beside(folder: Path) -> str | None:
    """Return where there may be a model after all: in a GGUF file, or in a folder inside."""
    files = sorted(path.name for path in folder.glob("*.gguf"))
    if files:
        return f"name the GGUF file itself: {safe_label(str(folder / files[0]))}"
    inside = sorted(path.parent.name for path in folder.glob("*/config.json"))
    return f"there is one in {safe_label(str(folder / inside[0]))}" if inside else None


def _check_regular(path: Path) -> None:
    """Refuse what stands under a file's name and is none: reading a named pipe would wait for ever."""
    if path.is_file():
        return
    if path.is_symlink() and not path.exists():
        raise ModelError(
            f"{safe_label(str(path))} is a link to a file that is not there", "download it again"
        )
    raise ModelError(f"{safe_label(str(path))} is not a regular file")


def _check_weights(folder: Path, names: set[str], name: str, allow_pickle: bool) -> None:
    if _SAFE in names:
        return
    if _SAFE_INDEX in names:
        _check_shards(folder, _SAFE_INDEX, names, name)
        return
    if names & {_PICKLE, _PICKLE_INDEX}:
        if not allow_pickle:
            raise ModelError(
                f"{name}: its weights are a pickle ({_PICKLE}), which can run any code when loaded",
                "--allow-pickle loads it; use it only if you trust the source",
            )
        if _PICKLE not in names:
            _check_shards(folder, _PICKLE_INDEX, names, name)
        return
    others = sorted(one for one in names if one.endswith(".safetensors"))
    if others:
        raise ModelError(
            f"{name}: no {_SAFE} there, only {safe_label(others[0])}",
            f"if that holds all of the model's weights, rename it to {_SAFE}",
        )
    raise ModelError(f"{name}: no weights found ({_SAFE})")


def _check_shards(folder: Path, index: str, names: set[str], name: str) -> None:
    """Refuse weights in several files where some of these are missing."""
    shards = read_json(folder / index, name).get("weight_map")
    if not isinstance(shards, dict):
        raise ModelError(f"{name}: its {index} has no weight_map, which says where each weight lies")
    missing = sorted({str(shard) for shard in shards.values()} - names)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelError(
            f"{name}: weights are missing: {safe_label(missing[0])}{more}, which {index} names",
            "download the model again, or copy the rest of it there",
        )


def _check_safetensors(file: Path) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np") as opened:
            opened.keys()
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{safe_label(str(file))}: truncated or corrupted ({error})") from error


def check_tokenizer_files(folder: Path) -> None:
    """Raise for the file of a tokenizer that is broken, if any is."""
    for name in _TOKENIZER_SETTINGS:
        if (folder / name).is_file():
            read_json(folder / name, safe_label(str(folder)))
    if (folder / "tokenizer.json").is_file():
        load_tokenizer(folder)
