"""What a model takes, read from its config before anything else of it is loaded: texts, pictures, sounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from attncli import registry
from attncli.errors import UsageError
from attncli.labels import safe_label
from attncli.models.loading import LoadOptions, config_of
from attncli.models.towers import class_of, has_towers, main_input, writes_of_pictures


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a model takes.

    Args:
        files: The kinds of files that it reads: ``picture``.
        mixed: Whether it takes pictures or sounds together with a text only.
        writes: Whether it writes down what it hears in a sound, or sees in a picture.
    """

    family: str
    text: bool
    files: tuple[str, ...]
    mixed: bool
    writes: bool

    def __str__(self) -> str:
        """Name them: ``texts and pictures``."""
        return " and ".join([*(["texts"] if self.text else []), *(f"{kind}s" for kind in self.files)])


def inputs_of(name: str, options: LoadOptions) -> Inputs:
    """Read off a model's config what it takes.

    Raises:
        ModelError: It is not available.
    """
    from transformers import AutoModelForSpeechSeq2Seq

    config = config_of(name, options)
    known = AutoModelForSpeechSeq2Seq._model_mapping
    main = main_input(class_of(config) or known.get(type(config), None))
    if main == "inputs" and type(config) in known:
        main = "input_values"  # SpeechEncoderDecoder's takes either name
    files = tuple(
        name
        for name, entry in registry.entries("inputs").items()
        if main in cast(tuple[str, ...], entry.attributes["takes"])
        or (entry.attributes.get("towers") and has_towers(config))
    )
    hears = "sound" in files and config.is_encoder_decoder and type(config) in known
    parts = ("vision_config", "image_config", "audio_config")
    return Inputs(
        family=str(config.model_type),
        text=main == "input_ids",
        files=files,
        mixed=any(getattr(config, part, None) is not None for part in parts) and not has_towers(config),
        writes=hears or writes_of_pictures(config),
    )


def check_takes_images(name: str, options: LoadOptions) -> None:
    """Refuse a model that reads no text with pictures.

    Raises:
        UsageError: It reads none.
        ModelError: It is not available.
    """
    from transformers import AutoModelForImageTextToText

    config = config_of(name, options)
    if type(config) not in AutoModelForImageTextToText._model_mapping:
        raise UsageError(
            f"--image: {safe_label(name)} ({config.model_type}) reads no texts with pictures",
            "name a model like LLaVA, Qwen2.5-VL, Gemma 3, PaliGemma, SmolVLM, InternVL or Pixtral",
        )
