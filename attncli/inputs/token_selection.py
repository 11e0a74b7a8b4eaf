"""Picks tokens as a person names them: by position, by range, or by their text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from attncli.errors import UsageError
from attncli.labels import safe_label
from attncli.record import Span, Token, Tokens

_NUMBER = re.compile(r"-?\d+")
_RANGE = re.compile(r"(-?\d+)-(-?\d+)")
_OCCURRENCE = re.compile(r"(.+):(\d+)", re.DOTALL)
_QUOTED = re.compile(r'"([^"]*)"(?::(\d+))?')

_MOST_SHOWN = 8
_CONTEXT = 14

Run = tuple[int, ...]


def pick(tokens: Tokens, spec: str) -> tuple[int, ...]:
    """Read what ``--query`` and ``--key`` name, and give the positions in the order named, none twice.

    A comma list of positions (``3``, ``-1`` from the end), ranges (``3-5``, both ends included) and texts.
    A text names each token that stands for it, spaces around it aside, in its own case or, where there is
    none, in any; a text that was cut into several tokens names them all. ``it:2`` is its second occurrence.
    Double quotes make anything a text: ``"3"``, ``","``.

    Raises:
        UsageError: A position out of range, a text that does not occur, or an empty list.
    """
    if not tokens:
        raise UsageError("there are no tokens to pick from")
    items = _items(spec)
    if not items:
        raise UsageError("no token named", 'give positions, ranges or texts: 3,5-7,it,","')
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
    written = as_written(words, texts)
    if _NUMBER.fullmatch(item) or _RANGE.fullmatch(item):
        return _span(tokens, tuple(_positions(tokens, item)), f"{option} {item}")
    name, occurrence = _name(written, item)
    if not name.strip():
        raise UsageError(f"{option}: no word was named", f'try: {option} it  or  {option} "it:2"')
    for there in (written, tokens):
        runs = _runs(there, name)
        if runs:
            run = runs[0] if len(runs) == 1 and occurrence is None else None
            return _span(there, run or _chosen(there, runs, name, occurrence, option, texts), option)
    raise UsageError(
        f'{option} {safe_label(spec)}: there is no "{safe_label(name)}" in the text', _nearest(written, name)
    )


def as_written(words: Tokens, texts: Sequence[str]) -> Tokens:
    """Give tokens the characters that they stand for in the text: a model may have lowered its case."""
    return tuple(
        word
        if word.special or word.start is None or word.sequence is None
        else replace(word, text=texts[word.sequence][word.start : word.end])
        for word in words
    )


def _name(words: Tokens, item: str) -> tuple[str, int | None]:
    """Tell ``it:2`` from a text that has a colon in it."""
    quoted = _QUOTED.fullmatch(item)
    if quoted:
        return quoted[1], int(quoted[2]) if quoted[2] else None
    numbered = _OCCURRENCE.fullmatch(item)
    if numbered and not _runs(words, item):
        return numbered[1], int(numbered[2])
    return item, None


def _chosen(
    words: Tokens, runs: Sequence[Run], name: str, occurrence: int | None, option: str, texts: Sequence[str]
) -> Run:
    shown, places = safe_label(name), [_span(words, run, option) for run in runs]
    if occurrence is not None:
        if 1 <= occurrence <= len(runs):
            return runs[occurrence - 1]
        raise UsageError(
            f'{option} {shown}:{occurrence}: "{shown}" stands there {_times(len(runs))}',
            f"write {option} {shown}:1" + (f" to {shown}:{len(runs)}" if len(runs) > 1 else ""),
        )
    where = ", ".join(str(place.start) for place in places[:_MOST_SHOWN])
    around = ", ".join(
        f"{shown}:{number} ({_around(texts, place)})" for number, place in enumerate(places[:2], 1)
    )
    raise UsageError(
        f'{option} {shown}: "{shown}" stands there {_times(len(runs))}, at characters {where}',
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
    """Give the characters that some tokens stand for, without the spaces around them."""
    chosen = {token.position: token for token in tokens if token.position in run}
    first, last = chosen[run[0]], chosen[run[-1]]
    if any(token.special or token.start is None for token in chosen.values()):
        raise UsageError(f"{option} names a special token, which is no word of the text")
    assert first.start is not None and last.end is not None
    lead = len(first.text) - len(first.text.lstrip())
    start = first.start + lead if first.end is None or first.start + lead < first.end else first.start
    return Span(start, last.end, first.sequence or 0)


def _items(spec: str) -> list[str]:
    """Split at commas outside double quotes."""
    parts = re.findall(r'(?:"[^"]*"|[^,"]|")+', spec)
    return [part.strip() for part in parts if part.strip()]


def _positions(tokens: Tokens, item: str) -> Sequence[int]:
    quoted = _QUOTED.fullmatch(item)
    if quoted:
        return _named(tokens, quoted[1], int(quoted[2]) if quoted[2] else None)
    if _NUMBER.fullmatch(item):
        return [_position(tokens, item)]
    ends = _RANGE.fullmatch(item)
    if ends:
        first, last = (_position(tokens, end) for end in ends.groups())
        if first > last:
            raise UsageError(f"the range {item} runs backwards", f"did you mean {ends[2]}-{ends[1]}?")
        return range(first, last + 1)
    numbered = _OCCURRENCE.fullmatch(item)
    if numbered and not _runs(tokens, item):
        return _named(tokens, numbered[1], int(numbered[2]))
    return _named(tokens, item, None)


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
            f"it stands at {where}",
        )
    return runs[occurrence - 1]


def _runs(tokens: Tokens, wanted: str) -> list[Run]:
    """Find the tokens, or runs of neighbouring tokens, that stand for a text."""
    for same in (str, str.casefold):
        alone: list[Run] = [(token.position,) for token in tokens if _stands_for(token, wanted, same)]
        runs = alone or _joined_runs(tokens, wanted, same)
        if runs:
            return runs
    return []


def _stands_for(token: Token, wanted: str, same: Callable[[str], str]) -> bool:
    if not wanted.strip():
        return token.text == wanted
    return same(wanted.strip()) in (same(token.text.strip()), same(token.label))


def _joined_runs(tokens: Tokens, wanted: str, same: Callable[[str], str]) -> list[Run]:
    goal = same(wanted.strip())
    if not goal:
        return []
    starts = (_run_from(tokens, index, goal, same) for index in range(len(tokens)))
    return [run for run in starts if run]


def _run_from(tokens: Tokens, first: int, goal: str, same: Callable[[str], str]) -> Run:
    """Take tokens while together they begin `goal`; empty where they never are all of it."""
    text = same(tokens[first].text).lstrip()
    last = first
    while text and goal.startswith(text) and last + 1 < len(tokens):
        last += 1
        text += _gap(tokens[last - 1], tokens[last]) + same(tokens[last].text)
        if text.rstrip() == goal:
            return tuple(token.position for token in tokens[first : last + 1])
    return ()


def _gap(left: Token, right: Token) -> str:
    """Give the space between two neighbours that neither of them holds."""
    return "" if left.end is None or right.start is None or right.start <= left.end else " "


def _nearest(tokens: Tokens, wanted: str) -> str | None:
    names = {token.text.strip().casefold(): token for token in tokens if token.text.strip()}
    close = get_close_matches(wanted.strip().casefold(), names, n=3, cutoff=0.5)
    if close:
        return "nearest: " + ", ".join(f'"{names[name].label}" ({names[name].position})' for name in close)
    shown = ", ".join(token.label for token in tokens[:12])
    return f"tokens: {shown}{', …' if len(tokens) > 12 else ''}"
