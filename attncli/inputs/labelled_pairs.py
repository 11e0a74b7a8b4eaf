"""Texts with labelled pairs of words: JSON lines of ``text``, ``from`` and ``to``, the last two spans of characters.

    {"text": "The dog slept because it was tired.", "from": [22, 24], "to": [4, 7]}

Two sets are shipped, written for attncli. In ``coreference`` a pronoun's antecedent is its head noun, and most texts
have a second noun that might be meant. ``verb-object`` has each noun that is the direct object of a verb, as dependency
grammars have it: of a relative clause no antecedent, of a list the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, BinaryIO

from attncli.errors import ReadError, UsageError, did_you_mean
from attncli.inputs.corpus import BadLine, Record, read_records
from attncli.inputs.text import opened
from attncli.labels import safe_label
from attncli.record import Span

SETS: dict[str, tuple[str, str]] = {
    "coreference": ("pronoun", "antecedent"),
    "verb-object": ("object", "verb"),
}
"""The shipped sets, with what attends to what in them."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two words of a text.

    Args:
        line: Number of its line, from 1.
        query: The word that should attend.
        key: The word that it should attend to.
    """

    line: int
    text: str
    query: Span
    key: Span


@dataclass(frozen=True, slots=True)
class PairSet:
    """Some labelled pairs.

    Args:
        name: The shipped set's name, or the file's.
        roles: What the query words and the key words are.
    """

    name: str
    roles: tuple[str, str]
    pairs: tuple[Pair, ...]

    def reversed(self) -> PairSet:
        """Swap what attends and what is attended to."""
        pairs = tuple(replace(pair, query=pair.key, key=pair.query) for pair in self.pairs)
        return PairSet(self.name, (self.roles[1], self.roles[0]), pairs)


def read_pairs(name: str) -> PairSet:
    """Read a shipped set by its name, or a file of JSON lines; ``-`` is stdin.

    Raises:
        UsageError: There is neither a set nor a file of that name.
        ReadError: The file cannot be read, or a line of it is not right.
    """
    if name in SETS:
        with as_file(files("attncli") / "examples" / f"{name}.jsonl") as path:
            return PairSet(name, SETS[name], _read(str(path), name))
    if name != "-" and not Path(name).exists() and not Path(name).suffix and "/" not in name:
        shown = safe_label(name)
        raise UsageError(f"--examples {shown}: no such set, and no such file", did_you_mean(name, SETS))
    return PairSet(name, ("from", "to"), _read(name, name))


def refuse_lines(name: str, bad: Sequence[BadLine]) -> None:
    """Refuse pairs that are not right, if there are any, all in one message.

    Raises:
        ReadError: There are some.
    """
    if not bad:
        return
    where = "stdin" if name == "-" else safe_label(name)
    rest = [str(line.number) for line in bad[1:11]]
    more = f"not right either: line{'s' if len(rest) > 1 else ''} {', '.join(rest)}"
    hint = more + (", …" if len(bad) > 11 else "") if rest else None
    raise ReadError(f"{where} line {bad[0].number}: {bad[0].reason}", hint)


def _read(path: str, name: str) -> tuple[Pair, ...]:
    with opened(path) as stream:
        found = list(_pairs(stream))
    refuse_lines(name, [one for one in found if isinstance(one, BadLine)])
    if not found:
        raise ReadError(f"{safe_label(name)}: it contains no pairs")
    return tuple(one for one in found if isinstance(one, Pair))


def _pairs(stream: BinaryIO) -> Iterator[Pair | BadLine]:
    for record in read_records(stream):
        if isinstance(record, BadLine):
            yield record
            continue
        reason = _wrong(record.values)
        yield _pair(record) if reason is None else BadLine(record.number, reason)


def _pair(record: Record) -> Pair:
    values = record.values
    return Pair(record.number, values["text"], Span(*values["from"]), Span(*values["to"]))


def _wrong(values: dict[str, Any]) -> str | None:
    """Return what is wrong with a line's object, or None."""
    text = values.get("text")
    if not isinstance(text, str) or not text.strip():
        return 'its "text" is empty' if isinstance(text, str) else 'it has no "text"'
    if any("\ud800" <= character <= "\udfff" for character in text):
        return 'its "text" has an unpaired surrogate'
    for name in ("from", "to"):
        reason = _wrong_span(name, values.get(name), text)
        if reason is not None:
            return reason
    (first, last), (start, end) = values["from"], values["to"]
    return '"from" and "to" overlap' if max(first, start) < min(last, end) else None


def _wrong_span(name: str, span: object, text: str) -> str | None:
    if span is None:
        return f'it has no "{name}"'
    whole = isinstance(span, list) and len(span) == 2 and all(type(end) is int for end in span)
    if not whole:
        return f'its "{name}" is not [start, end] in characters'
    assert isinstance(span, list)
    start, end = span
    if not 0 <= start < end <= len(text):
        return f'its "{name}" [{start}, {end}] is not inside the text, which has {len(text)} characters'
    return None if text[start:end].strip() else f'its "{name}" [{start}, {end}] is blank'


def set_names() -> list[str]:
    """Return the names of the sets of labelled pairs that come with attncli."""
    return list(SETS)
