"""Tiny random models in plain Hugging Face folders, for tests that need a model but not a trained one."""

import json
from pathlib import Path
from typing import Any

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "the",
    "animal",
    "was",
    "too",
    "tired",
    "it",
    ".",
    "##s",
    "did",
    "cross",
]


def write_bert(folder: Path, **changes: Any) -> Path:
    """Write a BERT encoder of 2 layers × 3 heads whose vocabulary is `WORDS`, for texts of up to 16 tokens."""
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
    config = BertConfig(
        vocab_size=len(WORDS), max_position_embeddings=16, pad_token_id=0, **(sizes | changes)
    )
    return _write(folder, BertModel, config, _bert_tokenizer())


def write_llama(folder: Path, **changes: Any) -> Path:
    """Write a Llama decoder of 3 layers × 4 heads, 2 of them for keys and values."""
    from transformers import LlamaConfig, LlamaModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
             "intermediate_size": 48, "max_position_embeddings": 64}  # fmt: skip
    config = LlamaConfig(vocab_size=len(WORDS), **(sizes | changes))
    return _write(folder, LlamaModel, config, _word_tokenizer())


def write_gemma(folder: Path, *, bidirectional: bool) -> Path:
    """Write a Gemma of 2 layers × 4 heads that reads one way, or both."""
    from transformers import Gemma3TextConfig, Gemma3TextModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "head_dim": 8, "intermediate_size": 48, "max_position_embeddings": 64}  # fmt: skip
    config = Gemma3TextConfig(vocab_size=len(WORDS), use_bidirectional_attention=bidirectional, **sizes)
    return _write(folder, Gemma3TextModel, config, _word_tokenizer())


def write_hybrid(folder: Path) -> Path:
    """Write an LFM2 of 4 layers, of which 1 and 3 attend and the others are convolutions."""
    from transformers import Lfm2Config, Lfm2Model

    sizes = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
             "intermediate_size": 48, "max_position_embeddings": 64}  # fmt: skip
    types = ["conv", "full_attention"] * 2
    config = Lfm2Config(vocab_size=len(WORDS), layer_types=types, pad_token_id=0, **sizes)
    return _write(folder, Lfm2Model, config, _word_tokenizer())


def write_t5(folder: Path) -> Path:
    """Write a T5 of 2 + 3 layers × 4 heads."""
    from transformers import T5Config, T5Model

    config = T5Config(vocab_size=len(WORDS), d_model=32, d_kv=8, num_layers=2, num_decoder_layers=3, num_heads=4,
                      d_ff=48, decoder_start_token_id=1)  # fmt: skip
    return _write(folder, T5Model, config, _word_tokenizer())


def write_bloom(folder: Path) -> Path:
    """Write a BLOOM decoder, whose family does not go through transformers' attention interface."""
    from transformers import BloomConfig, BloomModel

    config = BloomConfig(vocab_size=len(WORDS), hidden_size=24, n_layer=2, n_head=3)
    return _write(folder, BloomModel, config, _word_tokenizer())


def write_whisper(folder: Path) -> Path:
    """Write a Whisper of 2 + 2 layers × 2 heads that hears 2 seconds: 100 positions of 20 ms."""
    from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

    sides = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in
             (("layers", 2), ("attention_heads", 2), ("ffn_dim", 40))}  # fmt: skip
    config = WhisperConfig(vocab_size=len(WORDS), d_model=24, num_mel_bins=10, max_source_positions=100,
                           max_target_positions=16, decoder_start_token_id=2, pad_token_id=0, bos_token_id=2,
                           eos_token_id=3, suppress_tokens=None, begin_suppress_tokens=None, **sides)  # fmt: skip
    _write(folder, WhisperForConditionalGeneration, config, _word_tokenizer())
    WhisperFeatureExtractor(feature_size=10, chunk_length=2).save_pretrained(folder)
    return folder


def write_sound_model(folder: Path, family: str) -> Path:
    """Write an encoder of sounds, 2 layers × 3 heads: wav2vec2, hubert, sew, wav2vec2-bert, AST."""
    import torch
    import transformers
    from transformers import AutoConfig, AutoModel

    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
    extractor = "Wav2Vec2FeatureExtractor"
    if family == "audio-spectrogram-transformer":
        sizes |= {"max_length": 56, "num_mel_bins": 36}  # 3 × 5 patches
        extractor, wanted = "ASTFeatureExtractor", {"max_length": 56, "num_mel_bins": 36}
    elif family == "wav2vec2-bert":
        sizes |= {"output_hidden_size": 24}
        extractor, wanted = "SeamlessM4TFeatureExtractor", {"feature_size": 80}
    else:
        channels = (64, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8) if family == "sew" else (8,) * 7
        sizes |= {"conv_dim": channels, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
        wanted = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = AutoModel.from_config(AutoConfig.for_model(family, **sizes))
        with torch.no_grad():
            for matrix in (one for one in model.parameters() if one.dim() > 1):
                matrix.copy_(
                    torch.randn_like(matrix) * 1.5 / matrix[0].numel() ** 0.5
                )  # attention is not flat
    model.save_pretrained(folder)
    getattr(transformers, extractor)(**wanted).save_pretrained(folder)
    return folder


def write_model(folder: Path, model: Any) -> Path:
    """Write a model of any family that reads words."""
    return _written(folder, model, _word_tokenizer())


def _write(folder: Path, kind: Any, config: Any, tokenizer: Any) -> Path:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = kind(config)
    return _written(folder, model, tokenizer)


def _written(folder: Path, model: Any, tokenizer: Any) -> Path:
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    names = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "model_input_names": inputs[:: 1 if type(model).__name__ == "BertModel" else 2],
    }
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "TokenizersBackend", **names})
    )
    return folder


def _bert_tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    made = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return made


def _word_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


def write_marian(folder: Path) -> Path:
    """Write a Marian encoder–decoder of 2 + 2 layers × 2 heads; its decoder starts with [PAD]."""
    from transformers import MarianConfig, MarianModel

    sides = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in
             (("layers", 2), ("attention_heads", 2), ("ffn_dim", 40))}  # fmt: skip
    config = MarianConfig(vocab_size=len(WORDS), d_model=24, max_position_embeddings=16, pad_token_id=0,
                          decoder_start_token_id=0, eos_token_id=3, **sides)  # fmt: skip
    return _write(folder, MarianModel, config, _word_tokenizer())


def image_processor(family: str) -> Any:
    """The family's image processor by PIL, under the name that the installed transformers has for it."""
    import transformers

    name = f"{family}ImageProcessor"
    return getattr(transformers, f"{name}Pil" if hasattr(transformers, f"{name}Pil") else name)


def write_vit(folder: Path, family: str = "vit", **changes: Any) -> Path:
    """Write a model of pictures, 48 × 32 pixels in 4 × 6 patches for most: ViT, DeiT, BEiT, DINOv2 with registers."""
    import torch
    from transformers import AutoConfig, AutoModel

    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
    if family == "dinov2_with_registers":
        sizes |= {"num_register_tokens": 2}
    size = 48 if family.startswith("dinov2") else (32, 48)  # these are stretched to the picture
    config = AutoConfig.for_model(
        family, **({"patch_size": 8, "image_size": size, "initializer_range": 0.15} | sizes | changes)
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = AutoModel.from_config(config)
    model.save_pretrained(folder)
    if family.startswith("dinov2"):
        size, crop = {"shortest_edge": 40}, {"height": 32, "width": 48}
        image_processor("Bit")(size=size, crop_size=crop).save_pretrained(folder)
    else:
        image_processor("ViT")(size={"height": 32, "width": 48}).save_pretrained(folder)
    return folder
