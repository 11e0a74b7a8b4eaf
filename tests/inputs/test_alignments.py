from pathlib import Path

import numpy as np
import pytest

from attncli.errors import ReadError, UsageError
from attncli.inputs.alignments import (
    Agreement,
    Gold,
    blank_words,
    check_join,
    diagonal_links,
    join_links,
    read_gold,
    read_reverse,
    strongest_links,
)
from attncli.models.tokens import words_of_text


def test_a_target_word_is_linked_to_its_strongest_source_word_above_the_threshold() -> None:
    weights = np.array([[0.2, 0.8, 0.0], [0.4, 0.3, 0.3], [0.0, 0.0, 0.0]], np.float32)
    assert strongest_links(weights) == {(1, 0), (0, 1)}
    assert strongest_links(weights, 0.5) == {(1, 0)}
    assert strongest_links(weights[:0]) == frozenset()


def test_both_directions_are_joined() -> None:
    forward, backward = frozenset({(0, 0), (1, 1), (3, 3)}), frozenset({(0, 0), (1, 2), (2, 1), (5, 5)})
    assert join_links(forward, backward, "intersection") == {(0, 0)}
    assert join_links(forward, backward, "union") == forward | backward
    # 1-1 touches 0-0, then 1-2 and 2-1 touch 1-1 and link a new word; 3-3 and 5-5 touch none.
    assert join_links(forward, backward, "grow-diag") == {(0, 0), (1, 1), (1, 2), (2, 1)}


def test_a_neighbour_whose_words_are_both_linked_is_not_added() -> None:
    both = frozenset({(0, 0), (1, 1)})
    assert join_links(both | {(0, 1)}, both, "grow-diag") == both


def test_agreement_is_that_of_the_definition_over_all_texts() -> None:
    counts = Agreement()
    sure = frozenset({(0, 0), (1, 1)})
    counts.add(frozenset({(0, 0), (2, 1), (0, 2)}), Gold(1, "", "", sure, sure | {(2, 1)}))
    counts.add(frozenset({(0, 0)}), Gold(2, "", "", frozenset({(0, 0)}), frozenset({(0, 0)})))
    assert (counts.precision, counts.recall) == (3 / 4, 2 / 3)
    assert counts.aer == pytest.approx(1 - (2 + 3) / (4 + 3))


def test_the_diagonal_links_words_at_the_same_share_of_the_text() -> None:
    assert diagonal_links(2, 4) == {(0, 0), (0, 1), (1, 2), (1, 3)}
    assert diagonal_links(3, 3) == {(0, 0), (1, 1), (2, 2)}


def test_words_are_what_blanks_part() -> None:
    text = "it's  3.14 % - done."
    found = blank_words(words_of_text(text))
    assert [word.places for word in found] == [(0,), (1,), (2,), (3,), (4, 5)]
    assert [word.name for word in found] == text.split()


def test_gold_lines_are_read_in_both_forms(tmp_path: Path) -> None:
    lines, objects = tmp_path / "gold.txt", tmp_path / "gold.jsonl"
    lines.write_text("a b ||| c d ||| 0-0 1?1 0p1\n")
    objects.write_text('{"text": "a b", "pair": "c d", "links": "0-0 1?1 0p1"}\n')
    assert read_gold(str(lines)) == read_gold(str(objects))
    (gold,) = read_gold(str(lines))
    assert (gold.sure, gold.possible) == ({(0, 0)}, {(0, 0), (1, 1), (0, 1)})


@pytest.mark.parametrize(("line", "reason"), [
    ("a ||| b", "it is no text ||| translation"),
    ("a ||| ||| 0-0", "empty"),
    ("a ||| b ||| 0:0", '"0:0" is no pair of words'),
    ("a ||| b ||| 0-1", "0-1 is none of its 1 and 1 words"),
])  # fmt: skip
def test_a_line_that_is_no_gold_alignment_is_told(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "gold.txt"
    path.write_text(f"a ||| b ||| 0-0\n{line}\n")
    with pytest.raises(ReadError, match="line 2: ") as raised:
        read_gold(str(path))
    assert reason in raised.value.message


def test_a_reverse_alignment_is_turned_round(tmp_path: Path) -> None:
    (tmp_path / "back.txt").write_text("0-1 2-0\n")
    assert read_reverse(str(tmp_path / "back.txt")) == {(1, 0), (0, 2)}
    with pytest.raises(UsageError, match="--join grow: no such way"):
        check_join("grow")
