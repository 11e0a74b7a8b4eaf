"""Writes a family's tiny model into a folder as people have them: config, weights, and what makes inputs ready."""

from __future__ import annotations

import inspect
import json
from inspect import signature
from pathlib import Path
from typing import Any

from families.configs import VOCABULARY

from attncli.models.towers import main_input

WORDS = "the animal did not cross street because it was too tired and dogs sleep".split()
SPECIALS = ["<pad>", "<unk>", "<s>", "</s>", "<mask>", "<x>", "<y>", "<z>"]
TEXT = " ".join(WORDS)
PAIR = " ".join(reversed(WORDS[:9]))
RATE = 16_000
BYTES = frozenset(
    {"qwen4_exp", "qwen2", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "hyperclovax_vision_v2"}
)
"""Families whose tokenizers split a text their own way, whatever the file says: they get the words as added tokens."""


class NoProcessor(Exception):
    """Nothing is known that makes inputs ready for a family, for the reason given."""


def medium(model: Any) -> str:
    """Tell whether a model takes a text, a picture or a sound.

    Raises:
        NoProcessor: It takes something else.
    """
    main = main_input(model)
    for name, known in {"text": ("input_ids",), "picture": ("pixel_values",),
                        "sound": ("input_values", "input_features", "audio_values")}.items():  # fmt: skip
        if main in known:
            return name
    raise NoProcessor(f"its input is {main}")


def write_folder(model: Any, folder: Path) -> str:
    """Write a model, a tokenizer and a processor; give what is to be typed after ``attncli show``.

    Raises:
        NoProcessor: None fits.
    """
    takes, rate = medium(model), RATE
    if takes == "picture":
        _image_processor(model).save_pretrained(folder)
    elif takes == "sound":
        extractor = _feature_extractor(model)
        extractor.save_pretrained(folder)
        rate = extractor.sampling_rate
    model.save_pretrained(folder)
    write_tokenizer(folder, model.config.model_type)
    if takes == "text":
        return TEXT
    return str(_picture(folder / "picture.png") if takes == "picture" else _sound(folder / "sound.wav", rate))


def write_tokenizer(folder: Path, family: str = "") -> None:
    """Write a tokenizer that knows the words of the texts; their ids are no special ones."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    words = [*SPECIALS, *WORDS]
    words += [f"w{number}" for number in range(len(words), VOCABULARY)]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(SPECIALS)
    if family in BYTES:
        made.add_tokens([AddedToken(word, lstrip=True, single_word=True) for word in WORDS])
    made.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "TokenizersBackend", "pad_token": "<pad>", "unk_token": "<unk>",
                "model_input_names": ["input_ids", "attention_mask"]}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def _image_processor(model: Any) -> Any:
    """Make the family's own image processor, or ViT's, for the size of picture that its config names."""
    import transformers
    from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES as KNOWN

    config = model.config
    size = getattr(config, "image_size", 32)
    height, width = (size, size) if isinstance(size, int) else tuple(size)[:2]
    family = config.model_type.removesuffix("_vision_model").removesuffix("_vision")
    own = (KNOWN.get(config.model_type) or KNOWN.get(family) or {}).get("pil", "ViTImageProcessorPil")
    if own.startswith("Siglip2"):
        return getattr(transformers, own)(patch_size=config.patch_size, max_num_patches=16)
    if any(name.endswith("grid_thw") for name in inspect.signature(model.forward).parameters):
        patch = {"patch_size": config.patch_size, "min_pixels": 1024, "max_pixels": 4096}
        patch |= {"temporal_patch_size": getattr(config, "temporal_patch_size", 1)}
        return getattr(transformers, own)(**patch)
    wanted = {"size": {"height": height, "width": width}, "do_center_crop": False, "do_pad": False}
    for name in (own, "ViTImageProcessorPil"):
        try:
            made = getattr(transformers, name)(**wanted)
            if made(_noise(), return_tensors="pt")["pixel_values"].shape[-2:] == (height, width):
                return made
        except Exception:  # whatever a family's own code raises: it wants something else
            continue
    raise NoProcessor("no image processor makes pictures of its size")


def _feature_extractor(model: Any) -> Any:
    """Make the family's own feature extractor, or Wav2Vec2's where it takes samples."""
    import transformers
    from transformers.models.auto.feature_extraction_auto import FEATURE_EXTRACTOR_MAPPING_NAMES as KNOWN

    config, samples = model.config, getattr(model, "main_input_name", "") in ("input_values", "audio_values")
    family = config.model_type
    parts = [family, *(family.removesuffix(end) for end in ("_encoder", "_audio", "_audio_encoder"))]
    name = next(
        (KNOWN[part] for part in parts if part in KNOWN), "Wav2Vec2FeatureExtractor" if samples else None
    )
    if name == "Wav2Vec2FeatureExtractor" and not samples:
        name = "SeamlessM4TFeatureExtractor"  # as all checkpoints of Wav2Vec2-BERT have it
    if name is None:
        raise NoProcessor("transformers names no feature extractor for it")
    wanted: dict[str, Any] = {}
    bins = getattr(getattr(config, "encoder_config", config), "num_mel_bins", None)
    if isinstance(bins, int):
        wanted = {"feature_size": bins, "num_mel_bins": bins}
    if (
        hasattr(config, "max_source_positions")
        and "chunk_length" in signature(getattr(transformers, name)).parameters
    ):
        wanted["chunk_length"] = config.max_source_positions // 50
    if name == "ASTFeatureExtractor":
        wanted["max_length"] = config.max_length
    try:
        return getattr(transformers, name)(**wanted)
    except Exception as error:  # an optional library is missing, or its arguments have other names
        raise NoProcessor(" ".join(str(error).split())[:80]) from error


def _noise() -> Any:
    import numpy as np
    from PIL import Image

    return Image.fromarray(np.random.default_rng(11).integers(0, 256, (48, 64, 3), dtype=np.uint8))


def _picture(path: Path) -> Path:
    _noise().save(path)
    return path


def _sound(path: Path, rate: int) -> Path:
    import wave

    import numpy as np

    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.random.default_rng(11).normal(0, 3000, rate // 2)).astype("<i2").tobytes())
    return path
