"""Reads a picture's file: in colours, turned as its camera was held, and with a note on what was done to it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from attncli.errors import AttnCliError, ReadError
from attncli.labels import safe_label
from attncli.memory import is_out_of_memory
from attncli.models.refusals import first_sentence, read_from

_TURNED = 0x0112
"""EXIF's entry that says how the camera was held; 1 is upright."""


@dataclass(frozen=True)
class Photo:
    """A picture in colours.

    Args:
        notes: What was done to it so that it can be shown to a model, one line each.
    """

    name: str
    image: Image.Image
    notes: tuple[str, ...] = ()


def read_photo(path: Path) -> Photo:
    """Read a picture.

    Raises:
        ReadError: It is no picture, or damaged, or has more pixels than any photo.
    """
    name = safe_label(str(path))
    try:
        with read_from(path), warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                notes = tuple(f"{safe_label(path.name)}: {what}" for what in _what_is_done(image))
                return Photo(name, _in_colours(ImageOps.exif_transpose(image), name), notes)
    except AttnCliError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        most = (Image.MAX_IMAGE_PIXELS or 0) // 1_000_000
        raise ReadError(f"{name}: too many pixels (more than {most} million)", "make it smaller") from error
    except UnidentifiedImageError as error:
        raise ReadError(f"{name}: not a readable picture", "convert it to PNG or JPEG") from error
    except Exception as error:  # what broken files make the decoders raise is of many kinds
        if is_out_of_memory(error):
            raise
        raise ReadError(f"{name}: the picture cannot be read ({first_sentence(error)})") from error


def _what_is_done(image: Image.Image) -> list[str]:
    """Return what a user should know of how a file is read."""
    frames = getattr(image, "n_frames", 1)
    return [
        *([f"the first of its {frames} frames is used"] if frames > 1 else []),
        *(["turned upright, as its EXIF data says"] if image.getexif().get(_TURNED, 1) != 1 else []),
        *(["CMYK colours converted to RGB"] if image.mode == "CMYK" else []),
        *(["16 bits a pixel reduced to 8"] if image.mode.startswith("I") else []),
    ]


def _in_colours(image: Image.Image, name: str) -> Image.Image:
    if image.mode == "F":
        raise ReadError(f"{name}: its pixels are floating-point numbers", "convert it to 8 bits a pixel")
    if image.mode.startswith("I"):  # converted as it is, all above 255 would be white
        image = Image.fromarray((np.asarray(image).clip(0, 65535) / 257).round().astype(np.uint8))
    return image.convert("RGB")
