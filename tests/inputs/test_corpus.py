"""Corpora line by line: what is read, and what is told of lines that cannot be."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from attncli.errors import ReadError
from attncli.inputs import corpus
from attncli.inputs.corpus import BadLine, Line, Record, cut_into_batches, field_for, read_records, read_texts
from attncli.inputs.text import opened


def texts(content: bytes, field: str | None = None) -> list[Line | BadLine]:
    return list(read_texts(io.BytesIO(content), field))


def test_each_line_is_a_text_with_its_number() -> None:
    assert texts(b"\xef\xbb\xbfto be\r\nor not \xe2\x80\x93") == [Line(1, "to be"), Line(2, "or not –")]


def test_lines_end_at_newlines_alone() -> None:
    assert texts("a\u2028b\x0bc\x85d\n".encode()) == [Line(1, "a\u2028b\x0bc\x85d")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\n", "empty"),
        (b"  \t\n", "empty"),
        (b"ab\xff\n", "not UTF-8: byte 0xff at offset 2"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_and_the_next_is_read(content: bytes, reason: str) -> None:
    assert texts(b"one\n" + content + b"three") == [Line(1, "one"), BadLine(2, reason), Line(3, "three")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": ""}', "empty"),
        (b'{"text": 3}', 'its field "text" is not text'),
        (b'{"words": "a"}', 'no field "text"'),
        (b'["a"]', "not a JSON object"),
        (b'{"text": "a"', "not JSON: broken at character 13"),
        (b'{"text": "\\ud800"}', 'its field "text" has an unpaired surrogate at character 0'),
        (b"[" * 100_000, "not JSON that can be read"),
    ],
)
def test_what_is_wrong_with_a_json_line_is_told(line: bytes, reason: str) -> None:
    assert texts(line + b'\n{"text": "b", "more": [1]}\n', "text") == [BadLine(1, reason), Line(2, "b")]


def test_an_endless_line_is_passed_over_without_being_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "LONGEST_LINE", 2**20)
    found = texts(b"x" * (3 * 2**20) + b"\nshort\n")
    assert found == [BadLine(1, "longer than 1 MiB"), Line(2, "short")]


def test_labelled_lines_are_given_whole() -> None:
    found = list(read_records(io.BytesIO(b'{"text": "a", "from": [0, 1]}\nnot\n')))
    assert found == [
        Record(1, {"text": "a", "from": [0, 1]}),
        BadLine(2, "not JSON: broken at character 1"),
    ]


def test_files_of_json_lines_have_a_field_without_being_asked() -> None:
    assert [field_for("a.jsonl", None), field_for("a.txt", None), field_for("a.txt", "x")] == [
        "text",
        None,
        "x",
    ]


def test_a_corpus_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="No such file"), opened(str(tmp_path / "none.txt")):
        pass


@dataclass(frozen=True)
class Text:
    place: int
    longest: int


def test_neighbours_in_length_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [Text(place, length) for place, length in enumerate((9, 2, 5, 2, 7))]
    assert [[one.place for one in batch] for batch in cut_into_batches(texts, 2)] == [[1, 3], [2, 4], [0]]
    monkeypatch.setattr(corpus, "MOST_PAIRS", 30)
    assert [[one.place for one in batch] for batch in cut_into_batches(texts, 9)] == [[1, 3], [2], [4], [0]]


def test_an_id_is_kept_where_it_is_a_text_or_a_number() -> None:
    lines = (
        '{"id": "a", "text": "x"}',
        '{"id": 7, "text": "x"}',
        '{"id": true, "text": "x"}',
        '{"text": "x"}',
    )
    found = texts("\n".join(lines).encode(), "text")
    assert [getattr(line, "id", None) for line in found] == ["a", 7, None, None]
