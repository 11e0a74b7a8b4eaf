"""Where a model's files lie: a folder the user named, or the Hugging Face hub's cache, found by hand.

Resolving the cache here keeps ``huggingface_hub`` (and what it imports) out of the light commands, and lets a
mistyped folder be told from a model that has not been downloaded.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from attncli.errors import ModelError, UsageError, did_you_mean
from attncli.labels import safe_label
from attncli.models.shipped import card, shipped_folder, shipped_models

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_PREFIX = "models--"


def resolve_model_folder(name: str, revision: str = "main") -> Path | None:
    """Find the local folder of a model.

    Args:
        name: A model that comes with attncli, a folder, or a name on the hub (``org/model``). A folder that is called
            as a shipped model is meant by its path alone: ``./tiny-decoder``.
        revision: Branch, tag or commit, for a name on the hub.

    Returns:
        The folder, or None for a hub name that is not in the cache; a GGUF file is a model without one. Where
        sentence-transformers' ``modules.json`` says that the transformer lies in a folder inside, it is that one.

    Raises:
        UsageError: `name` is empty.
        ModelError: `name` is meant as a folder and there is none.
    """
    if not name.strip():
        raise UsageError("the model's name is empty", "--model takes a folder or a name: attncli list models")
    if (shipped := shipped_folder(name)) is not None:
        return shipped
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            return _transformer_in(path)
        if path.is_file() and is_gguf(path):
            return path
        exists = path.exists()
    except (OSError, RuntimeError) as error:  # no right to look, a name too long, a ~user who is not known
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(f"the folder {safe_label(name)}: {safe_label(reason)}") from error
    if exists:
        raise ModelError(f"{safe_label(name)} is a file, not a model's folder", "name the folder it lies in")
    cached = _snapshot(name, revision) if _HUB_NAME.fullmatch(name) else None
    if cached is None and _is_meant_as_folder(name, path):
        raise ModelError(f"the folder {safe_label(name)} does not exist", _sibling_hint(path))
    return None if cached is None else _transformer_in(cached)


def is_gguf(where: str | Path) -> bool:
    """Return whether a model is a GGUF file, which holds config, weights and tokenizer in one."""
    return Path(where).suffix.lower() == ".gguf" and Path(where).is_file()


def _transformer_in(folder: Path) -> Path:
    """Return the folder with config.json: older sentence-transformers have it inside (``0_Transformer``)."""
    listed = folder / "modules.json"
    if (folder / "config.json").exists() or not listed.is_file():
        return folder
    try:
        modules = json.loads(listed.read_text(encoding="utf-8"))
        inside = [str(one["path"]) for one in modules if str(one["type"]).endswith("Transformer")]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{safe_label(str(listed))} cannot be read as a list of modules") from error
    # The list is the model's: it must not lead out of its folder.
    found = [folder / path for path in inside if (folder / path).resolve().is_relative_to(folder.resolve())]
    return next((path for path in found if path.is_dir()), folder)


def hub_cache() -> Path:
    """Return the folder that the hub's client keeps downloads in, by the same environment variables."""
    environment = os.environ
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(variable):
            return _expanded(environment[variable])
    if environment.get("HF_HOME"):
        return _expanded(environment["HF_HOME"]) / "hub"
    return _expanded(environment.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface" / "hub"


def cached_models() -> list[str]:
    """Name the models in the hub's cache, in alphabetical order."""
    return sorted(name for name in _names_in_cache() if resolve_cached(name) is not None)


def resolve_cached(name: str, revision: str = "main") -> Path | None:
    """Find a hub name's folder in the cache; None where it was never downloaded as far as its config."""
    folder = _snapshot(name, revision)
    return folder if folder is not None and (folder / "config.json").exists() else None


def missing_model(name: str, reason: str = "") -> ModelError:
    """Make the error for a hub name that is neither on this machine nor to be downloaded."""
    cached = cached_models()
    close = did_you_mean(name, [*shipped_models(), *cached])
    if close and not cached and not close.startswith("did you mean"):
        close = None  # ours are no choice for somebody who wants another model
    told = f", and {safe_label(reason)}" if reason else ""
    return ModelError(
        f"model {safe_label(name)}: no such folder, not in {safe_label(str(hub_cache()))}{told}",
        close or "give a folder, or the name of a model that can be downloaded",
    )


def fetch_file(name: str, filename: str, revision: str = "main") -> Path:
    """Download one file of a model from the hub into its cache.

    Raises:
        ModelError: The hub does not answer, or has no such model or file.
    """
    if not may_reach_hub():
        raise missing_model(name, "the hub cannot be reached")
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(name, filename, revision=revision))
    except (OSError, ValueError) as error:
        raise missing_model(name, str(error).partition("\n")[0]) from error


def may_reach_hub() -> bool:
    """Whether it makes sense to ask the hub: its client would go on asking for half a minute."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    import socket
    from urllib.parse import urlsplit

    host = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co").hostname
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True


def _snapshot(name: str, revision: str) -> Path | None:
    folder = hub_cache() / (_PREFIX + name.replace("/", "--"))
    reference = folder / "refs" / revision
    commit = reference.read_text(encoding="utf-8").strip() if reference.is_file() else revision
    snapshot = folder / "snapshots" / commit
    return snapshot if commit and snapshot.is_dir() else None


def _names_in_cache() -> Iterator[str]:
    cache = hub_cache()
    if cache.is_dir():
        for folder in cache.iterdir():
            if folder.name.startswith(_PREFIX):
                yield folder.name.removeprefix(_PREFIX).replace("--", "/")


def _is_meant_as_folder(name: str, path: Path) -> bool:
    """Whether a name that is no folder looks like one all the same: ``./x``, ``a/b/c``, ``models/x``."""
    if name.startswith((".", "~", "/")) or not _HUB_NAME.fullmatch(name):
        return True
    return path.parent != Path(".") and path.parent.is_dir()


def _sibling_hint(path: Path) -> str | None:
    parent = path.parent
    if not parent.is_dir():
        return f"nor does {safe_label(str(parent))}"
    try:
        siblings = [entry.name for entry in parent.iterdir() if entry.is_dir()]
    except OSError:
        return None
    hint = did_you_mean(path.name, sorted(siblings))
    return safe_label(hint) if hint and hint.startswith("did you mean") else None


def _expanded(text: str) -> Path:
    return Path(os.path.expandvars(text)).expanduser()


def model_choices() -> dict[str, str]:
    """Return the models that come with attncli and those in the hub's cache, each with what it is."""
    ours = {name: card(name).summary for name in shipped_models()}
    return ours | {"scratch": "untrained, made from its options"} | dict.fromkeys(cached_models(), "")
