"""Picks tokens as a person names them: by position, by range, or by their text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from attncli.errors import UsageError
from attncli.labels import safe_label
from attncli.record import Token, Tokens

_NUMBER = re.compile(r"-?\d+")
_RANGE = re.compile(r"(-?\d+)-(-?\d+)")
_OCCURRENCE = re.compile(r"(.+):(\d+)", re.DOTALL)
_QUOTED = re.compile(r'"([^"]*)"(?::(\d+))?')

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
