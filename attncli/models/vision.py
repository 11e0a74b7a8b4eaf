"""A picture as the input of a model that sees: made ready by its own image processor, its tokens the patches."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attncli.errors import CaptureError, ModelError
from attncli.models.loading import Loaded
from attncli.models.picture_file import read_photo
from attncli.models.prepared_text import Prepared
from attncli.models.pretrained import PretrainedSource
from attncli.models.refusals import refused_as
from attncli.models.tokens import positions
from attncli.models.towers import grid_name
from attncli.observers.layer_sizes import LayerSizes
from attncli.observers.selection import Selection
from attncli.record import Kind, Token, Tokens
from attncli.view import Picture

_INPUTS = ("flattened_patches", "pixel_values", "attention_mask", "pixel_attention_mask", "spatial_shapes")
_MOST_SPECIALS = 16
_MERGED = (1, 2, 4, 8)
"""How many patches a side a token stands for: those of Swin, which Donut has, are put together two by two."""

_Grid = tuple[int, int, int]


def look_at(
    loaded: Loaded, path: Path, *, layers: Selection | None = None, verify: bool = True
) -> tuple[PretrainedSource, Picture | None]:
    """Make a picture ready for a model.

    Args:
        layers: Those to be shown, where not all: some models have fewer tokens in later layers.

    Returns:
        The source, and the picture as the model sees it, its query the first token; None where the model's tokens are
        no grid of patches: they are numbered then.

    Raises:
        CaptureError: There is no attention between tokens, or not between the same ones in the layers asked for.
        ReadError: The file is not a readable picture.
        ModelError: The model does not say how it wants pictures.
    """
    photo = read_photo(path)
    processor = _processor(loaded)
    with refused_as(
        lambda why: ModelError(f"{loaded.name}: its image processor does not take this picture: {why}")
    ):
        made = processor(photo.image, return_tensors="pt")
    known = inspect.signature(loaded.model.forward).parameters
    if (lies := grid_name(known)) is not None and "image_grid_thw" in made:
        row = {next(iter(known)): "pixel_values", lies: "image_grid_thw", "merge_sizes": "image_merge_sizes"}
        inputs = {name: _to(loaded, made[given]) for name, given in row.items() if given in made}
        return _numbered(loaded, inputs, layers, verify, photo.notes), None
    inputs = {name: _to(loaded, made[name]) for name in _INPUTS if name in made and name in known}
    main = next(iter(inputs), None)
    if main is None or (
        main == "pixel_values" and inputs[main].dim() != 4 and "spatial_shapes" not in inputs
    ):
        raise ModelError(f"{loaded.name} ({loaded.family}): its image processor makes no input that it takes")
    inputs, grid, pixels = _laid_out(loaded, inputs, made, processor)
    if grid is None:
        return _numbered(loaded, inputs, layers, verify, photo.notes), None
    rows, columns, specials = grid
    tokens = (*_specials(loaded, specials), *_patch_tokens(rows, columns, specials))
    height, width = pixels.shape[:2]
    note = f"the picture as the model sees it: {width}×{height} pixels, {columns}×{rows} patches"
    prepared = Prepared(inputs, {"encoder": tokens}, {"encoder": tokens}, (*photo.notes, note))
    return PretrainedSource(loaded, prepared, verify), Picture(pixels, rows, columns, 0)


def _to(loaded: Loaded, tensor: Any) -> torch.Tensor:
    made: torch.Tensor = tensor.to(loaded.device, loaded.model.dtype if tensor.is_floating_point() else None)
    return made


def _laid_out(
    loaded: Loaded, inputs: dict[str, torch.Tensor], made: Any, processor: Any
) -> tuple[dict[str, torch.Tensor], _Grid | None, NDArray[np.uint8]]:
    """Return the inputs without padding, how many patches and tokens before them there are, and the picture."""
    if "flattened_patches" in inputs:  # each begins with its row and its column, from 1; padding has 0
        patches = inputs["flattened_patches"][:, inputs["flattened_patches"][0, :, 0] > 0]
        rows, columns = (int(patches[0, :, axis].max()) for axis in (0, 1))
        inputs = {"flattened_patches": patches, "attention_mask": torch.ones_like(patches[:, :, 0])}
        return inputs, (rows, columns, 0), _put_together(loaded, patches[0, :, 2:], rows, columns)
    if "spatial_shapes" in inputs:
        rows, columns = inputs["spatial_shapes"][0].tolist()
        inputs = {name: part[:, : rows * columns] if part.dim() > 1 and name != "spatial_shapes" else part
                  for name, part in inputs.items()}  # fmt: skip
        shown = _put_together(loaded, inputs["pixel_values"][0], rows, columns)
        return inputs, (rows, columns, 0), shown
    pixels = made["pixel_values"]
    return inputs, _grid(loaded, inputs, pixels.shape[2], pixels.shape[3]), visible(processor, pixels[0])


def _grid(loaded: Loaded, inputs: dict[str, torch.Tensor], height: int, width: int) -> _Grid | None:
    """Return the number of patches down, across, and of tokens before them; None where they are no grid."""
    source = PretrainedSource(loaded, Prepared(inputs, {}, {}))
    hidden = getattr(source.output(), "last_hidden_state", None)
    size = getattr(loaded.model.config, "patch_size", None)
    down, across = size if isinstance(size, list | tuple) and len(size) == 2 else (size, size)
    if hidden is None or hidden.dim() != 3 or not (isinstance(down, int) and isinstance(across, int)):
        return None
    for factor in _MERGED:
        rows, columns = height // (factor * down), width // (factor * across)
        specials = int(hidden.shape[1]) - rows * columns
        if rows * columns and 0 <= specials <= (_MOST_SPECIALS if factor == 1 else 0):
            return rows, columns, specials
    return None


def _put_together(loaded: Loaded, patches: torch.Tensor, rows: int, columns: int) -> NDArray[np.uint8]:
    """Make a picture of patches, each a row of numbers that a model's processor has scaled."""
    size = int(loaded.model.config.patch_size)
    whole = patches.float().cpu().reshape(rows, columns, size, size, -1).transpose(1, 2)
    low, high = whole.min(), whole.max()
    scaled = (whole - low) / (high - low).clamp(min=1e-6) * 255
    shown: NDArray[np.uint8] = scaled.reshape(rows * size, columns * size, -1).byte().numpy()
    return shown


def _numbered(
    loaded: Loaded,
    inputs: dict[str, torch.Tensor],
    layers: Selection | None,
    verify: bool,
    notes: tuple[str, ...],
) -> PretrainedSource:
    """Number the tokens of a model that makes something else of a picture than a grid of patches."""
    sizes = LayerSizes("encoder")
    nothing: Mapping[Kind, Tokens] = {"encoder": ()}
    source = PretrainedSource(loaded, Prepared(inputs, nothing, nothing), verify)
    source.run([sizes])
    depth = source.depth("encoder")
    chosen = (
        sizes.found
        if layers is None or layers.ranges is None
        else set(layers.resolve(depth)) & set(sizes.found)
    )
    if not chosen:
        raise CaptureError(f"{loaded.family}: no attention was seen in these layers", f"there are {depth}")
    if len({sizes.found[layer] for layer in chosen}) > 1:
        raise CaptureError(
            f"{loaded.name} ({loaded.family}): its layers attend to pictures of several sizes: {sizes}",
            "--layer names some of one size",
        )
    rows, keys = sizes.found[min(chosen)]
    note = "the model's tokens are no grid of a picture's patches: they are numbered"
    queries: Mapping[Kind, Tokens] = {"encoder": positions(rows)}
    seen: Mapping[Kind, Tokens] = {"encoder": positions(keys)}
    return replace(source, prepared=Prepared(inputs, queries, seen, (*notes, note)))


def _processor(loaded: Loaded) -> Any:
    from transformers import AutoImageProcessor

    with refused_as(lambda reason: _unprepared(loaded, reason)):
        return AutoImageProcessor.from_pretrained(loaded.folder or loaded.name)


def _unprepared(loaded: Loaded, reason: str) -> ModelError:
    return ModelError(
        f"{loaded.name}: no readable preprocessor_config.json, so pictures cannot be prepared for it",
        reason,
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


def visible(processor: Any, pixels: torch.Tensor) -> NDArray[np.uint8]:
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
