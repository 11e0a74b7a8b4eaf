import json
from pathlib import Path
from typing import Any

import pytest
import torch

from attncli.commands.tokens import tokens_view
from attncli.errors import CaptureError, ModelError
from attncli.models.loading import load
from attncli.models.prepared_text import prepare
from attncli.models.pretrained import open_model
from attncli.models.python_tokenizers import align, read_text
from attncli.observers.selection import Selection
from attncli.observers.weights import FullWeights
from attncli.observers.words import require_offsets
from attncli.record import Tokens

AMINO_ACIDS = "LAGVSERTIDPKQNFYMHWCXBUZO.-"
SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
LETTERS = "abcdehknotu'&;ps"


def write(folder: Path, model: Any, tokenizer_class: str, **files: str) -> str:
    """Write a model, and a tokenizer of which transformers has no fast form."""
    model.save_pretrained(folder)
    files["tokenizer_config_json"] = json.dumps({"tokenizer_class": tokenizer_class})
    for name, content in files.items():
        stem, _, ending = name.rpartition("_")
        (folder / f"{stem}.{ending}").write_text(content, encoding="utf-8")
    return str(folder)


def write_esm(folder: Path) -> str:
    from transformers import EsmConfig, EsmModel

    vocabulary = ["<cls>", "<pad>", "<eos>", "<unk>", *AMINO_ACIDS, "<null_1>", "<mask>"]
    config = EsmConfig(vocab_size=len(vocabulary), mask_token_id=32, pad_token_id=1,
                       position_embedding_type="rotary", **SIZES)  # fmt: skip
    return write(folder, EsmModel(config), "EsmTokenizer", vocab_txt="\n".join(vocabulary))


def write_byt5(folder: Path) -> str:
    from transformers import T5Config, T5Model

    config = T5Config(vocab_size=384, d_model=32, d_kv=8, num_layers=2, num_heads=3, d_ff=48,
                      decoder_start_token_id=0)  # fmt: skip
    return write(folder, T5Model(config), "ByT5Tokenizer")


def write_phobert(folder: Path) -> str:
    from transformers import RobertaConfig, RobertaModel

    pieces = ["the", "ca@@", "t", *(f"{letter}@@" for letter in LETTERS), *LETTERS.replace("t", "")]
    config = RobertaConfig(vocab_size=len(pieces) + 5, max_position_embeddings=40, pad_token_id=1, **SIZES)
    return write(folder, RobertaModel(config), "PhobertTokenizer",
                 vocab_txt="".join(f"{piece} 9\n" for piece in pieces),
                 bpe_codes="t h 10\nth e</w> 9\nc a 8\n")  # fmt: skip


def write_xlm(folder: Path) -> str:
    from transformers import XLMConfig, XLMModel

    pieces = ["<s>", "</s>", "<pad>", "<unk>", "the</w>", "th", *LETTERS, *(f"{one}</w>" for one in LETTERS)]
    config = XLMConfig(vocab_size=len(pieces), emb_dim=24, n_layers=2, n_heads=3)
    return write(folder, XLMModel(config), "XLMTokenizer",
                 vocab_json=json.dumps({piece: number for number, piece in enumerate(pieces)}),
                 merges_txt="#version\nt h 10\nth e</w> 9\n")  # fmt: skip


def write_biogpt(folder: Path) -> str:
    from transformers import BioGptConfig, BioGptModel

    name = write_xlm(folder)
    size = len(json.loads((folder / "vocab.json").read_text()))
    (folder / "model.safetensors").unlink()
    return write(Path(name), BioGptModel(BioGptConfig(vocab_size=size, **SIZES)), "BioGptTokenizer")


def spans(tokens: Tokens) -> list[tuple[str, int | None, int | None]]:
    return [(token.text, token.start, token.end) for token in tokens if not token.special]


def read(name: str, text: str, pair: str | None = None) -> Tokens:
    return read_text(load(name).tokenizer, text, pair)


@pytest.mark.parametrize(
    ("write_model", "needs", "text"),
    [
        (write_esm, None, "MKTAYIAKQR"),
        (write_byt5, None, "né 🙂"),
        (write_phobert, None, "the cat"),
        (write_xlm, "sacremoses", "the cat"),
        (write_biogpt, "sacremoses", "the cat"),
    ],
)
def test_the_weights_are_those_of_eager_attention(
    tmp_path: Path, write_model: Any, needs: str | None, text: str
) -> None:
    if needs is not None:
        pytest.importorskip(needs)
    name = write_model(tmp_path / "model")
    source = open_model(name, text)
    kind, every = source.kinds[0], Selection("layer")
    tokens = source.axes(kind)[0]
    kept = FullWeights(kind, every, Selection("head"), 2, len(tokens), len(tokens))
    source.run([kept])
    loaded = load(name)
    loaded.model.set_attn_implementation("eager")
    reader = loaded.model.get_encoder() if loaded.model.config.is_encoder_decoder else loaded.model
    with torch.no_grad():
        wanted = reader(**prepare(loaded, text).inputs, output_attentions=True).attentions
    found = torch.tensor([matrix.values.tolist() for matrix in kept.matrices()])
    assert float((found - torch.stack(wanted)[:, 0].flatten(0, 1)).abs().max()) < 1e-5


def test_amino_acids_are_their_letters(tmp_path: Path) -> None:
    tokens = read(write_esm(tmp_path / "esm"), "MKJ<mask>A", "AC")
    assert [token.label for token in tokens] == [
        "<cls>", "M", "K", "<unk>", "<mask>", "A", "<eos>", "A", "C", "<eos>"
    ]  # fmt: skip
    assert [(token.start, token.sequence) for token in tokens[1:9]] == [
        (0, 0), (1, 0), (2, 0), (None, None), (9, 0), (None, None), (0, 1), (1, 1)
    ]  # fmt: skip


def test_bytes_of_one_character_share_its_place(tmp_path: Path) -> None:
    tokens = read(write_byt5(tmp_path / "byt5"), "né 🙂")
    assert [token.label for token in tokens[:4]] == ["n", "⟨C3⟩", "⟨A9⟩", "·"]
    assert [(token.start, token.end) for token in tokens[:-1]] == [(0, 1), (1, 2), (1, 2), (2, 3)] + [
        (3, 4)
    ] * 4


def test_pieces_that_go_on_lose_their_mark(tmp_path: Path) -> None:
    tokens = read(write_phobert(tmp_path / "phobert"), "the cat Z do")
    assert [token.label for token in tokens] == [
        "<s>", "the", "ca", "‿t", "<unk>", "d", "‿o", "</s>"
    ]  # fmt: skip
    assert spans(tokens)[-5:] == [("ca", 4, 6), ("t", 6, 7), ("<unk>", 8, 9), ("d", 10, 11), ("o", 11, 12)]


def test_pieces_that_are_not_of_the_text_have_no_place_and_make_no_words(tmp_path: Path) -> None:
    pytest.importorskip("sacremoses")
    tokens = read(write_biogpt(tmp_path / "biogpt"), "the cat's")
    assert {token.start for token in tokens} == {None}
    with pytest.raises(CaptureError, match="does not say where its tokens stand"):
        require_offsets(tokens)
    require_offsets(read(str(tmp_path / "biogpt"), "the cat"))


@pytest.mark.parametrize(
    ("pieces", "text", "wanted"),
    [
        ([b"a", None, b"b"], "A zz b", [(0, 1), (2, 4), (5, 6)]),
        ([None, b"b", None], "abbb", None),  # either b may be the known one
        ([b"a", None, None], "axyz", None),
        ([b"&apos;s", b"@-@"], "'s -", [(0, 2), (3, 4)]),
        ([b"e", b"t"], "e\u0301t", [(0, 1), (2, 3)]),
        ([b"a"], "ab", None),
        ([], "", []),
    ],
)
def test_pieces_lie_along_the_text_where_there_is_one_way(pieces: Any, text: str, wanted: Any) -> None:
    assert align(pieces, text) == wanted


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sacremoses", None)
    with pytest.raises(ModelError, match="it needs sacremoses, which is not installed") as raised:
        load(write_xlm(tmp_path / "xlm"))
    assert raised.value.hint == "pip install sacremoses"


def test_tokens_are_listed_as_they_are_shown(tmp_path: Path) -> None:
    name = write_esm(tmp_path / "esm")
    view = tokens_view("MK", name)
    assert [row[:3] for row in view.rows] == [(0, 0, "<cls>"), (1, 20, "M"), (2, 15, "K"), (3, 2, "<eos>")]
    assert [token.id for token in open_model(name, "MK").axes("encoder")[0]] == [row[1] for row in view.rows]
