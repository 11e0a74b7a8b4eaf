"""Cuts the tokens of a text into spans with names: its parts, sentences or lines, or those that a file names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attncli.errors import UsageError, did_you_mean
from attncli.inputs.corpus import BadLine, read_records
from attncli.inputs.labelled_pairs import refuse_lines
from attncli.inputs.text import opened
from attncli.labels import fit, safe_label
from attncli.record import Token, Tokens
from attncli.segmentation import line_spans, occurrences, sentence_spans
from attncli.written import written

WAYS = ("segment", "sentence", "line")
RULE = "spans: weights on a span's tokens are summed, those of its rows averaged"
REST = "rest"

_WIDEST = 24


@dataclass(frozen=True)
class NamedSpan:
    """Some tokens with a name.

    Args:
        places: Where the tokens stand on their axis.
    """

    name: str
    places: tuple[int, ...]


@dataclass(frozen=True)
class _Wanted:
    """A span that a file names: by its characters, or by the text that stands there."""

    line: int
    name: str
    start: int
    end: int
    text: str | None


def spans_of(axes: Sequence[Tokens], how: str, texts: Sequence[str] = ()) -> list[list[NamedSpan]]:
    """Cut the tokens of both axes into spans; what is in none of them is the last one.

    Args:
        texts: What the tokens may be of.
        how: ``segment`` (parts of a conversation, of a generation, of a pair), ``sentence``, ``line``, or a file of
            JSON lines, each with a ``name`` and the ``start`` and ``end`` of its characters, or their ``text``.

    Raises:
        UsageError: There is no such way and no such file, or it leaves nothing to tell apart.
        ReadError: The file cannot be read, or what it names is not in the text.
    """
    if how in WAYS:
        cut = line_spans if how == "line" else sentence_spans
        found = [_segments(tokens) if how == "segment" else _cut(tokens, texts, cut) for tokens in axes]
        if all(len(spans) < 2 for spans in found):
            raise UsageError(f"--spans {how}: the text has only one {how}", _OTHERS[how])
    else:
        found = _in_file(axes, how)
    return [[*spans, *_rest(tokens, spans)] for tokens, spans in zip(axes, found, strict=True)]


_OTHERS = {
    "segment": "--chat, --generate and --pair divide it; or --spans sentence, line or FILE",
    "sentence": "--spans segment, line or FILE",
    "line": "--spans segment, sentence or FILE",
}


def span_tokens(tokens: Tokens, spans: Sequence[NamedSpan]) -> Tokens:
    """Return a token for each span, at the position of its first token."""
    return tuple(_span_token(tokens, span) for span in spans)


def overlap(spans: Sequence[NamedSpan]) -> bool:
    """Return whether a token is in several spans."""
    places = [place for span in spans for place in span.places]
    return len(places) > len(set(places))


def _span_token(tokens: Tokens, span: NamedSpan) -> Token:
    first, last = tokens[span.places[0]], tokens[span.places[-1]]
    whole = first.start is not None and last.end is not None and first.sequence == last.sequence
    return Token(
        position=first.position,
        id=None,
        text=span.name,
        label=fit(safe_label(span.name), _WIDEST),
        start=first.start if whole else None,
        end=last.end if whole else None,
        sequence=first.sequence,
        segment=first.segment,
    )


def _segments(tokens: Tokens) -> list[NamedSpan]:
    """Cut where one part ends and another begins; special tokens of no part do not part others."""
    found: list[tuple[str, list[int]]] = []
    for place, token in enumerate(tokens):
        name = token.segment or (None if token.special else "pair" if token.sequence == 1 else "text")
        if name is None:
            continue
        if not found or found[-1][0] != name:
            found.append((name, []))
        found[-1][1].append(place)
    names = [name for name, _ in found]
    again = [names[: number + 1].count(name) for number, name in enumerate(names)]
    return [
        NamedSpan(name if count == 1 else f"{name} {count}", tuple(places))
        for (name, places), count in zip(found, again, strict=True)
    ]


def _cut(
    tokens: Tokens, texts: Sequence[str], cut: Callable[[str], Iterator[tuple[int, int]]]
) -> list[NamedSpan]:
    """Cut by the text that tokens stand for; a token that reaches into two spans is in the first."""
    read = written(tokens, texts)
    taken: set[int] = set()
    found = []
    for start, end in cut(read.text):
        places = tuple(place for place in read.tokens_in(start, end) if place not in taken)
        taken.update(places)
        if places:
            found.append(NamedSpan(" ".join(read.text[start:end].split()), places))
    return found


def _rest(tokens: Tokens, spans: Sequence[NamedSpan]) -> list[NamedSpan]:
    taken = {place for span in spans for place in span.places}
    places = tuple(place for place in range(len(tokens)) if place not in taken)
    name = "special tokens" if all(tokens[place].special for place in places) else REST
    return [NamedSpan(name, places)] if places else []


def _in_file(axes: Sequence[Tokens], name: str) -> list[list[NamedSpan]]:
    if name != "-" and not Path(name).exists() and not Path(name).suffix and "/" not in name:
        shown = safe_label(name)
        raise UsageError(f"--spans {shown}: no such way, and no such file", did_you_mean(name, WAYS))
    with opened(name) as stream:
        read = [
            record if isinstance(record, BadLine) else _wanted(record.number, record.values)
            for record in read_records(stream)
        ]
    bad = [one for one in read if isinstance(one, BadLine)]
    wanted = [one for one in read if isinstance(one, _Wanted)]
    placed = [[_places(tokens, one) for one in wanted] for tokens in axes]
    for number, one in enumerate(wanted):
        if not any(of_axis[number] for of_axis in placed):
            what = f'"{safe_label(one.name)}"'
            reason = f"{what} stands for no token" if one.text is None else f"the text of {what} is not there"
            bad.append(BadLine(one.line, reason))
    refuse_lines(name, sorted(bad, key=lambda line: line.number))
    if not wanted:
        raise UsageError(f"--spans {safe_label(name)}: there are no spans in it")
    return [
        [NamedSpan(one.name, places) for one, places in zip(wanted, of_axis, strict=True) if places]
        for of_axis in placed
    ]


def _wanted(line: int, values: dict[str, Any]) -> _Wanted | BadLine:
    name, text, start, end = (values.get(key) for key in ("name", "text", "start", "end"))
    if not isinstance(name, str) or not name.strip():
        return BadLine(line, 'it has no "name"')
    if isinstance(text, str) and text.strip():
        return _Wanted(line, name, 0, 0, text)
    if type(start) is int and type(end) is int and 0 <= start < end:
        return _Wanted(line, name, start, end, None)
    return BadLine(line, 'it has neither a "text" nor a "start" before an "end", in characters')


def _places(tokens: Tokens, wanted: _Wanted) -> tuple[int, ...]:
    """Return the tokens of a span: of the first text by its characters, or wherever its text first stands."""
    if wanted.text is None:
        return tuple(
            place
            for place, token in enumerate(tokens)
            if token.start is not None and token.end is not None and token.sequence == 0
            if token.start < wanted.end and wanted.start < token.end
        )
    read = written(tokens)
    every = range(len(read.text) + 1)
    found = occurrences(read.text, wanted.text, every, every)
    return read.tokens_in(*found[0]) if found else ()
