"""A condition on heads: ``previous_token > 0.4 and layer < 6``, read by Python's own parser. Nothing in it is executed.

Allowed are ``and``, ``or``, ``not``, brackets, the comparisons ``> >= < <= == !=`` (and ``=`` for ``==``), numbers, and

- a metric, with ``.mean`` (the default), ``.stderr``, ``.null``, ``.chance``, ``.shuffled``, ``.rows`` or ``.excess``;
- ``layer``, ``head``, ``kind`` and ``label``, the last two compared with words: ``label == induction``.

A number that a head does not have fulfils no comparison. In names, ``-`` and ``_`` are the same.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from attncli.errors import UsageError, did_you_mean
from attncli.heads.scores import ROLE, Head
from attncli.labels import safe_label

Condition = Callable[[Head], bool]
_Value = float | tuple[str, ...]
_Side = Callable[[Head], _Value]

_COMPARE: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_PARTS = ("mean", "stderr", "null", "chance", "shuffled", "rows", "excess")
_PLAIN = ("layer", "head", "kind", "label")
_LONGEST = 1000


def _example(option: str) -> str:
    return f'such as {option} "previous_token > 0.4 and layer < 6"'


def parse_where(text: str, metrics: Sequence[str], option: str = "--where") -> Condition:
    """Read a condition.

    Args:
        metrics: Names that stand for a head's numbers.
        option: Where it was given, for messages.

    Raises:
        UsageError: It does not parse; the message names the part that has no meaning.
    """
    if not text.strip():
        raise UsageError(f"{option} is empty", _example(option))
    if len(text) > _LONGEST:
        raise UsageError(
            f"{option} has {len(text):,} characters; at most {_LONGEST:,} are read", _example(option)
        )
    return _Reader(text, [*metrics, ROLE], option).condition()


class _Reader:
    """Turns the syntax tree of a condition into a function of a head."""

    def __init__(self, text: str, names: Sequence[str], option: str) -> None:
        self.option, self.example = option, _example(option)
        text = re.sub(r"(?<=\w)-(?=[A-Za-z_])", "_", " ".join(text.replace("\0", "\ufffd").split()))
        text = re.sub(r"\b(and|or|not)\b", lambda word: word[0].lower(), text, flags=re.IGNORECASE)
        self.text = re.sub(r"(?<![<>=!])=(?!=)", "==", text)
        self.names = names

    def condition(self) -> Condition:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(self.text, mode="eval")
        except SyntaxError as error:
            rest = self.text[max((error.offset or 1) - 1, 0) :]
            where = f'at "{safe_label(rest)}"' if rest else "at the end"
            raise UsageError(f"{self.option}: {error.msg} {where}", self.example) from None
        return self._truth(tree.body)

    def _truth(self, node: ast.expr) -> Condition:
        if isinstance(node, ast.BoolOp):
            sides = [self._truth(value) for value in node.values]
            every = all if isinstance(node.op, ast.And) else any
            return lambda head: every(side(head) for side in sides)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._truth(node.operand)
            return lambda head: not inner(head)
        if isinstance(node, ast.Compare):
            pairs = list(zip(pairwise([node.left, *node.comparators]), node.ops, strict=True))
            tests = [self._comparison(left, sign, right) for (left, right), sign in pairs]
            return lambda head: all(test(head) for test in tests)
        raise self._wrong(node, "is no comparison, as entropy > 2 is")

    def _comparison(self, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> Condition:
        compare = _COMPARE.get(type(sign))
        if compare is None:
            raise self._wrong(right, "is compared in a way that has no meaning here")
        word = any(isinstance(side, ast.Name) and side.id in ("kind", "label") for side in (left, right))
        one, other = self._side(left, word=word), self._side(right, word=word)

        def holds(head: Head) -> bool:
            first, second = one(head), other(head)
            if isinstance(first, float) and isinstance(second, float):
                return not math.isnan(first) and not math.isnan(second) and compare(first, second)
            if isinstance(first, float) or isinstance(second, float):
                return isinstance(sign, ast.NotEq)
            return bool(set(first) & set(second)) == isinstance(sign, ast.Eq)

        return holds

    def _side(self, node: ast.expr, *, word: bool = False) -> _Side:
        """Read one side of a comparison.

        Args:
            word: Whether the other side is a kind or a label, so that a name is a word.
        """
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            node = ast.Constant(-number) if (number := _number(node.operand)) is not None else node
        if (number := _number(node)) is not None:
            constant = number
            return lambda head: constant
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return _words(node.value)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._metric(node, node.value.id, node.attr)
        if isinstance(node, ast.Name) and node.id in _PLAIN:
            return _plain(node.id)
        if isinstance(node, ast.Name):
            return _words(node.id) if word else self._metric(node, node.id, "mean")
        raise self._wrong(node, "is no name or number")

    def _metric(self, node: ast.expr, name: str, part: str) -> _Side:
        if name not in self.names:
            hint = did_you_mean(name, [*self.names, *_PLAIN])
            raise UsageError(f'{self.option}: no metric "{safe_label(name)}"', hint or self.example)
        if part not in _PARTS:
            raise UsageError(
                f'{self.option}: {name} has no part "{safe_label(part)}"', did_you_mean(part, _PARTS)
            )
        if part == "mean":
            return lambda head: head.value(name)
        return lambda head: float(getattr(head.numbers[name], part)) if name in head.numbers else math.nan

    def _wrong(self, node: ast.expr, what: str) -> UsageError:
        there = ast.get_source_segment(self.text, node) or self.text
        return UsageError(f'{self.option}: "{safe_label(there)}" {what}', self.example)


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)  # type: ignore[arg-type]
    return None


def _plain(name: str) -> _Side:
    if name == "label":
        return lambda head: tuple(label.replace("-", "_") for label in head.labels)
    return lambda head: (head.kind,) if name == "kind" else float(getattr(head, name))


def _words(text: str) -> _Side:
    return lambda head: (text.replace("-", "_"),)
