"""Which token of one run stands for which of another."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher

from attncli.record import Token, Tokens


@dataclass(frozen=True, slots=True)
class Alignment:
    """Pairs of places along one axis of two runs.

    Args:
        before: Places in the first run, in order.
        after: The place in the second run that each stands beside.
        replaced: Which of the pairs have different texts.
        removed: Places that only the first run has.
        added: Places that only the second run has.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    replaced: tuple[bool, ...]
    removed: tuple[int, ...]
    added: tuple[int, ...]

    @property
    def same(self) -> bool:
        """Whether both runs have the same tokens."""
        return not (self.removed or self.added or any(self.replaced))


def align(before: Tokens, after: Tokens) -> Alignment:
    """Align tokens by their text: equal ones, and as many as were replaced by as many others, place by place.

    >>> from attncli.models.tokens import words_of_text
    >>> found = align(words_of_text("too tired to go"), words_of_text("too wide to go now"))
    >>> list(zip(found.before, found.after, found.replaced)), found.added
    ([(0, 0, False), (1, 1, True), (2, 2, False), (3, 3, False)], (4,))
    """
    pairs: list[tuple[int, int, bool]] = []
    removed: list[int] = []
    added: list[int] = []
    matcher = SequenceMatcher(None, _keys(before), _keys(after), autojunk=False)
    for what, start, stop, their_start, their_stop in matcher.get_opcodes():
        common = min(stop - start, their_stop - their_start) if what in ("equal", "replace") else 0
        if what == "replace" and stop - start != their_stop - their_start:
            common = 0
        pairs += [(start + i, their_start + i, what == "replace") for i in range(common)]
        removed += range(start + common, stop)
        added += range(their_start + common, their_stop)
    return Alignment(
        tuple(pair[0] for pair in pairs),
        tuple(pair[1] for pair in pairs),
        tuple(pair[2] for pair in pairs),
        tuple(removed),
        tuple(added),
    )


def by_position(before: int, after: int) -> Alignment:
    """Align places by their number, whatever stands there."""
    common = range(min(before, after))
    rest = tuple(range(len(common), before)), tuple(range(len(common), after))
    return Alignment(tuple(common), tuple(common), (False,) * len(common), *rest)


def _keys(tokens: Tokens) -> list[tuple[str, bool]]:
    return [_key(token) for token in tokens]


def _key(token: Token) -> tuple[str, bool]:
    return token.text, token.special
