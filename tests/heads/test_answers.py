"""Which heads are right about labelled pairs, in numbers that can be worked out by hand."""

import numpy as np
import pytest

from attncli.find.accuracy import Answers, PairQuestion, answers_of, held_out
from attncli.observers.word_pairs import LayerWords
from attncli.record import AttentionLayer

WORDS = tuple(range(place, place + 1) for place in range(1, 5))


def question(query: int, target: int, *, text: int = 0, causal: bool = False) -> PairQuestion:
    return PairQuestion(WORDS, query, frozenset([target]), causal, text)


def test_a_head_is_right_where_its_strongest_other_word_is_the_right_one() -> None:
    values = np.array([[0.1, 0.5, 0.2], [0.5, 0.1, 0.2], [0, 0, 0], [0.3, 0.3, 0.3]])
    asked = question(2, 1)
    assert asked.candidates == (0, 1, 3)
    assert asked.hits(values).tolist() == [True, False, False, False]


def test_a_causal_model_is_asked_only_about_what_it_can_see() -> None:
    assert question(2, 1, causal=True).candidates == (0, 1)
    assert question(2, 1, causal=True).answerable and not question(2, 3, causal=True).answerable


def test_the_answers_of_several_pairs_are_told_apart() -> None:
    asked = [question(1, 0), question(3, 2)]
    assert asked[1].pairs == [(WORDS[3], WORDS[0]), (WORDS[3], WORDS[1]), (WORDS[3], WORDS[2])]
    values = np.array([[0.9, 0.1, 0, 0.2, 0.1, 0.3], [0.1, 0.9, 0, 0.3, 0.1, 0.2]])
    found = answers_of(asked, [LayerWords(AttentionLayer("encoder", 5, 3, 3), (0, 2), values)])
    assert {head: hits.tolist() for head, hits in found.items()} == {
        ("encoder", 5, 0): [True, True],
        ("encoder", 5, 2): [False, False],
    }


def test_the_best_offset_is_the_one_that_is_right_most_often_and_of_equals_the_nearest() -> None:
    asked = (question(3, 2), question(2, 1), question(3, 1), question(2, 0), question(0, 2))
    answers = Answers(asked, (("encoder", 0, 0),), np.zeros((1, 5), bool))
    assert answers.best_offset() == -1
    assert (answers.offset_share(-1).hits, answers.offset_share(-1).of) == (2, 5)
    assert answers.best_offset([2, 3, 4]) == -2


def test_heads_are_ranked_by_hits_and_of_equals_the_earlier_is_first() -> None:
    hits = np.array([[0, 0, 1], [1, 1, 0], [0, 1, 1]], bool)
    asked = tuple(question(1, 0, text=text) for text in range(3))
    answers = Answers(asked, tuple(("encoder", 0, head) for head in range(3)), hits)
    assert answers.ranked() == [1, 2, 0]


def noise(texts: int, heads: int) -> Answers:
    """Heads that are right half of the time by chance, on two pairs of each text."""
    hits = np.random.default_rng(3).random((heads, 2 * texts)) < 0.5
    asked = tuple(question(1, 0, text=pair // 2) for pair in range(2 * texts))
    return Answers(asked, tuple(("encoder", 0, head) for head in range(heads)), hits)


def test_chance_looks_good_on_the_half_that_chose_and_not_on_the_other() -> None:
    found = [held_out(noise(30, 200), seed) for seed in range(20)]
    assert np.mean([one.chose.value for one in found if one]) > 0.65
    assert np.mean([one.scored.value for one in found if one]) == pytest.approx(0.5, abs=0.06)


def test_pairs_of_one_text_stay_on_one_side_and_the_seed_says_which() -> None:
    answers = noise(7, 5)
    found = held_out(answers, 4)
    assert found is not None and found == held_out(answers, 4)
    assert (found.chose.of, found.scored.of) == (6, 8)
    assert len({held_out(answers, seed) for seed in range(9)}) > 1
    assert held_out(noise(1, 5), 4) is None
