"""What to look at: of the heads that are known to do something, one that is seen doing it in this text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attncli.record import HeadRole, Token, Tokens
from attncli.view import Matrix

CLEAR = 0.2
"""The least weight of a pair that a reader is sent to look at."""


@dataclass(frozen=True)
class Seen:
    """One head's map, with what its rows and columns are."""

    matrix: Matrix
    queries: Tokens
    keys: Tokens

    def weight(self, row: int, column: int) -> float:
        """Return one weight; 0 where it is not among the strongest, and only these were kept."""
        if self.matrix.listed is None:
            return float(self.matrix.values[row, column])
        found = self.matrix.listed.columns[row] == column
        return float(self.matrix.listed.weights[row][found].sum())

    def strongest(self, pairs: Iterator[tuple[int, int]]) -> tuple[float, Token, Token] | None:
        """Return the pair of row and column with the largest weight; None where there are no pairs."""
        weight, row, column = max(((self.weight(*pair), *pair) for pair in pairs), default=(0.0, -1, -1))
        return None if row < 0 else (weight, self.queries[row], self.keys[column])


def what_to_look_at(
    matrices: Sequence[Matrix], roles: Sequence[HeadRole], queries: Tokens, keys: Tokens
) -> str | None:
    """Return which of the heads shown is worth a look and what it does, in one line; None where none is known to.

    Args:
        roles: The strongest of each role first.
    """
    shown = {(matrix.kind, matrix.layer, matrix.head): matrix for matrix in matrices}
    for name, describe in _DESCRIBED.items():
        of_this_role = [role for role in roles if role.role == name]
        for role in sorted(of_this_role, key=lambda role: -role.score):
            matrix = shown.get((role.kind, role.layer, role.head))
            said = None if matrix is None else describe(Seen(matrix, queries, keys))
            if said is not None:
                return f"look at L{role.layer}H{role.head}{said}"
    return None


def head_to_show(roles: Sequence[HeadRole], tokens: Tokens) -> HeadRole | None:
    """Choose the one head that a reader should see of a text: an induction head where a token comes again."""
    again = any(True for _ in _behind_the_same(tokens, tokens))
    wanted = "induction" if again else "previous_token"
    return max((role for role in roles if role.role == wanted), key=lambda role: role.score, default=None)


def _induction(seen: Seen) -> str | None:
    found = seen.strongest(_behind_the_same(seen.queries, seen.keys))
    if found is None or found[0] < CLEAR:
        return None
    weight, query, key = found
    return (
        ", an induction head: a token that came before attends to what followed it then. "
        f"Row {_placed(query, seen.queries)} has {_short(weight)} on {_placed(key, seen.keys)}"
    )


def _previous(seen: Seen) -> str | None:
    return _beside(seen, -1, "the one before it")


def _next(seen: Seen) -> str | None:
    return _beside(seen, 1, "the one after it")


def _beside(seen: Seen, offset: int, where: str) -> str | None:
    columns = {token.position: column for column, token in enumerate(seen.keys)}
    pairs = [
        (row, columns[token.position + offset])
        for row, token in enumerate(seen.queries)
        if token.position + offset in columns and not token.special
    ]
    mean = float(np.mean([seen.weight(*pair) for pair in pairs])) if pairs else 0.0
    if mean < CLEAR:
        return None
    return f": each token attends to {where}, with {_short(mean)} of its weight on average"


def _alignment(seen: Seen) -> str | None:
    """Return where a row of a translation looks: its token was written before, and the next one is looked for."""
    rows = [row for row, token in enumerate(seen.queries[:-1]) if seen.queries[row + 1].text.isalnum()]
    found = seen.strongest((row, column) for row in rows for column in range(len(seen.keys)))
    if found is None or found[0] < CLEAR:
        return None
    weight, query, key = found
    written = seen.queries[seen.queries.index(query) + 1]
    return (
        ": each row attends to the words that say what is written next. "
        f"Row {_placed(query, seen.queries)} is about to write {_named(written)}, and has {_short(weight)} on "
        f"{_placed(key, seen.keys)}"
    )


_DESCRIBED: Mapping[str, Callable[[Seen], str | None]] = {
    "alignment": _alignment,
    "induction": _induction,
    "previous_token": _previous,
    "next_token": _next,
}


def _behind_the_same(queries: Tokens, keys: Tokens) -> Iterator[tuple[int, int]]:
    """Yield the rows and columns of tokens and of what stood right after the same token before."""
    ids = {token.position + 1: token.id for token in keys}
    after: dict[int | None, list[int]] = {}
    for column, key in enumerate(keys):
        if key.position in ids:
            after.setdefault(ids[key.position], []).append(column)
    for row, query in enumerate(queries):
        for column in () if query.special else after.get(query.id, ()):
            if keys[column].position <= query.position:
                yield row, column


def _named(token: Token) -> str:
    return f'"{token.label.strip("·") or token.label}"'


def _placed(token: Token, among: Tokens) -> str:
    """Name a token as the eye finds it: by its label, and of several alike by which of them it is."""
    alike = [other for other in among if _named(other) == _named(token)]
    if len(alike) == 1:
        return _named(token)
    number = 1 + alike.index(token)
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number if number < 20 else number % 10, "th")
    return f"{_named(token)} ({number}{ending})"


def _short(weight: float) -> str:
    """Write a weight as the map's cells do."""
    return "1.0" if weight >= 0.995 else f"{weight:.2f}".removeprefix("0")
