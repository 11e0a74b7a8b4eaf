"""Converts annalog, which rewrites molecules, to a Marian folder: ``python convert_annalog.py PACKAGES OUT``.

Its model is the transformer of Vaswani et al. 2017 with learned positions and layer norms after each
sub-layer, which is what Marian computes too; only the names differ. Of the package nothing is run: the
checkpoint and the vocabulary are read as data.
"""

import io
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

LAYERS, HEADS, WIDTH, INNER, POSITIONS = 3, 8, 256, 512, 102
UNKNOWN, PAD, START, END = range(4)
SYMBOL = r"\[[^\]]+\]|Br|Cl|%\d\d|."
"""One symbol of SMILES: a bracketed atom, a two-letter halogen, a ring number above 9, or one character."""


class PlainUnpickler(pickle.Unpickler):
    """Reads lists, dicts, texts and numbers, and refuses whatever would run code."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"the vocabulary asks for {module}.{name}")


def read_vocabulary(path: Path) -> list[str]:
    return PlainUnpickler(io.BytesIO(path.read_bytes())).load()["itos"]


def renamed_layer(target: str, source: str) -> Iterator[tuple[str, str]]:
    """Pair our names of a layer's maps with the checkpoint's."""
    blocks = {"self_attn": "self_attention"}
    norms = {"self_attn_layer_norm": "self_attn_layer_norm", "final_layer_norm": "ff_layer_norm"}
    if ".decoder." in target:
        blocks["encoder_attn"] = "encoder_attention"
        norms["encoder_attn_layer_norm"] = "enc_attn_layer_norm"
    for ours, theirs in blocks.items():
        for projection, letter in (("q_proj", "q"), ("k_proj", "k"), ("v_proj", "v"), ("out_proj", "o")):
            yield f"{target}.{ours}.{projection}", f"{source}.{theirs}.fc_{letter}"
    for ours, theirs in norms.items():
        yield f"{target}.{ours}", f"{source}.{theirs}"
    for name in ("1", "2"):
        yield f"{target}.fc{name}", f"{source}.positionwise_feedforward.fc_{name}"


def renamed(weights: dict) -> dict:
    """Give the checkpoint's weights Marian's names."""
    found = {
        "lm_head.weight": weights["decoder.fc_out.weight"],
        "final_logits_bias": weights["decoder.fc_out.bias"][None],
    }
    for side in ("encoder", "decoder"):
        found[f"model.{side}.embed_tokens.weight"] = weights[f"{side}.tok_embedding.weight"]
        found[f"model.{side}.embed_positions.weight"] = weights[f"{side}.pos_embedding.weight"]
        for index in range(LAYERS):
            for ours, theirs in renamed_layer(f"model.{side}.layers.{index}", f"{side}.layers.{index}"):
                found[f"{ours}.weight"] = weights[f"{theirs}.weight"]
                found[f"{ours}.bias"] = weights[f"{theirs}.bias"]
    return found


def config_of(symbols: int):
    from transformers import MarianConfig

    sides = {
        f"{side}_{what}": value
        for side in ("encoder", "decoder")
        for what, value in (("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", INNER))
    }
    return MarianConfig(
        **sides,
        vocab_size=symbols,
        decoder_vocab_size=symbols,
        d_model=WIDTH,
        max_position_embeddings=POSITIONS,
        activation_function="relu",
        scale_embedding=True,
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
        dropout=0.1,
        pad_token_id=PAD,
        bos_token_id=START,
        eos_token_id=END,
        decoder_start_token_id=START,
        forced_eos_token_id=None,
        architectures=["MarianMTModel"],
    )


def tokenizer_of(symbols: list[str]):
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    ids = {symbol: number for number, symbol in enumerate(symbols)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(SYMBOL), behavior="isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<sos> $A <eos>", special_tokens=[("<sos>", START), ("<eos>", END)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", bos_token="<sos>", eos_token="<eos>"
    )


def convert(packages: Path, out: Path) -> None:
    import torch
    from safetensors.torch import save_file

    source = packages / "annalog" / "ckpt_and_vocab"
    symbols = read_vocabulary(source / "stereo_experiment_vocab_ttf.pkl")
    weights = torch.load(source / "Lev_extended.pt", map_location="cpu", weights_only=True)
    out.mkdir(parents=True)
    config_of(len(symbols)).save_pretrained(out)
    tokenizer_of(symbols).save_pretrained(out)
    tensors = {name: weight.clone().contiguous() for name, weight in renamed(weights).items()}
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
