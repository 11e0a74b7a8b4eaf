"""What a model takes, read off its config before anything else of it is loaded: texts, pictures, sounds."""

from __future__ import annotations

from dataclasses import dataclass

from attncli.models.loading import LoadOptions, config_of
from attncli.models.towers import PICTURE_INPUTS, class_of, has_towers, writes_of_pictures


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a model takes.

    Args:
        mixed: Whether it takes pictures or sounds together with a text only.
        writes: Whether it writes down what it sees in a picture.
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
    config = config_of(name, options)
    main = getattr(class_of(config), "main_input_name", "input_ids")
    parts = ("vision_config", "image_config", "audio_config")
    return Inputs(
        family=str(config.model_type),
        text=main == "input_ids",
        picture=main in PICTURE_INPUTS or has_towers(config),
        sound=main in ("input_features", "input_values"),
        mixed=any(getattr(config, part, None) is not None for part in parts) and not has_towers(config),
        writes=writes_of_pictures(config),
    )
