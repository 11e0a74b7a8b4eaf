from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from attncli.errors import ModelError
from attncli.models.tokens import load_tokenizer, tokens_from_encoding, tokens_from_ids, words_of_text
from attncli.record import Tokens

MODELS = ("all-minilm-l6-v2", "smollm2-135m", "whisper-tiny-en", "annalog-marian")
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


def read(tokenizer: Tokenizer, text: str, pair: str | None = None) -> Tokens:
    return tokens_from_encoding(tokenizer, tokenizer.encode(text, pair), text=text, pair=pair)


def byte_level(*, trim: bool = False, merges: tuple[tuple[str, str], ...] = ()) -> Tokenizer:
    """A byte-level BPE over single bytes and the merges given."""
    pieces = [*BYTES, *("".join(merge) for merge in merges)]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim)
    return tokenizer


def word_pieces(*pieces: str) -> Tokenizer:
    """A WordPiece tokenizer in BERT's manner."""
    vocabulary = {piece: i for i, piece in enumerate(("[UNK]", "[CLS]", "[SEP]", *pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[UNK]", "[CLS]", "[SEP]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return tokenizer


def test_continued_pieces_lose_their_mark_and_their_labels_gain_one() -> None:
    tokens = read(word_pieces("un", "##bel", "##ie"), "Unbelie")
    assert [token.text for token in tokens] == ["[CLS]", "un", "bel", "ie", "[SEP]"]
    assert [token.label for token in tokens] == ["[CLS]", "un", "‿bel", "‿ie", "[SEP]"]
    assert [token.piece for token in tokens] == ["[CLS]", "un", "##bel", "##ie", "[SEP]"]
    assert [(token.start, token.end) for token in tokens[1:4]] == [(0, 2), (2, 5), (5, 7)]


def test_specials_have_no_offsets_and_belong_to_no_text() -> None:
    first, last = (read(word_pieces("a"), "a")[index] for index in (0, -1))
    assert (first.special, first.start, first.end, first.sequence) == (True, None, None, None)
    assert (last.special, last.start, last.end, last.sequence) == (True, None, None, None)


def test_the_second_text_of_a_pair_has_its_own_offsets() -> None:
    tokens = read(word_pieces("one", "two"), "one", "one two")
    assert [token.sequence for token in tokens] == [None, 0, None, 1, 1, None]
    assert (tokens[4].start, tokens[4].end) == (4, 7)


def test_an_unknown_word_is_no_special_but_a_typed_special_is() -> None:
    tokens = read(word_pieces("a"), "a zebra [SEP]")
    assert [(token.text, token.special) for token in tokens[1:4]] == [
        ("a", False),
        ("[UNK]", False),
        ("[SEP]", True),
    ]
    assert (tokens[2].start, tokens[2].end) == (2, 7)


@pytest.mark.parametrize("trim", [False, True])
def test_leading_spaces_belong_to_a_byte_level_piece_whatever_its_tokenizer_says(trim: bool) -> None:
    text = "a the  b"
    merges = (("t", "h"), ("th", "e"), ("Ġ", "the"))
    tokens = read(byte_level(trim=trim, merges=merges), text)
    assert [token.text for token in tokens] == ["a", " the", " ", " ", "b"]
    assert [text[token.start : token.end] for token in tokens] == [token.text for token in tokens]


def test_a_character_cut_into_bytes_is_shown_as_bytes() -> None:
    tokens = read(byte_level(merges=(("ð", "Ł"),)), "🙂!")
    assert [token.label for token in tokens] == ["⟨F0·9F⟩", "⟨99⟩", "⟨82⟩", "!"]
    assert [token.bytes for token in tokens] == ["f09f", "99", "82", None]
    assert [(token.start, token.end) for token in tokens] == [(0, 1), (0, 1), (0, 1), (1, 2)]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_bytes_of_byte_level_tokens_are_those_of_the_text(text: str) -> None:
    tokens = read(byte_level(merges=(("Ġ", "a"), ("Ã", "©"))), text)
    raw = b"".join(bytes.fromhex(token.bytes) if token.bytes else token.text.encode() for token in tokens)
    assert raw == text.encode()


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_whole_characters_of_byte_level_tokens_are_where_their_offsets_say(text: str) -> None:
    for token in read(byte_level(trim=True, merges=(("Ġ", "a"), ("Ġ", "Ġ"))), text):
        assert token.bytes is not None or text[token.start : token.end] == token.text


def test_metaspace_pieces_hold_their_space() -> None:
    pieces = [("<unk>", 0.0), ("▁to", -1.0), ("▁be", -1.5), ("s", -2.5)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokens = read(tokenizer, "to bes")
    assert [token.label for token in tokens] == ["·to", "·be", "s"]
    assert [(token.start, token.end) for token in tokens] == [(0, 2), (2, 5), (5, 6)]


def test_a_space_that_a_metaspace_tokenizer_splits_off_still_belongs_to_the_piece() -> None:
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁to", -1.0), ("▁be", -1.5)], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    assert [(token.start, token.end) for token in read(tokenizer, "to be")] == [(0, 2), (2, 5)]


def test_pieces_without_an_end_of_word_go_on() -> None:
    vocabulary = {
        piece: i for i, piece in enumerate(("u", "n", "un", "d", "o", "do", "do</w>", "o</w>", "d</w>"))
    }
    tokenizer = Tokenizer(models.BPE(vocabulary, [("u", "n"), ("d", "o</w>")], end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    tokens = read(tokenizer, "undo do")
    assert [token.label for token in tokens] == ["un", "‿do", "do"]
    assert [token.piece for token in tokens] == ["un", "do</w>", "do</w>"]


def test_pieces_in_a_writing_we_do_not_know_are_told_by_their_offsets() -> None:
    tokenizer = Tokenizer(models.WordLevel({"cl": 0, "c": 1, "?": 2}, unk_token="?"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("[cC][lL]|."), behavior="isolated")
    tokens = read(tokenizer, "CClX")
    assert [token.text for token in tokens] == ["C", "Cl", "?"]
    assert [token.piece for token in tokens] == ["c", "cl", "?"]


def test_added_plain_tokens_are_not_read_as_bytes() -> None:
    tokenizer = byte_level()
    tokenizer.add_tokens([AddedToken("Ġlol", normalized=False)])
    assert [token.text for token in read(tokenizer, "aĠlol")] == ["a", "Ġlol"]


def test_ids_alone_give_tokens_without_offsets() -> None:
    tokens = tokens_from_ids(word_pieces("un", "##do"), [1, 3, 4, 99])
    assert [token.label for token in tokens] == ["[CLS]", "un", "‿do", "<99>"]
    assert [token.special for token in tokens] == [True, False, False, False]
    assert {token.start for token in tokens} == {None}


def test_hostile_characters_reach_the_text_but_not_the_label() -> None:
    token = words_of_text("\x1b")[0]
    assert token.text == "\x1b"
    assert "\x1b" not in token.label


def test_a_folder_without_a_tokenizer_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no tokenizer\.json in .*") as caught:
        load_tokenizer(tmp_path)
    assert caught.value.exit_code == 4
    assert "\n" not in caught.value.message


def test_a_broken_tokenizer_file_is_a_model_error(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"', encoding="utf-8")
    with pytest.raises(ModelError, match="is not a readable tokenizer"):
        load_tokenizer(tmp_path)


def test_a_loaded_tokenizer_neither_cuts_nor_pads(tmp_path: Path) -> None:
    tokenizer = word_pieces("a")
    tokenizer.enable_padding(length=7)
    tokenizer.enable_truncation(max_length=4)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert len(load_tokenizer(tmp_path).encode("a a a a")) == 6
    assert len(load_tokenizer(tmp_path).encode("a")) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's 3.5, isn’t it?", ["It's", "3.5", ",", "isn’t", "it", "?"]),
        ("हिन्दी e\u0301a", ["हिन्दी", "e\u0301a"]),
        ("👩\u200d💻👍🏽🇫🇷", ["👩\u200d💻", "👍🏽", "🇫🇷"]),
        ("می\u200cخواهم…", ["می\u200cخواهم", "…"]),
        (" \n", []),
        ("交通 カタカナ", ["交", "通", "カタカナ"]),
    ],
)
def test_a_text_is_split_into_words_and_marks(text: str, words: list[str]) -> None:
    assert [token.text for token in words_of_text(text)] == words


@given(st.text())
@example(" \u0300")
def test_words_are_where_their_offsets_say_and_leave_out_only_space(text: str) -> None:
    tokens = words_of_text(text)
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert "".join(token.text for token in tokens) == "".join(text.split())
    assert len({token.id for token in tokens}) == len({token.text for token in tokens})


@pytest.mark.models
@pytest.mark.parametrize("name", MODELS)
def test_a_real_models_tokens_stand_for_the_text(name: str, model_folder: Callable[[str], Path]) -> None:
    text = "The café’s  naïve 🙂 owner\ndidn't pay 3.50 € (CC(=O)N)."
    tokens = read(load_tokenizer(model_folder(name)), text)
    own = [token for token in tokens if not token.special]
    assert [token.position for token in tokens] == list(range(len(tokens)))
    assert own[0].start == 0
    assert own[-1].end == len(text)
    if name in ("smollm2-135m", "whisper-tiny-en"):
        assert all(token.bytes or text[token.start : token.end] == token.text for token in own)


@pytest.mark.models
@pytest.mark.parametrize("name", ["smollm2-135m", "whisper-tiny-en"])
def test_texts_of_real_tokens_agree_with_the_tokenizers_own_decoder(
    name: str, model_folder: Callable[[str], Path]
) -> None:
    tokenizer = load_tokenizer(model_folder(name))
    ids = range(0, tokenizer.get_vocab_size(), 7)
    ours = [token.text for token in tokens_from_ids(tokenizer, ids)]
    assert ours == [tokenizer.decode([number], skip_special_tokens=False) for number in ids]
