"""Links between words in numbers that can be worked out by hand."""

import numpy as np
import pytest

from attncli.find.word_pair import WordPairQuery, links
from attncli.observers.word_pairs import LayerWords
from attncli.observers.words import places_of, units
from attncli.record import AttentionLayer, Span, Token

WORDS = tuple(range(place, place + 1) for place in range(5))
LOOKS_BACK = np.eye(5, k=-2)
RESOLVES = np.full((5, 5), 0.1)
RESOLVES[4, 2] = 0.6


def answer(question: WordPairQuery, *heads: np.ndarray, layer: int = 3) -> list:
    values = np.array(
        [
            [np.mean([head[i, list(keys)].sum() for i in rows]) for rows, keys in question.pairs]
            for head in heads
        ]
    )
    return links(
        question, [LayerWords(AttentionLayer("encoder", layer, 7, 7), tuple(range(len(heads))), values)]
    )


def test_a_head_that_always_looks_so_far_back_has_no_excess() -> None:
    first, second = answer(WordPairQuery(WORDS, WORDS, 4, 2), LOOKS_BACK, RESOLVES)
    assert (first.layer, first.head, second.head) == (3, 1, 0)
    assert (first.weight, first.average, first.excess, first.ratio) == pytest.approx((0.6, 0.1, 0.5, 6))
    assert (second.weight, second.average, second.excess, second.ratio) == pytest.approx((1, 1, 0, 1))


def test_the_average_is_over_the_other_words_that_have_one_at_that_distance() -> None:
    question = WordPairQuery(WORDS, WORDS, 4, 2)
    assert (question.distance, question.others) == (-2, (2, 3))
    assert WordPairQuery(WORDS, WORDS, 1, 4).others == (0,)


def test_without_another_word_at_that_distance_heads_go_by_their_weight() -> None:
    found = answer(WordPairQuery(WORDS, WORDS, 4, 0), LOOKS_BACK, RESOLVES)
    assert [(one.head, one.average, one.excess, one.ratio) for one in found] == [
        (1, None, None, None),
        (0, None, None, None),
    ]


def test_a_place_counts_stronger_words_but_neither_itself_nor_what_a_causal_word_cannot_see() -> None:
    row = np.zeros((5, 5))
    row[2] = [0.2, 0.1, 0.3, 0.4, 0]
    assert answer(WordPairQuery(WORDS, WORDS, 2, 1), row)[0].place == 3
    causal = WordPairQuery(WORDS, WORDS, 2, 1, causal=True)
    assert (answer(causal, row)[0].place, causal.rivals) == (2, (0,))


def test_across_two_texts_a_word_may_attend_to_its_own_place() -> None:
    cross = WordPairQuery(WORDS, WORDS[:3], 1, 1, same=False)
    assert (cross.distance, cross.others, cross.rivals) == (0, (0, 2), (0, 2))


def token(position: int, text: str, start: int | None, **more) -> Token:
    end = None if start is None else start + len(text)
    return Token(position, position, text, text.strip(), start=start, end=end, **more)


TEXT = "un happily so."
TOKENS = (
    token(0, "[CLS]", None, special=True, sequence=None),
    token(1, "un", 0),
    token(2, " happi", 2),
    token(3, "ly", 8),
    token(4, " so", 10),
    token(5, ".", 13),
)


def test_units_are_words_without_specials_and_a_phrase_can_be_made_one() -> None:
    assert units(TOKENS) == [range(1, 2), range(2, 4), range(4, 5), range(5, 6)]
    assert units(TOKENS, [range(1, 4)]) == [range(1, 4), range(4, 5), range(5, 6)]
    assert units(TOKENS, [range(3, 4)]) == [range(1, 2), range(2, 3), range(3, 4), range(4, 5), range(5, 6)]


@pytest.mark.parametrize(
    ("span", "places"),
    [
        (Span(0, 2), range(1, 2)),
        (Span(0, 3), range(1, 2)),  # the blank is the next token's, but no word
        (Span(3, 10), range(2, 4)),
        (Span(9, 12), range(3, 5)),
        (Span(2, 3), None),
        (Span(0, 2, sequence=1), None),
    ],
)
def test_characters_are_mapped_to_the_tokens_that_stand_for_them(span: Span, places: range | None) -> None:
    assert places_of(TOKENS, span, (TEXT, TEXT)) == places
