"""An axis of many tokens cut into the cells of a picture: where each begins, and what it is called."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from attncli.record import Token, Tokens

SIDE = 512
"""A picture has at most so many cells each way."""


def even_cuts(length: int, parts: int) -> list[int]:
    """Cut a length into parts as even as can be; return where each begins.

    >>> even_cuts(7, 3), even_cuts(2, 5)
    ([0, 2, 4], [0, 1])
    """
    parts = min(parts, length)
    return [part * length // parts for part in range(parts)]


def cell_tokens(tokens: Tokens, starts: Sequence[int]) -> Tokens:
    """Return a token for each cell of a pooled axis, called by its first position.

    Args:
        starts: Where each cell begins.
    """
    return tuple(
        Token(
            position=tokens[start].position,
            id=None,
            text="".join(token.text for token in tokens[start:stop]),
            label=str(tokens[start].position),
            start=tokens[start].start,
            end=tokens[stop - 1].end,
            sequence=tokens[start].sequence,
        )
        for start, stop in pairwise([*starts, len(tokens)])
    )
