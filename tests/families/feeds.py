"""Families that want other inputs than their main input's name tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

ModelBatch = Callable[[Any, str | None], dict[str, Tensor]]


def _noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(11))


def _ids(*shape: int, high: int = 200) -> Tensor:
    return torch.randint(8, high, shape, generator=torch.Generator().manual_seed(11))


def _pixtral(model: Any, side: str | None) -> dict[str, Tensor]:
    return {"pixel_values": _noise(1, 3, 32, 32)}


def _dia(model: Any, side: str | None) -> dict[str, Tensor]:
    channels = model.config.decoder_config.num_channels
    return {"input_ids": _ids(2, 14), "decoder_input_ids": _ids(2, 9, channels)}


def _bros(model: Any, side: str | None) -> dict[str, Tensor]:
    return {"input_ids": _ids(2, 14), "bbox": torch.rand(2, 14, 8, generator=torch.Generator().manual_seed(1)),
            "attention_mask": _mask(side)}  # fmt: skip


def _mask(side: str | None) -> Tensor:
    made = torch.ones(2, 14, dtype=torch.long)
    if side is not None:
        made[1, slice(0, 4) if side == "left" else slice(-4, None)] = 0
    return made


def _lxmert(model: Any, side: str | None) -> dict[str, Tensor]:
    return {"input_ids": _ids(2, 14), "visual_feats": _noise(2, 5, model.config.visual_feat_dim),
            "visual_pos": torch.rand(2, 5, 4)}  # fmt: skip


def _qformer(model: Any, side: str | None) -> dict[str, Tensor]:
    config = model.config
    return {"query_embeds": _noise(2, 6, config.hidden_size),
            "encoder_hidden_states": _noise(2, 9, config.encoder_hidden_size)}  # fmt: skip


def _perceiver(model: Any, side: str | None) -> dict[str, Tensor]:
    return {"inputs": _noise(2, 14, model.config.d_model)}


def _time_series(model: Any, side: str | None) -> dict[str, Tensor]:
    config = model.config
    past = config.context_length + max(config.lags_sequence)
    return {"past_values": _noise(2, past), "past_time_features": _noise(2, past, config.num_time_features),
            "past_observed_mask": torch.ones(2, past), "future_values": _noise(2, config.prediction_length),
            "future_time_features": _noise(2, config.prediction_length, config.num_time_features)}  # fmt: skip


def _speech(model: Any, side: str | None) -> dict[str, Tensor]:
    return {"input_values": _noise(2, 14, 32), "decoder_input_values": _noise(2, 9, 32)}


FEEDS: dict[str, ModelBatch] = {
    "pixtral": _pixtral,
    "dia": _dia,
    "bros": _bros,
    "lxmert": _lxmert,
    "blip_2_qformer": _qformer,
    "perceiver": _perceiver,
    "time_series_transformer": _time_series,
    "informer": _time_series,
    "autoformer": _time_series,
    "speecht5": _speech,
}
