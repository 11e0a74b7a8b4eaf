import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from attncli.models.vocabulary import Dialect, Piece, decode, dialect_of

BYTE_LEVEL = Dialect(byte_level=True)
LLAMA = Dialect(space="▁", byte_fallback=True)


@pytest.mark.parametrize(
    ("piece", "dialect", "text"),
    [
        ("Ġthe", BYTE_LEVEL, " the"),
        ("Ċ", BYTE_LEVEL, "\n"),
        ("ĠðŁĻĤ", BYTE_LEVEL, " 🙂"),
        ("▁the", LLAMA, " the"),
        ("<0x0A>", LLAMA, "\n"),
        ("the</w>", Dialect(word_end="</w>"), "the"),
        ("##ed", Dialect(continuation="##"), "ed"),
        ("##", Dialect(continuation="##"), "##"),
        ("Ġthe", Dialect(), "Ġthe"),
        ("<0x0A>", BYTE_LEVEL, "<0x0A>"),
    ],
)
def test_a_piece_is_read_in_its_own_dialect(piece: str, dialect: Dialect, text: str) -> None:
    assert decode(piece, dialect).text == text


def test_marks_of_place_in_a_word_are_kept_apart_from_the_text() -> None:
    assert decode("##ed", Dialect(continuation="##")) == Piece("ed", inside=True)
    assert decode("ed</w>", Dialect(word_end="</w>")) == Piece("ed", closes=True)


@pytest.mark.parametrize(("piece", "dialect"), [("ðŁ", BYTE_LEVEL), ("<0xF0>", LLAMA)])
def test_bytes_that_are_no_character_stay_bytes(piece: str, dialect: Dialect) -> None:
    found = decode(piece, dialect)
    assert found.loose is not None
    assert found.loose.hex() in ("f09f", "f0")
    assert "\ufffd" in found.text


def test_a_replacement_character_of_the_text_itself_is_no_loose_byte() -> None:
    assert decode("ï¿½", BYTE_LEVEL) == Piece("\ufffd")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_byte_level_pieces_give_back_any_text(text: str) -> None:
    [(piece, _)] = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
    assert decode(piece, BYTE_LEVEL).text == text


def test_the_dialect_is_read_from_the_tokenizers_parts() -> None:
    llama = Tokenizer(models.BPE(byte_fallback=True))
    llama.normalizer = normalizers.Replace(" ", "▁")
    llama.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    assert dialect_of(llama) == LLAMA
    clip = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    clip.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel()]
    )
    assert dialect_of(clip) == Dialect(byte_level=True, word_end="</w>")
    bert = Tokenizer(models.WordPiece(continuing_subword_prefix="##"))
    assert dialect_of(bert) == Dialect(continuation="##")
    assert dialect_of(Tokenizer(models.WordLevel())).plain
