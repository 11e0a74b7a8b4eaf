"""A corpus read line by line: plain texts or JSON lines, from a file of any length or from stdin.

What is wrong with a line is told with its number, and the next one is read: one bad line does not end a long run.
Only one line is in memory at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from attncli.inputs.text import NotUtf8, decode, opened
from attncli.labels import fit, safe_label

LONGEST_LINE = 16 * 2**20
"""Bytes. A longer line is no sentence, and would not fit any model."""

JSON_SUFFIXES = (".jsonl", ".ndjson")
DEFAULT_FIELD = "text"


MOST_PAIRS = 2**16
"""A batch has at most so many pairs of places, padding included, unless a single text has more.

So memory does not grow with the longest text until that has 256 tokens; longer batches would be no faster.
"""


class _OfSomeLength(Protocol):
    @property
    def longest(self) -> int:
        """Number of tokens along its longest axis."""


T = TypeVar("T", bound=_OfSomeLength)


@dataclass(frozen=True, slots=True)
class Line:
    """One text of a corpus.

    Args:
        number: Of its line, from 1.
        id: The ``id`` of the JSON object on that line, where it has one.
    """

    number: int
    text: str
    id: str | int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON object of a corpus, from the line with this number."""

    number: int
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be used.

    Args:
        number: From 1.
        reason: Why, in a few words: ``empty``.
    """

    number: int
    reason: str


Pair = tuple[Line, str | None]


@dataclass(frozen=True)
class CorpusFile:
    """A corpus in a file, or on stdin (``-``), opened when it is gone through.

    Args:
        field: The field of JSON objects that holds the text; None where each line is a text.
        pair_field: The field with a second text.
    """

    path: str
    field: str | None = None
    pair_field: str | None = None

    @classmethod
    def named(cls, path: str, field: str | None, pair_field: str | None) -> CorpusFile:
        """Find a corpus, and which fields of its lines to read.

        Raises:
            ReadError: The file cannot be read.
        """
        field = field_for(path, field)
        if pair_field is not None and field is None:
            field = DEFAULT_FIELD
        # What is read of a named pipe is gone.
        if path != "-" and not Path(path).expanduser().is_fifo():
            with opened(path) as stream:
                stream.read(1)
        return cls(path, field, pair_field)

    @property
    def size(self) -> int | None:
        """Bytes of a plain file; None where they are not known."""
        path = Path(self.path).expanduser()
        return path.stat().st_size if self.path != "-" and path.is_file() else None

    def read(self) -> Iterator[Pair | BadLine]:
        """Yield line after line."""
        with opened(self.path) as stream:
            yield from read_pairs(stream, self.field, self.pair_field)

    def name_of(self, line: BadLine) -> str:
        """Name a line, and say what is wrong with it."""
        where = "stdin" if self.path == "-" else safe_label(self.path)
        return f"{where} line {line.number}: {line.reason}"


def read_texts(stream: BinaryIO, field: str | None = None) -> Iterator[Line | BadLine]:
    """Read one text from each line: the line itself, or a field of the JSON object that stands there."""
    for found in read_pairs(stream, field, None):
        yield found if isinstance(found, BadLine) else found[0]


def read_pairs(stream: BinaryIO, field: str | None, other: str | None) -> Iterator[Pair | BadLine]:
    """Read one text from each line, with a second one from another field of the object where that is named."""
    for number, content in _lines(stream):
        try:
            yield _pair(number, _decoded(content), field, other)
        except _Unusable as why:
            yield BadLine(number, str(why))


def read_records(stream: BinaryIO) -> Iterator[Record | BadLine]:
    """Read one JSON object from each line, for corpora with labels."""
    for number, content in _lines(stream):
        try:
            yield Record(number, _object(_decoded(content)))
        except _Unusable as why:
            yield BadLine(number, str(why))


def field_for(path: str, asked: str | None) -> str | None:
    """Return the field that holds the text: the one asked for, ``text`` in files of JSON lines, None in plain ones."""
    if asked is None and Path(path).suffix.lower() in JSON_SUFFIXES:
        return DEFAULT_FIELD
    return asked


def cut_into_batches(texts: Iterable[T], most: int) -> list[list[T]]:
    """Sort texts by length and put neighbours together.

    Args:
        most: Texts in a batch.
    """
    batches: list[list[T]] = []
    for text in sorted(texts, key=lambda text: text.longest):
        if batches and len(batches[-1]) < most and (len(batches[-1]) + 1) * text.longest**2 <= MOST_PAIRS:
            batches[-1].append(text)
        else:
            batches.append([text])
    return batches


class _Unusable(Exception):
    """Why a line cannot be used."""


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines with their numbers, None for one that is too long to be read."""
    number = 0
    while content := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(content) > LONGEST_LINE and not content.endswith(b"\n"):
            while (rest := stream.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                pass
            yield number, None
            continue
        yield number, content


def _pair(number: int, line: str, field: str | None, other: str | None) -> Pair:
    if field is None:
        return Line(number, line), None
    values = _object(line)
    id_ = values.get("id")
    named = id_ if isinstance(id_, str | int) and not isinstance(id_, bool) else None
    return Line(number, _text(values, field), named), None if other is None else _text(values, other)


def _decoded(content: bytes | None) -> str:
    if content is None:
        raise _Unusable(f"longer than {LONGEST_LINE // 2**20} MiB")
    try:
        line = decode(content).rstrip("\r\n")
    except NotUtf8 as error:
        raise _Unusable(str(error)) from error
    if not line.strip():
        raise _Unusable("empty")
    return line


def _text(values: dict[str, Any], field: str) -> str:
    shown = fit(safe_label(field), 30)
    if field not in values:
        raise _Unusable(f'no field "{shown}"')
    text = values[field]
    if not isinstance(text, str):
        raise _Unusable(f'its field "{shown}" is not text')
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _Unusable(
            f'its field "{shown}" has an unpaired surrogate at character {error.start}'
        ) from error
    if not text.strip():
        raise _Unusable("empty")
    return text


def _object(line: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        raise _Unusable(f"not JSON: broken at character {error.pos + 1}") from error
    except (ValueError, RecursionError) as error:
        raise _Unusable("not JSON that can be read") from error
    if not isinstance(values, dict):
        raise _Unusable("not a JSON object")
    return values
