"""A picture as the input of a model that sees: made ready by its own image processor, its tokens the patches."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from attncli.errors import AttnCliError, CaptureError, ModelError, ReadError
from attncli.labels import safe_label
from attncli.memory import is_out_of_memory
from attncli.models.loading import Loaded
from attncli.models.prepared_text import Prepared
from attncli.models.pretrained import PretrainedSource
from attncli.models.refusals import first_sentence, read_from, refused_as
from attncli.record import Token, Tokens
from attncli.view import Picture

_MOST_SPECIALS = 16


def read_picture(path: Path) -> Image.Image:
    """Read a picture in colours, turned as its camera was held.

    Raises:
        ReadError: It is no picture, or damaged, or has more pixels than any photo.
    """
    name = safe_label(str(path))
    try:
        with read_from(path), warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                return ImageOps.exif_transpose(image).convert("RGB")
    except AttnCliError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise ReadError(f"{name}: too many pixels", "make it smaller") from error
    except UnidentifiedImageError as error:
        raise ReadError(f"{name}: not a readable picture", "convert it to PNG or JPEG") from error
    except Exception as error:  # what broken files make the decoders raise is of many kinds
        if is_out_of_memory(error):
            raise
        raise ReadError(f"{name}: the picture cannot be read ({first_sentence(error)})") from error


def look_at(loaded: Loaded, path: Path, *, verify: bool = True) -> tuple[PretrainedSource, Picture]:
    """Make a picture ready for a model.

    Returns:
        The source, and the picture as the model sees it; the query is the first token.

    Raises:
        CaptureError: The model's tokens are no grid of patches.
        ReadError: The file is not a readable picture.
        ModelError: The model does not say how it wants pictures.
    """
    image = read_picture(path)
    processor = _processor(loaded)
    with refused_as(
        lambda why: ModelError(f"{loaded.name}: its image processor does not take this picture: {why}")
    ):
        pixels = processor(image, return_tensors="pt")["pixel_values"]
    inputs = {"pixel_values": pixels.to(loaded.device, loaded.model.dtype)}
    rows, columns = _patches(loaded, tuple(pixels.shape))
    specials = _length(loaded, inputs) - rows * columns
    if not 0 <= specials <= _MOST_SPECIALS:
        raise _no_patches(loaded)
    tokens = (*_specials(loaded, specials), *_patch_tokens(rows, columns, specials))
    height, width = pixels.shape[-2:]
    note = f"the picture as the model sees it: {width}×{height} pixels, {columns}×{rows} patches"
    prepared = Prepared(inputs, {"encoder": tokens}, {"encoder": tokens}, (note,))
    picture = Picture(_visible(processor, pixels[0]), rows, columns, 0)
    return PretrainedSource(loaded, prepared, verify), picture


def _processor(loaded: Loaded) -> Any:
    from transformers import AutoImageProcessor

    with refused_as(lambda reason: _unprepared(loaded, reason)):
        return AutoImageProcessor.from_pretrained(loaded.folder or loaded.name)


def _unprepared(loaded: Loaded, reason: str) -> ModelError:
    return ModelError(
        f"{loaded.name}: no readable preprocessor_config.json, so pictures cannot be prepared for it",
        reason,
    )


def _patches(loaded: Loaded, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the number of patches down and across."""
    size = getattr(loaded.model.config, "patch_size", None)
    down, across = size if isinstance(size, list | tuple) and len(size) == 2 else (size, size)
    if not (isinstance(down, int) and isinstance(across, int) and len(shape) == 4):
        raise _no_patches(loaded)
    return shape[2] // down, shape[3] // across


def _length(loaded: Loaded, inputs: dict[str, torch.Tensor]) -> int:
    """Run the model once, unobserved, to learn how many tokens it makes of a picture."""
    source = PretrainedSource(loaded, Prepared(inputs, {}, {}))
    hidden = getattr(source.output(), "last_hidden_state", None)
    if hidden is None or hidden.dim() != 3:
        raise _no_patches(loaded)
    return int(hidden.shape[1])


def _no_patches(loaded: Loaded) -> CaptureError:
    return CaptureError(
        f"{loaded.name} ({loaded.family}): its tokens are not a grid of patches",
        "ViT, DeiT, BEiT, DINOv2 and their like have one",
    )


def _specials(loaded: Loaded, count: int) -> Tokens:
    """Name the tokens before the patches: the class, what was distilled from another model, registers."""
    registers = int(getattr(loaded.model.config, "num_register_tokens", 0) or 0)
    others = [f"[REG{number}]" for number in range(1, registers + 1)]
    if len(others) != count - 1:
        others = ["[DIST]"] if count == 2 else [f"[SPECIAL{number}]" for number in range(1, count)]
    texts = ["[CLS]", *others][:count]
    return tuple(Token(place, None, text, text, special=True) for place, text in enumerate(texts))


def _patch_tokens(rows: int, columns: int, first: int) -> Tokens:
    texts = [f"r{row}c{column}" for row in range(rows) for column in range(columns)]
    return tuple(Token(place, None, text, text) for place, text in enumerate(texts, first))


def _visible(processor: Any, pixels: torch.Tensor) -> NDArray[np.uint8]:
    """Undo what a processor does to colours, but not how it crops."""
    values = pixels.float()
    if getattr(processor, "do_normalize", False):
        mean, std = (
            torch.tensor(getattr(processor, name)).view(-1, 1, 1) for name in ("image_mean", "image_std")
        )
        values = values * std + mean
    if getattr(processor, "do_rescale", True):
        values = values / float(getattr(processor, "rescale_factor", 1 / 255))
    shown: NDArray[np.uint8] = values.round().clamp(0, 255).byte().expand(3, -1, -1).permute(1, 2, 0).numpy()
    return shown
