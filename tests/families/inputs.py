"""Inputs for a tiny model of any family: text with padding on either side, pictures, sound."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from typing import Any

import torch
from families.configs import VOCABULARY, accepts
from families.feeds import FEEDS
from torch import Tensor

BATCH, QUERY, TARGET = 2, 14, 9
PADDED = 4


def candidates(family: str, model: Any, side: str | None) -> Iterator[dict[str, Tensor]]:
    """Make inputs that a forward pass may take, the likeliest first.

    Args:
        side: ``left`` or ``right`` to pad the second text by `PADDED`; None for no padding.
    """
    if family in FEEDS:
        yield FEEDS[family](model, side)
        return
    main = str(getattr(model, "main_input_name", "input_ids"))
    if not accepts(model, "input_ids"):
        if side is None:
            yield from patches(model)
        if main == "input_ids" and accepts(model, "pixel_values"):
            main = "pixel_values"
    if main == "input_ids" and accepts(model, "input_ids"):
        yield text(model, side)
    elif side is None:
        for made in _without_text(model, main):
            yield made
            if accepts(model, "decoder_input_ids"):
                yield made | {"decoder_input_ids": ids(TARGET)}
    if accepts(model, "input_ids"):
        yield from _text_and_more(model, side)


def inputs_that_run(family: str, model: Any, side: str | None) -> tuple[dict[str, Tensor] | None, Any]:
    """Give inputs and what the unobserved model makes of them; or None and why none of those made fits."""
    why: list[str] = []
    for inputs in candidates(family, model, side):
        try:
            with torch.inference_mode():
                torch.manual_seed(0)
                return inputs, model(**inputs)
        except Exception as error:  # whatever the family's own code raises
            why.append(f"{type(error).__name__}: {' '.join(str(error).split())}")
    return None, why[0] if why else f"no input known for {getattr(model, 'main_input_name', '')}"


def _without_text(model: Any, main: str) -> Iterator[dict[str, Tensor]]:
    if main.startswith(("pixel_values", "images")):
        for made in pictures(model):
            yield {main: made}
    else:
        lengths = f"{main}_mask" if accepts(model, f"{main}_mask") else ""
        for made in sound(model, main):
            if lengths:
                yield {main: made, lengths: torch.ones(BATCH, made.shape[-1], dtype=torch.long)}
                yield {main: made, lengths: torch.ones(BATCH, made.shape[1], dtype=torch.long)}
            yield {main: made}


def _text_and_more(model: Any, side: str | None) -> Iterator[dict[str, Tensor]]:
    read = text(model, side)
    if accepts(model, "bbox"):
        yield read | {"bbox": torch.arange(4).expand(BATCH, QUERY, 4).contiguous()}
    if accepts(model, "pixel_values"):
        for made in pictures(model):
            yield read | {"pixel_values": made}
    for name in ("input_features", "input_values"):
        if accepts(model, name):
            for made in sound(model, name):
                yield read | {name: made}


def patches(model: Any) -> Iterator[dict[str, Tensor]]:
    """Make the patches of one picture in a row, with their grid; or of a batch of pictures, with their places."""
    names = list(inspect.signature(model.forward).parameters)
    grid = next((name for name in names if name.endswith("grid_thw")), None)
    config, side = model.config, 4
    size = getattr(config, "patch_size", 8)
    size = size if isinstance(size, int) else size[0]
    channels = next(
        (
            n
            for name in ("in_channels", "num_channels")
            if isinstance(n := getattr(config, name, 0), int) and n
        ),
        3,
    )
    numbers = channels * size * size
    if grid is not None:
        times = getattr(config, "temporal_patch_size", 1)
        rows = [(side**2, numbers * many) for many in dict.fromkeys((times, 1, 2))]
        shapes = [*rows, (side**2, channels, size, size), (1, side**2, numbers),
                  (side**2, channels, times, size, size), (side**2, times, size, size, channels)]  # fmt: skip
        rest = {grid: torch.tensor([[1, side, side]])} | _only(names, merge_sizes=torch.tensor([2]))
        for shape in shapes:
            yield {names[0]: torch.randn(*shape, generator=generator())} | rest
    places = torch.cartesian_prod(torch.arange(6), torch.arange(6)).expand(BATCH, 36, 2)
    row = _only(names, pixel_attention_mask=torch.ones(BATCH, 36, dtype=torch.long), pixel_position_ids=places,
                spatial_shapes=torch.tensor([[6, 6]] * BATCH), tgt_sizes=torch.tensor([[6, 6]] * BATCH),
                target_sizes=torch.tensor([[6, 6]] * BATCH))  # fmt: skip
    if row:
        yield {"pixel_values": torch.rand(BATCH, 36, numbers, generator=generator())} | row
        yield {"pixel_values": torch.rand(1, channels, size, 36 * size, generator=generator())} | {
            name: value[:1] for name, value in row.items()
        }


def _only(names: Collection[str], **made: Tensor) -> dict[str, Tensor]:
    return {name: value for name, value in made.items() if name in names}


def generator() -> torch.Generator:
    """Give a generator that makes the same numbers each time."""
    return torch.Generator().manual_seed(11)


def text(model: Any, side: str | None) -> dict[str, Tensor]:
    """Make token ids, a mask, and what the decoder reads."""
    inputs = {"input_ids": ids(QUERY)}
    if accepts(model, "attention_mask"):
        inputs["attention_mask"] = mask(side)
    if getattr(model.config, "is_encoder_decoder", False) and accepts(model, "decoder_input_ids"):
        inputs["decoder_input_ids"] = ids(TARGET)
    return inputs


def ids(length: int) -> Tensor:
    """Make token ids that are no special ones."""
    return torch.randint(8, VOCABULARY - 60, (BATCH, length), generator=generator())


def mask(side: str | None) -> Tensor:
    """Make a padding mask."""
    made = torch.ones(BATCH, QUERY, dtype=torch.long)
    if side == "left":
        made[1, :PADDED] = 0
    elif side == "right":
        made[1, -PADDED:] = 0
    return made


def pictures(model: Any) -> Iterator[Tensor]:
    """Make pictures of the size that the config names, and of some others."""
    config = model.config
    for name in ("vision_config", "backbone_config"):
        config = getattr(config, name, None) or config
    size = getattr(config, "image_size", 32)
    height, width = (size, size) if isinstance(size, int) else tuple(size)[:2]
    channels = getattr(config, "num_channels", getattr(config, "in_channels", 3))
    channels = channels if isinstance(channels, int) else 3
    frames = getattr(config, "num_frames", None)
    yield torch.randn(BATCH, channels, height, width, generator=generator())
    if isinstance(frames, int):
        yield torch.randn(BATCH, frames, channels, height, width, generator=generator())
    yield torch.randn(BATCH, channels, 64, 64, generator=generator())


def sound(model: Any, name: str) -> Iterator[Tensor]:
    """Make samples, or features of the number of bins that the config names."""
    if name in ("input_values", "audio_values"):
        yield torch.randn(BATCH, 4000, generator=generator())
        yield torch.randn(BATCH, 3840, generator=generator())
        yield torch.randn(BATCH, 1, 4000, generator=generator())
    config = model.config
    for sub in ("audio_config", "encoder_config"):
        config = getattr(config, sub, None) or config
    names = (
        "num_mel_bins",
        "input_feat_size",
        "input_dim",
        "input_size",
        "input_feat_per_channel",
        "feature_projection_input_dim",
        "n_mels",
    )
    bins = next((value for name in names if isinstance(value := getattr(config, name, None), int)), 80)
    length = getattr(config, "max_source_positions", None) or getattr(config, "max_length", None) or 64
    yield torch.randn(BATCH, bins, 2 * length, generator=generator())
    yield torch.randn(BATCH, length, bins, generator=generator())
    yield torch.randn(BATCH, 64, bins, generator=generator())
