"""What a model takes, read off its config before anything else of it is loaded: texts, pictures, sounds."""

from __future__ import annotations

from dataclasses import dataclass

from attncli.models.loading import LoadOptions, config_of
from attncli.models.towers import has_towers, model_of

_SOUNDS = ("input_features", "input_values", "audio_values")
"""What a model of sounds may call its input."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a model takes.

    Args:
        mixed: Whether it takes pictures or sounds together with a text only.
        writes: Whether it can write down the sounds that it takes.
    """

    family: str
    text: bool
    picture: bool
    sound: bool
    mixed: bool
    writes: bool

    def __str__(self) -> str:
        """Name them: ``texts and pictures``."""
        kinds = {"texts": self.text, "pictures": self.picture, "sounds": self.sound}
        return " and ".join(kind for kind, taken in kinds.items() if taken)


def inputs_of(name: str, options: LoadOptions) -> Inputs:
    """Read off a model's config what it takes.

    Raises:
        ModelError: It is not available.
    """
    from transformers import AutoModelForSpeechSeq2Seq

    config = config_of(name, options)
    known = AutoModelForSpeechSeq2Seq._model_mapping
    main = getattr(model_of(config) or known.get(type(config), None), "main_input_name", "input_ids")
    writes = config.is_encoder_decoder and type(config) in known and main in (*_SOUNDS, "inputs")
    parts = ("vision_config", "image_config", "audio_config")
    return Inputs(
        family=str(config.model_type),
        text=main == "input_ids",
        picture=main == "pixel_values" or has_towers(config),
        sound=main in _SOUNDS or writes,
        mixed=any(getattr(config, part, None) is not None for part in parts) and not has_towers(config),
        writes=writes,
    )
