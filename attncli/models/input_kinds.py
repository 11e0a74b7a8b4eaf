"""What a model takes, read from its config before anything else of it is loaded: texts, pictures, sounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from attncli import registry
from attncli.models.loading import LoadOptions, config_of
from attncli.models.towers import has_towers, model_of


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a model takes.

    Args:
        files: The kinds of files that it reads: ``picture``.
        mixed: Whether it takes pictures or sounds together with a text only.
        writes: Whether it can write down the sounds that it takes.
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
    main = getattr(model_of(config) or known.get(type(config), None), "main_input_name", "input_ids")
    if main == "inputs" and type(config) in known:
        main = "input_values"  # SpeechEncoderDecoder's takes either name
    files = tuple(
        name
        for name, entry in registry.entries("inputs").items()
        if main in cast(tuple[str, ...], entry.attributes["takes"])
        or (entry.attributes.get("towers") and has_towers(config))
    )
    parts = ("vision_config", "image_config", "audio_config")
    return Inputs(
        family=str(config.model_type),
        text=main == "input_ids",
        files=files,
        mixed=any(getattr(config, part, None) is not None for part in parts) and not has_towers(config),
        writes="sound" in files and config.is_encoder_decoder and type(config) in known,
    )
