"""Words are those of the text, whatever pieces a vocabulary cuts them into; and each is found as a person types it."""

import unicodedata
from collections.abc import Callable

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from attncli.inputs.token_selection import pick, pick_one
from attncli.models.tokens import tokens_from_encoding, tokens_from_ids
from attncli.observers.words import places_of, word_starts, word_tokens
from attncli.record import Tokens
from attncli.segmentation import word_spans
from attncli.written import written

TEXTS = {
    "korean": "나는 한국어를 좋아한다, 정말",
    "hindi": "मुझे हिन्दी पसंद है। क्या",
    "thai": "ฉันชอบ ภาษาไทย",
    "arabic": "أنا أحبُّ اللغةَ العربية",
    "hebrew": "שָׁלוֹם עוֹלָם טוֹב",
    "vietnamese": unicodedata.normalize("NFD", "Tôi rất thích tiếng Việt"),
    "japanese": "私は カタカナ を読む",
    "chinese": "我爱中文。你好",
    "tamil": "எனக்கு தமிழ் மொழி பிடிக்கும்",
    "emoji": "👩‍👩‍👧 likes 👍🏽 and ❤️!",
    "flags": "🇩🇪🇫🇷 and 🇯🇵",
    "mixed": "Don't mix naïve 한글 with 3.14 नमस्ते",
}

Train = Callable[[str], Tokenizer]


def byte_level(text: str) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.normalizer, made.decoder = normalizers.NFC(), decoders.ByteLevel()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=256, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([text] * 3, trainer)
    return made


def word_piece(text: str) -> Tokenizer:
    """Its vocabulary has all characters that the normalizer leaves, alone."""
    made = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=1, special_tokens=["[UNK]"], show_progress=False)
    made.train_from_iterator([text] * 3, trainer)
    return made


def unigram(text: str) -> Tokenizer:
    """All characters but the rarest are in the vocabulary; others are bytes."""
    characters = sorted(set(unicodedata.normalize("NFKC", text)) - {" "})[::2]
    pieces = [("<unk>", 0.0), ("▁", -2.0), *((one, -3.0) for one in characters)]
    pieces += [(f"<0x{byte:02X}>", -9.0) for byte in range(256)]
    made = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return made


def read(train: Train, text: str) -> Tokens:
    tokenizer = train(text)
    return tokens_from_encoding(tokenizer, tokenizer.encode(text), text=text)


def joined(tokens: Tokens) -> list[tuple[int | None, int | None, str]]:
    return [(word.start, word.end, word.text) for word in word_tokens(tokens, word_starts(tokens))]


@pytest.mark.parametrize("train", [byte_level, word_piece, unigram])
@pytest.mark.parametrize("script", TEXTS)
def test_words_are_those_of_the_text(script: str, train: Train) -> None:
    text = TEXTS[script]
    words = [(start, end, text[start:end]) for start, end in word_spans(text)]
    assert joined(read(train, text)) == words


@pytest.mark.parametrize("train", [byte_level, word_piece, unigram])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("script", TEXTS)
def test_a_word_is_found_as_it_is_typed(script: str, form: str, train: Train) -> None:
    text = TEXTS[script]
    tokens = read(train, text)
    words = word_tokens(tokens, word_starts(tokens))
    for blank_cut in dict.fromkeys(text.split()):
        typed = unicodedata.normalize(form, blank_cut)
        start = text.index(blank_cut)
        span = pick_one(words, tokens, f'"{typed}"', "--from", (text,))
        assert (span.start, span.end) == (start, start + len(blank_cut))
        places = places_of(tokens, span, (text,))
        assert places is not None and pick(tokens, f'"{typed}"') == tuple(places)


def test_bytes_of_an_unknown_run_belong_to_their_own_characters() -> None:
    tokens = read(lambda text: unigram("x"), "我爱")
    own = [(token.bytes, token.start, token.end) for token in tokens if token.bytes]
    assert own[0] == ("e6", 0, 1) and own[3] == ("e7", 1, 2)
    assert [text for *_, text in joined(tokens)] == ["我", "爱"]


def test_a_token_with_parts_of_two_words_makes_them_one() -> None:
    pieces = {piece: i for i, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    first, second = (bytes([one]) for one in ("我".encode()[-1], "爱".encode()[0]))
    left, right = (next(c for c, b in alphabet().items() if b == one) for one in (first, second))
    made = Tokenizer(models.BPE({**pieces, left + right: 256}, [(left, right)]))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokens = tokens_from_encoding(made, made.encode("我爱它"), text="我爱它")
    assert [text for *_, text in joined(tokens)] == ["我爱", "它"]


def alphabet() -> dict[str, bytes]:
    from attncli.models.vocabulary import _bytes_by_character

    return _bytes_by_character()


def test_tokens_without_offsets_are_joined_by_their_bytes() -> None:
    made = byte_level("x")
    tokens = tokens_from_ids(made, made.encode("나는 é").ids)
    assert written(tokens).text == "나는 é"
    assert [text for *_, text in joined(tokens)] == ["나는", "é"]
    assert pick(tokens, "e\u0301") == (7, 8) and pick(tokens, "나는") == tuple(range(6))


def test_a_mark_that_the_tokenizer_drops_belongs_to_its_letter() -> None:
    tokens = read(word_piece, "cafe\u0301 שָׁלוֹם")
    assert tokens[0].written is not None and (tokens[0].start, tokens[-1].end) == (0, 13)
    assert "".join(token.written or "" for token in tokens) == "cafe\u0301שָׁלוֹם"
