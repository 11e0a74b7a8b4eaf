"""Inputs for a tiny model of any family: text with padding on either side, pictures, sound."""

from __future__ import annotations

from typing import Any

import torch
from families.configs import VOCABULARY, accepts
from families.feeds import FEEDS
from torch import Tensor

BATCH, QUERY, TARGET = 2, 14, 9
PADDED = 4


def made_inputs(family: str, model: Any, side: str | None) -> dict[str, Tensor]:
    """Make the inputs of one forward pass.

    Args:
        side: ``left`` or ``right`` to pad the second text by `PADDED`; None for no padding.
    """
    if family in FEEDS:
        return FEEDS[family](model, side)
    name = str(getattr(model, "main_input_name", "input_ids"))
    if accepts(model, "input_ids"):
        return text(model, side)
    if name.startswith(("pixel_values", "images")):
        return {name: pictures(model)}
    if name in ("input_values", "input_features", "audio_values"):
        return {name: sound(model, name)}
    raise LookupError(f"no input known for {name}")


def generator() -> torch.Generator:
    """Give a generator that makes the same numbers each time."""
    return torch.Generator().manual_seed(11)


def text(model: Any, side: str | None) -> dict[str, Tensor]:
    """Make token ids, a mask, and what the decoder reads."""
    inputs = {"input_ids": ids(QUERY)}
    if side is not None or accepts(model, "attention_mask"):
        inputs["attention_mask"] = mask(side)
    if getattr(model.config, "is_encoder_decoder", False):
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


def pictures(model: Any) -> Tensor:
    """Make pictures of the size that the config names."""
    config = model.config
    for name in ("vision_config", "backbone_config"):
        config = getattr(config, name, None) or config
    size = getattr(config, "image_size", 32)
    height, width = (size, size) if isinstance(size, int) else tuple(size)[:2]
    channels = getattr(config, "num_channels", getattr(config, "in_channels", 3))
    return torch.randn(BATCH, channels, height, width, generator=generator())


def sound(model: Any, name: str) -> Tensor:
    """Make samples, or the features that the config names."""
    if name != "input_features":
        return torch.randn(BATCH, 4000, generator=generator())
    config = model.config
    for sub in ("audio_config", "encoder_config"):
        config = getattr(config, sub, None) or config
    for attribute in ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "n_mels"):
        bins = getattr(config, attribute, None)
        if isinstance(bins, int):
            break
    else:
        bins = 80
    positions = getattr(config, "max_source_positions", None)
    if type(model).__name__.startswith(("Whisper", "Voxtral", "Qwen2Audio", "Qwen3", "AudioFlamingo", "Glm", "Moss")):
        return torch.randn(BATCH, bins, 2 * positions if positions else 64, generator=generator())
    return torch.randn(BATCH, 64, bins, generator=generator())
