"""A corpus read line by line: plain texts or JSON lines, from a file of any length or from stdin.

What is wrong with a line is told with its number, and the next one is read: one bad line does not end a long run.
Only one line is in memory at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from attncli.inputs.text import NotUtf8, decode
from attncli.labels import fit, safe_label

LONGEST_LINE = 16 * 2**20
"""Bytes. A longer line is no sentence, and would not fit any model."""

JSON_SUFFIXES = (".jsonl", ".ndjson")
DEFAULT_FIELD = "text"


@dataclass(frozen=True, slots=True)
class Line:
    """One text of a corpus.

    Args:
        number: Of its line, from 1.
    """

    number: int
    text: str


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


def read_texts(stream: BinaryIO, field: str | None = None) -> Iterator[Line | BadLine]:
    """Read one text from each line: the line itself, or a field of the JSON object that stands there."""
    for number, content in _lines(stream):
        yield _read(number, content, lambda line: _text(line, field))


def read_pairs(
    stream: BinaryIO, field: str | None, other: str | None
) -> Iterator[tuple[Line, str | None] | BadLine]:
    """Read one text from each line, with a second one from another field of the object where that is named."""
    for number, content in _lines(stream):
        first = _read(number, content, lambda line: _text(line, field))
        second = None if other is None else _read(number, content, lambda line: _text(line, other))
        if isinstance(first, BadLine):
            yield first
        elif isinstance(second, BadLine):
            yield second
        else:
            yield first, None if second is None else second.text


def read_records(stream: BinaryIO) -> Iterator[Record | BadLine]:
    """Read one JSON object from each line, for corpora with labels."""
    for number, content in _lines(stream):
        found = _read(number, content, lambda line: line)
        try:
            yield found if isinstance(found, BadLine) else Record(number, _object(found.text))
        except _Unusable as why:
            yield BadLine(number, str(why))


def field_for(path: str, asked: str | None) -> str | None:
    """Return the field that holds the text: the one asked for, ``text`` in files of JSON lines, None in plain ones."""
    if asked is None and Path(path).suffix.lower() in JSON_SUFFIXES:
        return DEFAULT_FIELD
    return asked


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


def _read(number: int, content: bytes | None, text_of: Callable[[str], str]) -> Line | BadLine:
    try:
        text = text_of(_decoded(content))
    except _Unusable as why:
        return BadLine(number, str(why))
    return Line(number, text) if text.strip() else BadLine(number, "empty")


def _decoded(content: bytes | None) -> str:
    if content is None:
        raise _Unusable(f"longer than {LONGEST_LINE // 2**20} MiB")
    try:
        return decode(content).rstrip("\r\n")
    except NotUtf8 as error:
        raise _Unusable(str(error)) from error


def _text(line: str, field: str | None) -> str:
    if field is None or not line.strip():
        return line
    values, shown = _object(line), fit(safe_label(field), 30)
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
