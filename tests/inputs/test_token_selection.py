from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.errors import UsageError
from attncli.inputs.token_selection import pick, pick_one
from attncli.models.tokens import words_of_text
from attncli.record import Token, Tokens

WORDS = words_of_text("It was 3, it is 3; It ' s it")  # It was 3 , it is 3 ; It ' s it


def pieces(*texts: str, first: int = 0) -> Tokens:
    """Tokens that hold their own spaces, as byte-level ones do."""
    ends = [sum(map(len, texts[: index + 1])) for index in range(len(texts))]
    return tuple(
        Token(first + index, index, text, text.strip(), start=end - len(text), end=end)
        for index, (text, end) in enumerate(zip(texts, ends, strict=True))
    )


@pytest.mark.parametrize(
    ("spec", "positions"),
    [
        ("3", (3,)),
        ("-1", (11,)),
        ("2-4", (2, 3, 4)),
        ("-3--1", (9, 10, 11)),
        ("it", (4, 11)),
        ("It", (0, 8)),
        ("IT", (0, 4, 8, 11)),
        ("it:2", (11,)),
        ('"it":1', (4,)),
        ('"3"', (2, 6)),
        ('"3":2', (6,)),
        ('","', (3,)),
        ('is,",",0', (5, 3, 0)),
        ("is, is,5", (5,)),
        ("It ' s", (8, 9, 10)),
        ('"was 3, \nIT"', (1, 2, 3, 4)),
        ('"was 3, it"', (1, 2, 3, 4)),
    ],
)
def test_tokens_are_picked_by_position_range_and_text(spec: str, positions: tuple[int, ...]) -> None:
    assert pick(WORDS, spec) == positions


def test_a_word_cut_into_pieces_names_them_all() -> None:
    tokens = pieces("the", " un", "belie", "vable", " the", "ory")
    assert pick(tokens, "unbelievable") == (1, 2, 3)
    assert pick(tokens, "theory") == (4, 5)
    assert pick(tokens, "the") == (0, 4)


def test_positions_are_the_true_ones_where_early_keys_were_dropped() -> None:
    tokens = pieces("a", " b", " c", first=40)
    assert pick(tokens, "41") == (41,)
    assert pick(tokens, "-1") == (42,)
    assert pick(tokens, "c") == (42,)
    with pytest.raises(UsageError, match="positions go from 40 to 42"):
        pick(tokens, "2")


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("12", "there is no token 12: positions go from 0 to 11", None),
        ("-13", "there is no token -13: positions go from 0 to 11", None),
        ("5-2", "the range 5-2 runs backwards", "did you mean 2-5?"),
        ("wass", 'no token "wass" in the text', 'nearest: "was" (1)'),
        ("it:3", '"it" has no occurrence 3: occurrences go from 1 to 2', "it occurs at 4, 11"),
        ("it:0", '"it" has no occurrence 0: occurrences go from 1 to 2', "it occurs at 4, 11"),
        (" , ", "no token was named", 'give positions, ranges or texts: 3,5-7,it,","'),
        ("zebra", 'no token "zebra" in the text', "tokens: It, was, 3, ,, it, is, 3, ;, It, ', s, it"),
        ("\x1b[2J", 'no token "␛[2J" in the text', "tokens: It, was, 3, ,, it, is, 3, ;, It, ', s, it"),
    ],
)
def test_what_cannot_be_picked_is_said_with_what_can(spec: str, message: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        pick(WORDS, spec)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_number_that_is_a_text_too_is_hinted_at() -> None:
    with pytest.raises(UsageError) as caught:
        pick(words_of_text("in 1984 we"), "1984")
    assert caught.value.hint == 'for the text write "1984" with the quotes'


def test_nothing_can_be_picked_from_no_tokens() -> None:
    with pytest.raises(UsageError, match="no tokens to pick from"):
        pick((), "0")


@given(st.text(min_size=1), st.data())
def test_every_word_can_be_picked_by_its_quoted_text(text: str, data: st.DataObject) -> None:
    tokens = [token for token in words_of_text(text) if '"' not in token.text]
    if tokens:
        token = data.draw(st.sampled_from(tokens))
        assert token.position in pick(words_of_text(text), f'"{token.text}"')


TEXT = "It fell: then it told us that IT:2 is it."


def one(spec: str, text: str = TEXT, tokens: Tokens | None = None) -> str:
    words = words_of_text(text)
    span = pick_one(words, words if tokens is None else tokens, spec, "--from", (text,))
    return f"{span.start} {text[span.start : span.end]}"


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("fell", "3 fell"),
        ("FELL", "3 fell"),
        ("It", "0 It"),
        ("it:1", "14 it"),
        ('"it":2', "38 it"),
        ("told us", "17 told us"),
        ("IT:2", "30 IT:2"),  # a text that stands there goes before an occurrence
        ("1", "3 fell"),
        ("-1", "40 ."),
        ("1-3", "3 fell: then"),
    ],
)
def test_one_word_is_named_by_text_occurrence_or_position(spec: str, found: str) -> None:
    assert one(spec) == found


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        (
            "it",
            '--from it: "it" occurs twice, at characters 14, 38',
            "write --from it:1 (It fell: then it told us that…), it:2 (…that IT:2 is it.)",
        ),
        ("it:3", '--from it:3: "it" occurs twice', "write --from it:1 to it:2"),
        ("fel", '--from fel: there is no "fel" in the text', 'nearest: "fell" (1)'),
        (" ", "--from: no word was named", 'try: --from it  or  --from "it:2"'),
        ("99", "there is no token 99: positions go from 0 to 13", None),
    ],
)
def test_a_word_that_is_not_there_once_is_an_error_that_says_where_it_is(
    spec: str, message: str, hint: str | None
) -> None:
    with pytest.raises(UsageError) as caught:
        one(spec)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_words_are_those_of_the_text_though_the_model_has_lowered_its_case() -> None:
    text = "It saw it"
    lowered = tuple(replace(word, text=word.text.lower()) for word in words_of_text(text))
    span = pick_one(lowered, lowered, "it", "--to", (text,))
    assert (span.start, span.end) == (7, 9)


def test_a_part_of_a_word_is_found_as_a_token_where_no_word_is_called_so() -> None:
    parts = (Token(0, 0, "我", "我", start=0, end=1), Token(1, 1, "爱", "爱", start=1, end=2))
    assert one("爱", "我爱", parts) == "1 爱"


def test_a_special_token_is_no_word() -> None:
    words = (Token(0, 0, "[CLS]", "[CLS]", special=True, sequence=None), *pieces("it", first=1))
    with pytest.raises(UsageError, match="--to 0 names a special token"):
        pick_one(words, words, "0", "--to", ("it",))
