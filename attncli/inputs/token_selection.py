"""Picks tokens as a person names them: by position, by range, or by their text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import partial

from attncli.errors import UsageError
from attncli.labels import safe_label
from attncli.record import Span, Tokens
from attncli.segmentation import composed, folded, occurrences, word_spans
from attncli.written import written

_NUMBER = re.compile(r"-?\d+")
_RANGE = re.compile(r"(-?\d+)-(-?\d+)?")
_OCCURRENCE = re.compile(r"(.+):(\d+)", re.DOTALL)
_QUOTED = re.compile(r'"([^"]*)"(?::(\d+))?')

_MOST_SHOWN = 8
_CONTEXT = 14

Run = tuple[int, ...]
Edges = tuple[set[int], set[int]]


def pick(tokens: Tokens, spec: str) -> tuple[int, ...]:
    """Read what ``--query`` and ``--key`` name, and give the positions in the order named, none twice.

    A comma list of positions (``3``, ``-1`` from the end), ranges (``3-5``, both ends included; ``3-`` to the last)
    and texts.
    A text names the tokens that stand for it, spaces around it aside, in its own case or, where there is
    none, in any: wherever it is a word, a few words or a token. ``it:2`` is its second occurrence.
    Double quotes make anything a text: ``"3"``, ``","``.

    Raises:
        UsageError: A position out of range, a text that does not occur, or an empty list.
    """
    if not tokens:
        raise UsageError("there are no tokens to pick from")
    items = _items(spec)
    if not items:
        raise UsageError("no token was named", 'give positions, ranges or texts: 3,5-7,it,","')
    positions = [position for item in items for position in _positions(tokens, item)]
    return tuple(dict.fromkeys(positions))


def pick_one(words: Tokens, tokens: Tokens, spec: str, option: str, texts: Sequence[str]) -> Span:
    """Read what names one word, and give its characters; the grammar is that of `pick`, without lists.

    A text names whole words first; where none is so called, tokens (a character of Chinese).

    Args:
        words: The text's words, at the positions of their first tokens.
        tokens: What they were made of.
        option: Which option named it, for messages.
        texts: The text, and the second one of a pair.

    Raises:
        UsageError: It does not occur, or more than once.
    """
    item = spec.strip()
    if _NUMBER.fullmatch(item) or _RANGE.fullmatch(item):
        return _span(tokens, tuple(_positions(tokens, item)), f"{option} {item}")
    name, occurrence = _name(item, lambda named: _places_in(texts, tokens, named))
    if not name.strip():
        raise UsageError(f"{option}: no word was named", f'try: {option} it  or  {option} "it:2"')
    places = _places_in(texts, tokens, name)
    places = places or [_span(tokens, run, option) for run in _called(tokens, name)]
    if not places:
        raise UsageError(
            f'{option} {safe_label(spec)}: there is no "{safe_label(name)}" in the text',
            _nearest(words, name),
        )
    return (
        places[0]
        if len(places) == 1 and occurrence is None
        else _chosen(places, name, occurrence, option, texts)
    )


def _places_in(texts: Sequence[str], tokens: Tokens, name: str) -> list[Span]:
    """Find where a text stands in others as whole words; where it does nowhere, as whole tokens."""
    for edges in (_word_edges, partial(_token_edges, tokens)):
        found = [
            Span(start, end, sequence)
            for sequence, text in enumerate(texts)
            for start, end in occurrences(text, name, *edges(text, sequence))
        ]
        if found:
            return found
    return []


def _word_edges(text: str, sequence: int) -> Edges:
    words = list(word_spans(text))
    return {start for start, _ in words}, {end for _, end in words}


def _token_edges(tokens: Tokens, text: str, sequence: int) -> Edges:
    return _edges(text, [(t.start, t.end) for t in tokens if t.sequence == sequence and not t.special])


def _edges(text: str, spans: Iterable[tuple[int | None, int | None]]) -> Edges:
    """Return where tokens begin and end, blanks aside."""
    starts, ends = set(), set()
    for start, end in spans:
        if start is not None and end is not None:
            there = text[start:end]
            starts.add(end - len(there.lstrip()))
            ends.add(start + len(there.rstrip()))
    return starts, ends


def _name(item: str, found: Callable[[str], Sequence[object]]) -> tuple[str, int | None]:
    """Return ``it:2`` from a text that has a colon in it."""
    quoted = _QUOTED.fullmatch(item)
    if quoted:
        return quoted[1], int(quoted[2]) if quoted[2] else None
    numbered = _OCCURRENCE.fullmatch(item)
    if numbered and not found(item):
        return numbered[1], int(numbered[2])
    return item, None


def _chosen(
    places: Sequence[Span], name: str, occurrence: int | None, option: str, texts: Sequence[str]
) -> Span:
    shown = safe_label(name)
    if occurrence is not None:
        if 1 <= occurrence <= len(places):
            return places[occurrence - 1]
        raise UsageError(
            f'{option} {shown}:{occurrence}: "{shown}" occurs {_times(len(places))}',
            f"write {option} {shown}:1" + (f" to {shown}:{len(places)}" if len(places) > 1 else ""),
        )
    where = ", ".join(str(place.start) for place in places[:_MOST_SHOWN])
    around = ", ".join(
        f"{shown}:{number} ({_around(texts, place)})" for number, place in enumerate(places[:2], 1)
    )
    raise UsageError(
        f'{option} {shown}: "{shown}" occurs {_times(len(places))}, at characters {where}',
        f"write {option} {around}{', …' if len(places) > 2 else ''}",
    )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _around(texts: Sequence[str], place: Span) -> str:
    """Show a place with a few words around it."""
    text = texts[place.sequence]
    start, end = max(0, place.start - _CONTEXT), min(len(text), place.end + _CONTEXT)
    before, after = text[start : place.start], text[place.end : end]
    before = f"…{before.partition(' ')[2]}" if start else before
    after = f"{after.rpartition(' ')[0]}…" if end < len(text) else after
    return safe_label(before + text[place.start : place.end] + after)


def _span(tokens: Tokens, run: Run, option: str) -> Span:
    """Return the characters that some tokens stand for, without the spaces around them."""
    chosen = {token.position: token for token in tokens if token.position in run}
    first, last = chosen[run[0]], chosen[run[-1]]
    if any(token.special or token.start is None for token in chosen.values()):
        raise UsageError(f"{option} names a special token, which is not a word of the text")
    assert first.start is not None and last.end is not None
    lead = len(first.text) - len(first.text.lstrip())
    start = first.start + lead if first.end is None or first.start + lead < first.end else first.start
    return Span(start, last.end, first.sequence or 0)


def _items(spec: str) -> list[str]:
    """Split at commas outside double quotes."""
    parts = re.findall(r'(?:"[^"]*"|[^,"]|")+', spec)
    return [part.strip() for part in parts if part.strip()]


def _positions(tokens: Tokens, item: str) -> Sequence[int]:
    if _NUMBER.fullmatch(item):
        return [_position(tokens, item)]
    ends = _RANGE.fullmatch(item)
    if ends:
        first, last = (_position(tokens, end) for end in ends.groups("-1"))
        if first > last:
            raise UsageError(f"the range {item} runs backwards", f"did you mean {ends[2]}-{ends[1]}?")
        return range(first, last + 1)
    return _named(tokens, *_name(item, lambda named: _runs(tokens, named)))


def _position(tokens: Tokens, text: str) -> int:
    first, last = tokens[0].position, tokens[-1].position
    number = int(text)
    position = last + 1 + number if number < 0 else number
    if not first <= position <= last:
        hint = f'for the text write "{text}" with the quotes' if _runs(tokens, text) else None
        raise UsageError(f"there is no token {text}: positions go from {first} to {last}", hint)
    return position


def _named(tokens: Tokens, wanted: str, occurrence: int | None) -> Sequence[int]:
    runs = _runs(tokens, wanted)
    if not runs:
        raise UsageError(f'no token "{safe_label(wanted)}" in the text', _nearest(tokens, wanted))
    if occurrence is None:
        return [position for run in runs for position in run]
    if not 1 <= occurrence <= len(runs):
        where = ", ".join(str(run[0]) for run in runs)
        raise UsageError(
            f'"{safe_label(wanted)}" has no occurrence {occurrence}: occurrences go from 1 to {len(runs)}',
            f"it occurs at {where}",
        )
    return runs[occurrence - 1]


def _runs(tokens: Tokens, wanted: str) -> list[Run]:
    """Find the tokens, or runs of neighbouring tokens, that stand for a text."""
    read = written(tokens)
    starts, ends = _edges(read.text, [span for span in read.spans if span is not None])
    edges = starts | {start for start, _ in read.words}, ends | {end for _, end in read.words}
    found = [read.tokens_in(*span) for span in occurrences(read.text, wanted, *edges)]
    return [tuple(tokens[place].position for place in run) for run in found] or _called(tokens, wanted)


def _called(tokens: Tokens, wanted: str) -> list[Run]:
    """Find the tokens whose text in the vocabulary or whose label is this: special ones, blanks, parts of words.

    Failing that, those of a part of the text: ``img``, ``generated``.
    """
    if not wanted.strip():
        return [(token.position,) for token in tokens if token.text == wanted]
    for same in (composed, folded):
        name = same(wanted.strip())
        found = [t for t in tokens if name in (same(t.text.strip()), same(t.label))]
        if found:
            return [(token.position,) for token in found]
    return [(token.position,) for token in tokens if token.segment == wanted.strip()]


def _nearest(tokens: Tokens, wanted: str) -> str | None:
    names = {token.text.strip().casefold(): token for token in tokens if token.text.strip()}
    close = get_close_matches(wanted.strip().casefold(), names, n=3, cutoff=0.5)
    if close:
        return "nearest: " + ", ".join(f'"{names[name].label}" ({names[name].position})' for name in close)
    shown = ", ".join(token.label for token in tokens[:12])
    return f"tokens: {shown}{', …' if len(tokens) > 12 else ''}"
