"""Models put together of several: which class loads one whole, and which of its parts reads a text, or a picture.

CLIP, SigLIP and their like embed texts and pictures apart, each in a tower: one of these is what reads an input.
Others write down what they see in a picture (BLIP, TrOCR, Donut, Pix2Struct).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, cast

from attncli.errors import ModelError

PICTURE_INPUTS = ("pixel_values", "flattened_patches")
"""What a model of pictures may call its input."""


def has_towers(config: Any) -> bool:
    """Return whether a config is that of a model that embeds texts and pictures apart."""
    whole = model_of(config)
    return all(hasattr(whole, f"get_{what}_features") for what in ("text", "image"))


def main_input(kind: Any) -> str:
    """Return what a model's class calls its input; some say ``input_ids`` and take none."""
    named = str(getattr(kind, "main_input_name", "input_ids"))
    known = inspect.signature(kind.forward).parameters if kind is not None else {}
    sees = "pixel_values" in known or grid_name(known) is not None
    return "pixel_values" if "input_ids" not in known and sees and named not in PICTURE_INPUTS else named


def grid_name(parameters: Iterable[str]) -> str | None:
    """Return the argument that says how patches in one row lie in their pictures; None where there is none."""
    return next((name for name in parameters if name.endswith("grid_thw")), None)


def writes_of_pictures(config: Any) -> bool:
    """Return whether a model writes down what it sees: a picture goes in, and a text comes out."""
    kind = class_of(config)
    return kind is not None and main_input(kind) in PICTURE_INPUTS and bool(kind.can_generate())


def class_of(config: Any) -> Any:
    """Return the class that loads a model whole; None where transformers has none.

    That is AutoModel's, unless there is none, or a checkpoint of towers has something on them (BLIP's captions): then
    it is the class that the config itself names.

    Raises:
        ModelError: That is not known.
    """
    import transformers

    found = model_of(config)
    named = next(iter(config.architectures or ()), None)
    if named is None or (found is not None and (not has_towers(config) or named == found.__name__)):
        return found
    saved = getattr(transformers, named, None)
    if saved is None and found is not None:
        raise ModelError(
            f"{config.model_type}: it is a {named}, which the installed transformers does not have"
        )
    return saved


def mark_as_two_stacks(model: Any) -> None:
    """Write into the config of a model that writes of pictures that it is an encoder–decoder: BLIP's does not say."""
    config = model.config
    if not writes_of_pictures(config) or config.is_encoder_decoder:
        return
    config.is_encoder_decoder = True
    config.decoder_start_token_id = config.get_text_config().bos_token_id


def tower(model: Any, name: str, *, picture: bool) -> Any:
    """Return the tower that reads a picture, or a text.

    Raises:
        ModelError: The model keeps it where it is not to be seen, or runs it together with another part only.
    """
    names = ("vision_model", "image_model") if picture else ("text_model",)
    part = next((getattr(model, one) for one in names if hasattr(model, one)), None)
    if part is None or not hasattr(part, "config"):
        side = "vision" if picture else "text"
        raise ModelError(
            f"{name} ({model.config.model_type}): its {side} tower cannot be run by itself in a {type(model).__name__}"
        )
    if hasattr(model, "hf_device_map"):
        part.hf_device_map = model.hf_device_map
    return part


def model_of(config: Any) -> Any:
    """Return the class that AutoModel loads for a config; None where it has none."""
    from transformers import AutoModel

    known = cast(Mapping[Any, Any], AutoModel._model_mapping)
    found = known[type(config)] if type(config) in known else None
    return found[0] if isinstance(found, tuple | list) else found
