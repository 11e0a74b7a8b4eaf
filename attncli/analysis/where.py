"""A condition on heads: ``previous_token > 0.4 and layer < 6``. A grammar of its own; nothing is ever executed.

    condition   = both {"or" both}
    both        = one {"and" one}
    one         = "not" one | "(" condition ")" | side compare side
    compare     = ">" | ">=" | "<" | "<=" | "==" | "=" | "!="
    side        = number | word | name ["." part]
    part        = "mean" | "stderr" | "null" | "rows"

A number that a head does not have fulfils no comparison. Labels and kinds are compared as words:
``label == induction``.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from attncli.analysis.head_numbers import ROLE, Head
from attncli.errors import UsageError, did_you_mean
from attncli.labels import safe_label

Condition = Callable[[Head], bool]
_Value = float | str | tuple[str, ...]
_Side = Callable[[Head], _Value]

_TOKEN = re.compile(r"\s*(?:(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][\w-]*(?:\.\w+)?)"
                    r"|(?P<quoted>\"[^\"]*\"|'[^']*')|(?P<sign>>=|<=|==|!=|[<>=()]))")  # fmt: skip
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
    "==": operator.eq, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip
_PARTS = ("mean", "stderr", "null", "chance", "shuffled", "rows", "excess")
_PLAIN = ("layer", "head", "kind", "label")
_EXAMPLE = 'such as --where "previous_token > 0.4 and layer < 6"'


def parse_where(text: str, metrics: Sequence[str]) -> Condition:
    """Read a condition.

    Args:
        metrics: Names that stand for a head's numbers.

    Raises:
        UsageError: It does not parse; the message points at the place.
    """
    reader = _Reader(text, [*metrics, ROLE])
    condition = reader.condition()
    reader.expect_end()
    return condition


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: str
    text: str
    start: int


class _Reader:
    """Reads a condition from left to right."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self.text, self.names = text, list(names)
        self.pieces = self._cut()
        self.at = 0
        self.depth = 0

    def condition(self) -> Condition:
        sides = [self._both()]
        while self._takes("or"):
            sides.append(self._both())
        return sides[0] if len(sides) == 1 else lambda head: any(side(head) for side in sides)

    def expect_end(self) -> None:
        if self.at < len(self.pieces):
            raise self._wrong(self.pieces[self.at].start, "expected and, or, or the end")

    def _both(self) -> Condition:
        sides = [self._one()]
        while self._takes("and"):
            sides.append(self._one())
        return sides[0] if len(sides) == 1 else lambda head: all(side(head) for side in sides)

    def _one(self) -> Condition:
        self.depth += 1
        if self.depth > 50:
            raise self._wrong(self._place(), "too many brackets")
        try:
            return (
                self._not()
                if self._takes("not")
                else self._bracket()
                if self._takes("(")
                else self._comparison()
            )
        finally:
            self.depth -= 1

    def _not(self) -> Condition:
        inner = self._one()
        return lambda head: not inner(head)

    def _bracket(self) -> Condition:
        inner = self.condition()
        if not self._takes(")"):
            raise self._wrong(self._place(), "expected )")
        return inner

    def _comparison(self) -> Condition:
        left = self._side()
        piece = self._next("expected >, >=, <, <=, == or !=")
        if piece.text not in _COMPARE:
            raise self._wrong(piece.start, "expected >, >=, <, <=, == or !=")
        right = self._side()
        return _comparison(left, piece.text, right)

    def _side(self) -> _Side:
        piece = self._next("expected a name or a number")
        if piece.kind == "number":
            number = float(piece.text)
            return lambda head: number
        if piece.kind == "quoted":
            word = piece.text[1:-1]
            return lambda head: word
        if piece.kind == "name":
            return self._named(piece)
        raise self._wrong(piece.start, "expected a name or a number")

    def _named(self, piece: _Piece) -> _Side:
        name, dot, part = piece.text.partition(".")
        known = name.replace("-", "_")
        before = self.pieces[self.at - 2].text if self.at > 1 else ""
        if name in _PLAIN and not dot:
            return _plain(name)
        if known in self.names:
            if dot and part not in _PARTS:
                raise self._wrong(
                    piece.start + len(name) + 1, f"no part {part!r}", did_you_mean(part, _PARTS)
                )
            return _number(known, part or "mean")
        if before in ("==", "=", "!="):
            return lambda head: name  # a word, such as a label
        hint = did_you_mean(known, [*self.names, *_PLAIN])
        raise self._wrong(piece.start, f'no metric "{safe_label(name)}"', hint)

    def _takes(self, text: str) -> bool:
        if self.at < len(self.pieces) and self.pieces[self.at].text.lower() == text:
            self.at += 1
            return True
        return False

    def _next(self, expected: str) -> _Piece:
        if self.at >= len(self.pieces):
            raise self._wrong(len(self.text), expected)
        self.at += 1
        return self.pieces[self.at - 1]

    def _place(self) -> int:
        return self.pieces[self.at].start if self.at < len(self.pieces) else len(self.text)

    def _cut(self) -> list[_Piece]:
        pieces, place = [], 0
        end = len(self.text.rstrip())
        while place < end:
            match = _TOKEN.match(self.text, place)
            if match is None:
                start = place + len(self.text[place:]) - len(self.text[place:].lstrip())
                raise self._wrong(start, f'"{safe_label(self.text[start])}" means nothing here')
            kind = match.lastgroup
            assert kind is not None
            pieces.append(_Piece(kind, match[kind], match.start(kind)))
            place = match.end()
        if not pieces:
            raise UsageError("--where is empty", _EXAMPLE)
        return pieces

    def _wrong(self, place: int, what: str, hint: str | None = None) -> UsageError:
        shown = safe_label(self.text[:place]) if place else ""
        rest = safe_label(self.text[place:]) if place < len(self.text) else ""
        return UsageError(f"--where: {what} at character {place + 1}: {shown}⟪here⟫{rest}", hint or _EXAMPLE)


def _plain(name: str) -> _Side:
    if name == "label":
        return lambda head: head.labels
    return lambda head: getattr(head, name) if name == "kind" else float(getattr(head, name))


def _number(name: str, part: str) -> _Side:
    def value(head: Head) -> float:
        if part == "mean":
            return head.value(name)
        if name not in head.numbers:
            return math.nan
        return float(getattr(head.numbers[name], part))

    return value


def _comparison(left: _Side, sign: str, right: _Side) -> Condition:
    def holds(head: Head) -> bool:
        one, other = left(head), right(head)
        if isinstance(one, float) and isinstance(other, float):
            return not math.isnan(one) and not math.isnan(other) and _COMPARE[sign](one, other)
        same = _same(one, other)
        return same if sign in ("==", "=") else not same if sign == "!=" else False

    return holds


def _same(one: _Value, other: _Value) -> bool:
    ones, others = (value if isinstance(value, tuple) else (str(value),) for value in (one, other))
    return bool(set(ones) & set(others))
