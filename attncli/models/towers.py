"""Models of two towers, one for texts and one for pictures (CLIP, SigLIP, …): one of them is what reads an input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from attncli.errors import ModelError


def has_towers(config: Any) -> bool:
    """Return whether a config is that of a model that embeds texts and pictures apart."""
    whole = model_of(config)
    return all(hasattr(whole, f"get_{what}_features") for what in ("text", "image"))


def check_whole(config: Any, name: str) -> None:
    """Refuse a checkpoint of towers with something on them (BLIP's captions): AutoModel loads the towers alone.

    Raises:
        ModelError: It is one.
    """
    whole = model_of(config).__name__
    saved = (config.architectures or [whole])[0]
    if saved != whole:
        raise ModelError(f"{name} ({config.model_type}): it is a {saved}, which attncli cannot show yet")


def tower(model: Any, name: str, *, picture: bool) -> Any:
    """Return the tower that reads a picture, or a text.

    Raises:
        ModelError: The model keeps it where it is not to be seen.
    """
    names = ("vision_model", "image_model") if picture else ("text_model",)
    part = next((getattr(model, one) for one in names if hasattr(model, one)), None)
    if part is None or not hasattr(part, "config"):
        side = "vision" if picture else "text"
        raise ModelError(f"{name} ({model.config.model_type}): its {side} tower cannot be run by itself")
    if hasattr(model, "hf_device_map"):
        part.hf_device_map = model.hf_device_map
    return part


def model_of(config: Any) -> Any:
    """Return the class that AutoModel loads for a config; None where it has none."""
    from transformers import AutoModel

    known = cast(Mapping[Any, Any], AutoModel._model_mapping)
    found = known[type(config)] if type(config) in known else None
    return found[0] if isinstance(found, tuple | list) else found
