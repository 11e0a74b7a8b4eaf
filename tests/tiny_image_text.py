"""Tiny random models of texts with pictures, each with its family's own processor, in plain Hugging Face folders."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tiny
import transformers

FAMILIES = (
    "llava", "llava_next", "llava_onevision", "pixtral", "mistral3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "gemma3",
    "paligemma", "idefics2", "idefics3", "smolvlm", "internvl",
)  # fmt: skip
NEEDS = {"pixtral": "torchvision", "mistral3": "torchvision", "smolvlm": "num2words"}
"""What a family's processor needs that attncli does not."""

_WORDS = "[UNK] <pad> <s> </s> what is on the table ? a cat user answer :".split()
_MARKS = [
    "<image>", "[IMG]", "[IMG_BREAK]", "[IMG_END]", "<boi>", "<eoi>", "<|image_pad|>", "<|video_pad|>",
    "<|vision_start|>", "<|vision_end|>", "<img>", "</img>",
    "<IMG_CONTEXT>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>",
    *(f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)),
]  # fmt: skip
TEMPLATE = (
    "{% for m in messages %}{{ m.role }} : {% for c in m.content %}"
    "{% if c.type == 'image' %}MARK{% else %}{{ c.text }}{% endif %}{% endfor %} {% endfor %}"
    "{% if add_generation_prompt %}answer :{% endif %}"
)

_TEXT = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 2048}  # fmt: skip
_VISION = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
           "patch_size": 8}  # fmt: skip


def write_image_text(folder: Path, family: str, *, template: bool = False, local: bool = False) -> Path:
    """Write a model with its processor.

    Args:
        template: Whether the processor has a chat template.
        local: Whether the layers that see pictures add nothing, so that each image token comes from its own patch.
    """
    import torch

    processor = globals()[f"_{family}_processor"](_tokenizer())
    if template:
        mark = str(processor.image_token)
        mark = f"<|vision_start|>{mark}<|vision_end|>" if family.startswith("qwen") else mark
        processor.chat_template = TEMPLATE.replace("MARK", mark)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        config = globals()[f"_{family}_config"](processor.tokenizer)
        model = transformers.AutoModelForImageTextToText.from_config(config)
        for name, weight in model.named_parameters():
            if "mm_input_projection" in name:  # begins with zeros
                torch.nn.init.normal_(weight, std=0.2)
    if local:
        _silence(model)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _silence(model: Any) -> None:
    """Let the layers of the vision tower pass on what they are given, attention and feed-forward adding zero."""
    import torch

    ends = ("out_proj", "o_proj", "projection_layer", "attn.proj", "fc2", "down_proj")
    tower = model.model.get_submodule("visual" if hasattr(model.model, "visual") else _tower(model))
    for name, module in tower.named_modules():
        if name.endswith(ends) and "merger" not in name and isinstance(module, torch.nn.Linear):
            module.weight.data.zero_()
            if module.bias is not None:
                module.bias.data.zero_()


def _tower(model: Any) -> str:
    return "vision_tower" if hasattr(model.model, "vision_tower") else "vision_model"


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: number for number, word in enumerate([*_WORDS, *_MARKS])}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="[UNK]", pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        additional_special_tokens=_MARKS,
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip


def _with(tokenizer: Any, **names: str) -> Any:
    """Return the tokenizer with names for some of its tokens, as a family's own has them."""
    tokenizer._set_model_specific_special_tokens(special_tokens=names)
    return tokenizer


def _with_videos(made: Any, images: Any, tokenizer: Any, videos: str, **sizes: Any) -> Any:
    """Make a processor of pictures and videos; where torchvision is not installed, without its part for videos."""
    if find_spec("torchvision") is not None:
        return made(images, tokenizer, getattr(transformers, videos)(), **sizes)
    parts = classmethod(lambda cls: ["image_processor", "tokenizer"])
    return type(made.__name__, (made,), {"get_attributes": parts})(images, tokenizer, None, **sizes)


def _id(tokenizer: Any, token: str) -> int:
    return int(tokenizer.convert_tokens_to_ids(token))


def _llama(tokenizer: Any) -> Any:
    return transformers.LlamaConfig(
        vocab_size=len(tokenizer), pad_token_id=1, bos_token_id=2, eos_token_id=3, **_TEXT
    )


def _clip(size: int) -> Any:
    return transformers.CLIPVisionConfig(image_size=size, **_VISION)


def _siglip(size: int) -> Any:
    return transformers.SiglipVisionConfig(image_size=size, vision_use_head=False, **_VISION)


def _llava_config(tokenizer: Any) -> Any:
    return transformers.LlavaConfig(text_config=_llama(tokenizer), vision_config=_clip(32),
                       image_token_index=_id(tokenizer, "<image>"), vision_feature_layer=-1)  # fmt: skip


def _llava_processor(tokenizer: Any) -> Any:
    images = tiny.image_processor("CLIP")(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return transformers.LlavaProcessor(images, tokenizer, patch_size=8, vision_feature_select_strategy="default",
                          num_additional_image_tokens=1)  # fmt: skip


_PINPOINTS = [[32, 64], [64, 32], [64, 64]]


def _llava_next_config(tokenizer: Any) -> Any:
    return transformers.LlavaNextConfig(
        text_config=_llama(tokenizer),
        vision_config=_clip(32),
        image_grid_pinpoints=_PINPOINTS,
        image_token_index=_id(tokenizer, "<image>"),
        vision_feature_layer=-1,
    )


def _llava_next_processor(tokenizer: Any) -> Any:
    images = tiny.image_processor("LlavaNext")(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}, image_grid_pinpoints=_PINPOINTS
    )
    return transformers.LlavaNextProcessor(images, tokenizer, patch_size=8, vision_feature_select_strategy="default",
                              num_additional_image_tokens=1)  # fmt: skip


def _llava_onevision_config(tokenizer: Any) -> Any:
    marks = {
        "image_token_index": _id(tokenizer, "<image>"),
        "video_token_index": _id(tokenizer, "<|video_pad|>"),
    }
    return transformers.LlavaOnevisionConfig(
        text_config=_llama(tokenizer),
        vision_config=_siglip(32),
        vision_feature_layer=-1,
        image_grid_pinpoints=_PINPOINTS,
        **marks,
    )


def _llava_onevision_processor(tokenizer: Any) -> Any:
    images = tiny.image_processor("LlavaOnevision")(
        size={"height": 32, "width": 32}, image_grid_pinpoints=_PINPOINTS
    )
    return _with_videos(
        transformers.LlavaOnevisionProcessor,
        images,
        tokenizer,
        "LlavaOnevisionVideoProcessor",
        num_image_tokens=16,
        vision_feature_select_strategy="full",
        video_token="<|video_pad|>",
    )


def _pixtral_config(tokenizer: Any) -> Any:
    vision = transformers.PixtralVisionConfig(image_size=64, **_VISION)
    return transformers.LlavaConfig(text_config=_llama(tokenizer), vision_config=vision, vision_feature_layer=-1,
                       image_token_index=_id(tokenizer, "[IMG]"), vision_feature_select_strategy="full")  # fmt: skip


def _pixtral_processor(tokenizer: Any, merge: int = 1) -> Any:
    images = tiny.image_processor("Pixtral")(size={"longest_edge": 64}, patch_size={"height": 8, "width": 8})
    return transformers.PixtralProcessor(images, tokenizer, patch_size=8, spatial_merge_size=merge)


def _mistral3_config(tokenizer: Any) -> Any:
    text = _TEXT | {"vocab_size": len(tokenizer), "head_dim": 8, "model_type": "mistral"}
    vision = transformers.PixtralVisionConfig(image_size=64, **_VISION)
    return transformers.Mistral3Config(
        text_config=text,
        vision_config=vision,
        image_token_index=_id(tokenizer, "[IMG]"),
        spatial_merge_size=2,
        vision_feature_layer=-1,
    )


def _mistral3_processor(tokenizer: Any) -> Any:
    return _pixtral_processor(tokenizer, 2)


def _qwen(tokenizer: Any, kind: str, vision: dict[str, Any], **rope: Any) -> Any:
    text = _TEXT | {"vocab_size": len(tokenizer), "bos_token_id": 2, "eos_token_id": 3,
                    "rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1]} | rope}  # fmt: skip
    text |= {"head_dim": 8} if kind == "Qwen3VL" else {}
    marks = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>",
             "vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}  # fmt: skip
    ids = {name: _id(tokenizer, mark) for name, mark in marks.items()}
    common = {"depth": 2, "hidden_size": 32, "num_heads": 4, "patch_size": 8}
    return getattr(transformers, f"{kind}Config")(text_config=text, vision_config=common | vision, **ids)


def _qwen_processor(tokenizer: Any, kind: str, videos: str) -> Any:
    images = tiny.image_processor("Qwen2VL")(
        patch_size=8, size={"shortest_edge": 16 * 16, "longest_edge": 96 * 96}
    )
    return _with_videos(
        getattr(transformers, f"{kind}Processor"), images, tokenizer, f"{videos}VideoProcessor"
    )


def _qwen2_vl_config(tokenizer: Any) -> Any:
    return _qwen(tokenizer, "Qwen2VL", {"embed_dim": 32, "mlp_ratio": 2})


def _qwen2_vl_processor(tokenizer: Any) -> Any:
    return _qwen_processor(tokenizer, "Qwen2VL", "Qwen2VL")


def _qwen2_5_vl_config(tokenizer: Any) -> Any:
    vision = {"intermediate_size": 48, "out_hidden_size": 32, "fullatt_block_indexes": [1], "window_size": 32}
    return _qwen(tokenizer, "Qwen2_5_VL", vision)


def _qwen2_5_vl_processor(tokenizer: Any) -> Any:
    return _qwen_processor(tokenizer, "Qwen2_5_VL", "Qwen2VL")


def _qwen3_vl_config(tokenizer: Any) -> Any:
    vision = {"intermediate_size": 48, "out_hidden_size": 32, "deepstack_visual_indexes": [0],
              "num_position_embeddings": 64}  # fmt: skip
    return _qwen(tokenizer, "Qwen3VL", vision, mrope_interleaved=True)


def _qwen3_vl_processor(tokenizer: Any) -> Any:
    return _qwen_processor(tokenizer, "Qwen3VL", "Qwen3VL")


def _gemma3_config(tokenizer: Any) -> Any:
    text = _TEXT | {"vocab_size": len(tokenizer), "head_dim": 8, "sliding_window": 64}
    vision = _VISION | {"image_size": 64, "vision_use_head": False}
    return transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=16,
                        image_token_index=_id(tokenizer, "<image>"), boi_token_index=_id(tokenizer, "<boi>"),
                        eoi_token_index=_id(tokenizer, "<eoi>"), initializer_range=0.2)  # fmt: skip


def _gemma3_processor(tokenizer: Any) -> Any:
    images = tiny.image_processor("Gemma3")(size={"height": 64, "width": 64})
    named = _with(tokenizer, image_token="<image>", boi_token="<boi>", eoi_token="<eoi>")
    return transformers.Gemma3Processor(images, named, image_seq_length=16)


def _paligemma_config(tokenizer: Any) -> Any:
    text = _TEXT | {"vocab_size": len(tokenizer), "head_dim": 8, "model_type": "gemma"}
    return transformers.PaliGemmaConfig(text_config=text, vision_config=_siglip(32).to_dict(), projection_dim=32,
                           image_token_index=_id(tokenizer, "<image>"))  # fmt: skip


def _paligemma_processor(tokenizer: Any) -> Any:
    images = tiny.image_processor("Siglip")(size={"height": 32, "width": 32})
    images.image_seq_length = 16
    return transformers.PaliGemmaProcessor(images, tokenizer)


def _idefics2_config(tokenizer: Any) -> Any:
    perceiver = {"resampler_n_latents": 9, "resampler_depth": 1, "resampler_n_heads": 2, "resampler_head_dim": 16,
                 "num_key_value_heads": 1, "hidden_size": 32}  # fmt: skip
    return transformers.Idefics2Config(
        text_config=_llama(tokenizer).to_dict(),
        vision_config=_VISION | {"image_size": 64},
        perceiver_config=perceiver,
        image_token_id=_id(tokenizer, "<image>"),
    )


def _idefics2_processor(tokenizer: Any) -> Any:
    images = tiny.image_processor("Idefics2")(
        size={"shortest_edge": 32, "longest_edge": 64}, do_image_splitting=False
    )
    return transformers.Idefics2Processor(images, tokenizer, image_seq_len=9)


def _idefics3_config(tokenizer: Any, kind: str = "Idefics3") -> Any:
    made = getattr(transformers, f"{kind}Config")
    return made(text_config=_llama(tokenizer).to_dict(), vision_config=_VISION | {"image_size": 32}, scale_factor=2,
                image_token_id=_id(tokenizer, "<image>"))  # fmt: skip


def _idefics3_processor(tokenizer: Any) -> Any:
    images = tiny.image_processor("Idefics3")(size={"longest_edge": 96}, max_image_size={"longest_edge": 32})
    return transformers.Idefics3Processor(images, tokenizer, image_seq_len=4)


def _smolvlm_config(tokenizer: Any) -> Any:
    return _idefics3_config(tokenizer, "SmolVLM")


def _smolvlm_processor(tokenizer: Any) -> Any:
    named = _with(tokenizer, image_token="<image>", fake_image_token="<fake_token_around_image>",
                  global_image_token="<global-img>", end_of_utterance_token="<end_of_utterance>")  # fmt: skip
    images = tiny.image_processor("SmolVLM")(size={"longest_edge": 96}, max_image_size={"longest_edge": 32})
    return _with_videos(
        transformers.SmolVLMProcessor, images, named, "SmolVLMVideoProcessor", image_seq_len=4
    )


def _internvl_config(tokenizer: Any) -> Any:
    vision = _VISION | {"image_size": [32, 32], "patch_size": [8, 8]}
    return transformers.InternVLConfig(
        text_config=_llama(tokenizer).to_dict(),
        vision_config=vision,
        image_seq_length=4,
        image_token_id=_id(tokenizer, "<IMG_CONTEXT>"),
    )


def _internvl_processor(tokenizer: Any) -> Any:
    images = tiny.image_processor("GotOcr2")(
        size={"height": 32, "width": 32}, crop_to_patches=True, max_patches=6
    )
    named = _with(tokenizer, start_image_token="<img>", end_image_token="</img>", context_image_token="<IMG_CONTEXT>",
                  video_token="<|video_pad|>")  # fmt: skip
    return _with_videos(
        transformers.InternVLProcessor, images, named, "InternVLVideoProcessor", image_seq_length=4
    )
