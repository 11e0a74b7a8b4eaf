"""Labelled pairs: what is read, what is refused, and the two sets that are shipped."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from attncli.errors import ReadError, UsageError
from attncli.inputs.labelled_pairs import SETS, Pair, PairSet, read_pairs
from attncli.record import Span

GOOD = {"text": "The dog slept.", "from": [8, 13], "to": [4, 7]}


def write(folder: Path, *lines: object) -> str:
    path = folder / "pairs.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return str(path)


def words(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"[\w'’]+|[^\w\s]", text)]


def offset(pair: Pair) -> int:
    """How many words after the query word the key word stands."""
    starts = [start for start, _ in words(pair.text)]
    return starts.index(pair.key.start) - starts.index(pair.query.start)


def test_a_line_is_a_text_with_two_spans_and_may_say_more(tmp_path: Path) -> None:
    read = read_pairs(write(tmp_path, GOOD | {"note": "own"}))
    assert read.pairs == (Pair(1, "The dog slept.", Span(8, 13), Span(4, 7)),) and read.roles == (
        "from",
        "to",
    )
    assert read.reversed().pairs == (Pair(1, "The dog slept.", Span(4, 7), Span(8, 13)),)
    assert read.reversed().roles == ("to", "from")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"text": ', "not JSON: broken at character 10"),
        ("[1]", "not a JSON object"),
        (" ", "empty"),
        ({}, 'it has no "text"'),
        (GOOD | {"text": " "}, 'its "text" is empty'),
        (GOOD | {"text": "\ud800 is broken text"}, 'its "text" has an unpaired surrogate'),
        ({"text": "a b", "from": [0, 1]}, 'it has no "to"'),
        (GOOD | {"to": 4}, 'its "to" is not [start, end] in characters'),
        (GOOD | {"to": [4, True]}, 'its "to" is not [start, end] in characters'),
        (GOOD | {"to": [4.0, 7]}, 'its "to" is not [start, end] in characters'),
        (GOOD | {"to": [4, 15]}, 'its "to" [4, 15] is not inside the text, which has 14 characters'),
        (GOOD | {"to": [-3, 4]}, 'its "to" [-3, 4] is not inside the text, which has 14 characters'),
        (GOOD | {"to": [7, 7]}, 'its "to" [7, 7] is not inside the text, which has 14 characters'),
        (GOOD | {"to": [3, 4]}, 'its "to" [3, 4] is blank'),
        (GOOD | {"to": [12, 14]}, '"from" and "to" overlap'),
    ],
)
def test_a_line_that_is_not_right_is_told_with_its_number(tmp_path: Path, line: object, reason: str) -> None:
    with pytest.raises(ReadError) as caught:
        read_pairs(write(tmp_path, GOOD, line))
    assert caught.value.message.endswith(f"pairs.jsonl line 2: {reason}") and caught.value.hint is None


def test_all_bad_lines_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ReadError) as caught:
        read_pairs(write(tmp_path, *[{}] * 13))
    assert caught.value.hint == "not right either: lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …"


def test_a_file_without_pairs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_bytes(b"")
    with pytest.raises(ReadError, match="it contains no pairs"):
        read_pairs(str(tmp_path / "none.jsonl"))


def test_a_mistyped_set_gets_a_hint_and_a_missing_file_is_told() -> None:
    with pytest.raises(UsageError) as caught:
        read_pairs("corefrence")
    assert caught.value.hint == 'did you mean "coreference"?'
    with pytest.raises(ReadError, match="No such file"):
        read_pairs("./nowhere.jsonl")


@pytest.fixture(params=sorted(SETS))
def shipped(request: pytest.FixtureRequest) -> PairSet:
    return read_pairs(request.param)


def test_a_shipped_sets_spans_are_whole_words_of_at_least_forty_different_texts(shipped: PairSet) -> None:
    for pair in shipped.pairs:
        assert {(pair.query.start, pair.query.end), (pair.key.start, pair.key.end)} <= set(words(pair.text))
        assert pair.text == pair.text.strip() and pair.text[-1] in ".?"
    assert len({pair.text for pair in shipped.pairs}) >= 40
    assert len(set(map(repr, ((p.text, p.query, p.key) for p in shipped.pairs)))) == len(shipped.pairs)


def test_no_constant_offset_answers_half_of_a_shipped_set(shipped: PairSet) -> None:
    counts = Counter(map(offset, shipped.pairs))
    assert max(counts.values()) < len(shipped.pairs) / 2 and len(counts) >= 8


def test_the_shipped_texts_do_not_begin_alike(shipped: PairSet) -> None:
    texts = {pair.text for pair in shipped.pairs}
    openings = Counter(tuple(text.split()[:2]) for text in texts)
    assert max(openings.values()) <= 3


def test_pronouns_point_to_nouns_and_objects_to_verbs() -> None:
    pronouns = {pair.text[pair.query.start : pair.query.end] for pair in read_pairs("coreference").pairs}
    assert pronouns == set("it he she they him her them his its their".split())
    assert SETS["verb-object"] == ("object", "verb")
