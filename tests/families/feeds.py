"""Families that want other inputs than their main input's name tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

ModelBatch = Callable[[Any, str | None], dict[str, Any]]


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


def _queried(model: Any, side: str | None) -> dict[str, Tensor]:
    """A picture and a text whose first tokens are replaced by what queries make of the picture."""
    config = model.config
    ids, count = _ids(2, 14), config.num_query_tokens
    ids[:, :count] = getattr(config, "image_token_index", None) or config.video_token_index
    made = {"pixel_values": _picture(config.vision_config), "input_ids": ids, "attention_mask": _mask(side)}
    if config.model_type == "instructblipvideo":
        ids[:, : 2 * count] = config.video_token_index
        made["pixel_values"] = made["pixel_values"][:, None].repeat(1, 2, 1, 1, 1)
    if "instruct" in config.model_type:
        made["qformer_input_ids"] = _ids(2, 5)
    if config.is_encoder_decoder:
        made["decoder_input_ids"] = _ids(2, 9)
    return made


def _picture(config: Any, *frames: int) -> Tensor:
    size = config.image_size
    return _noise(2, *frames, 3, *((size, size) if isinstance(size, int) else size))


def _kosmos(model: Any, side: str | None) -> dict[str, Tensor]:
    places = torch.zeros(2, 14)
    places[:, 5 : 5 + model.config.latent_query_num] = 1
    return {"pixel_values": _picture(model.config.vision_config), "input_ids": _ids(2, 14),
            "image_embeds_position_mask": places, "attention_mask": _mask(side)}  # fmt: skip


def _text(model: Any, side: str | None) -> dict[str, Tensor]:
    return {"input_ids": _ids(2, 14), "attention_mask": _mask(side)}


def _text_and_picture(model: Any, side: str | None) -> dict[str, Tensor]:
    return _text(model, side) | {"pixel_values": _picture(model.config.vision_config)}


def _idefics(model: Any, side: str | None) -> dict[str, Tensor]:
    return _text(model, side) | {"pixel_values": _picture(model.config.vision_config, 1),
                                 "image_attention_mask": torch.ones(2, 14, 1)}  # fmt: skip


def _xclip(model: Any, side: str | None) -> dict[str, Tensor]:
    vision = model.config.vision_config
    return _text(model, side) | {"pixel_values": _picture(vision, vision.num_frames)}


def _siglip2(model: Any, side: str | None) -> dict[str, Tensor]:
    vision = model.config.vision_config
    return _text(model, side) | {"pixel_values": _noise(2, 16, 3 * vision.patch_size**2),
                                 "pixel_attention_mask": torch.ones(2, 16, dtype=torch.long),
                                 "spatial_shapes": torch.tensor([[4, 4], [4, 4]])}  # fmt: skip


def _udop(model: Any, side: str | None) -> dict[str, Tensor]:
    boxes = torch.rand(2, 14, 4, generator=torch.Generator().manual_seed(1))
    return _text(model, side) | {"bbox": boxes, "decoder_input_ids": _ids(2, 9)}


def _clap(model: Any, side: str | None) -> dict[str, Tensor]:
    audio = model.config.audio_config
    return _text(model, side) | {"input_features": _noise(2, 1, audio.spec_size, audio.num_mel_bins)}


def _series(model: Any, side: str | None) -> dict[str, Tensor]:
    config = model.config
    return {"past_values": _noise(2, config.context_length, config.num_input_channels)}


def _decisions(model: Any, side: str | None) -> dict[str, Tensor]:
    config = model.config
    return {"states": _noise(2, 6, config.state_dim), "actions": _noise(2, 6, config.act_dim),
            "rewards": _noise(2, 6, 1), "returns_to_go": _noise(2, 6, 1), "timesteps": torch.arange(6).expand(2, 6),
            "attention_mask": torch.ones(2, 6, dtype=torch.long)}  # fmt: skip


def _codes(model: Any, side: str | None) -> dict[str, Tensor]:
    return {"input_ids": _ids(2, 14, 33)}


def _small_ids(model: Any, side: str | None) -> dict[str, Tensor]:
    return {"input_ids": _ids(2, 14, high=30), "attention_mask": _mask(side)}


def _segmentation(model: Any, side: str | None) -> dict[str, Tensor]:
    height, width = model.config.image_size
    return {"pixel_values": _noise(2, 3, height // 2, width), "prompt_pixel_values": _noise(2, 3, height // 2, width),
            "prompt_masks": _noise(2, 3, height // 2, width)}  # fmt: skip


def _tvp(model: Any, side: str | None) -> dict[str, Tensor]:
    return _text(model, side) | {"pixel_values": _noise(2, 2, 3, 64, 64)}


def _video(model: Any, side: str | None) -> dict[str, Tensor]:
    config = model.config
    return {"pixel_values_videos": _noise(2, config.frames_per_clip, 3, config.crop_size, config.crop_size)}


def _forecast(model: Any, side: str | None) -> dict[str, Tensor]:
    return {"past_values": _noise(2, 64), "past_values_padding": torch.zeros(2, 64),
            "freq": torch.zeros(2, 1, dtype=torch.long)}  # fmt: skip


def _as_tuple(model: Any, side: str | None) -> dict[str, Any]:
    return _text(model, side) | {"return_dict": False}  # its named outputs want what only pictures bring


def _uncached(model: Any, side: str | None) -> dict[str, Any]:
    return _text(model, side) | {"use_cache": False}


def _mels(model: Any, side: str | None) -> dict[str, Tensor]:
    bins = model.config.input_feat_size
    return {"audio_mel": _noise(2, 64, bins), "audio_mel_mask": torch.zeros(2, 64, dtype=torch.bool)}


def _stacked_mels(model: Any, side: str | None) -> dict[str, Tensor]:
    config = getattr(model.config, "encoder_config", None) or model.config
    return {"input_features": _noise(2, 40, 4 * config.num_mel_bins)}


def _nano(model: Any, side: str | None) -> dict[str, Tensor]:
    bins = model.config.num_mel_bins * model.config.num_stacked_frames
    return {"input_features": _noise(2, 20, bins), "input_features_mask": torch.ones(2, 20, dtype=torch.long)}


def _text_and_video(model: Any, side: str | None) -> dict[str, Tensor]:
    vision = model.config.vision_config
    size = vision.image_size
    return _text(model, side) | {"pixel_values_videos": _noise(2, vision.num_frames, 3, size, size)}


def _drafts(model: Any, side: str | None) -> dict[str, Tensor]:
    size = model.config.hidden_size
    (seen,) = (part.in_features for name, part in model.named_modules() if name.endswith("fc"))
    return {"noise_embeds": _noise(2, 5, size), "context_hidden_states": _noise(2, 9, seen)}


def _series_alone(model: Any, side: str | None) -> dict[str, Tensor]:
    return {"past_values": _noise(2, 128), "past_values_padding": torch.zeros(2, 128)}


FEEDS: dict[str, ModelBatch] = {
    "llama4": _as_tuple,
    "blt": _uncached,
    "dory": _uncached,
    "gemma3n_audio": _mels,
    "granite_speech5_ctc": _stacked_mels,
    "granite_speech5_encoder": _stacked_mels,
    "fun_asr_nano_encoder": _nano,
    "videoprism": _text_and_video,
    "muse_glimmer_assistant": _drafts,
    "timesfm2_5": _series_alone,
    "blip-2": _queried,
    "instructblip": _queried,
    "instructblipvideo": _queried,
    "kosmos-2": _kosmos,
    "idefics": _idefics,
    "xclip": _xclip,
    "siglip2": _siglip2,
    "udop": _udop,
    "clap": _clap,
    "patchtst": _series,
    "patchtsmixer": _series,
    "decision_transformer": _decisions,
    "kyutai_speech_to_text": _codes,
    "esmc": _small_ids,
    "vits": _small_ids,
    "fastspeech2_conformer": _small_ids,
    "seggpt": _segmentation,
    "tvp": _tvp,
    "vjepa2": _video,
    "timesfm": _forecast,
    "align": _text_and_picture,
    "sam3": _text_and_picture,
    "sam3_lite_text": _text_and_picture,
    "sam3_lite_text_text_model": _text,
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
