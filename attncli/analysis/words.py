"""Word pieces to words: a word is attended to as much as its pieces together, and attends as they do on average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attncli.labels import safe_label
from attncli.record import Token, Tokens
from attncli.view import Matrix

RULE = "word pieces merged: weights on a word's pieces are summed, those of its rows averaged (Clark et al. 2019, §5)"
"""What `merge` does, for a note. Rows sum to what they summed to before. arXiv 1906.04341."""


def word_starts(tokens: Tokens) -> list[int]:
    """Find where each word begins: at a token that does not go on with the word of the one before it.

    It does where no blank lies between them, neither is special or of another text, and letters, digits or bytes of
    one character meet.
    """
    return [i for i, token in enumerate(tokens) if i == 0 or not _goes_on(tokens[i - 1], token)]


def word_tokens(tokens: Tokens, starts: Sequence[int]) -> Tokens:
    """Give a token for each word, at the position of its first piece."""
    stops = [*starts[1:], len(tokens)]
    return tuple(_joined(tokens[start:stop]) for start, stop in zip(starts, stops, strict=True))


def merge(matrix: Matrix, query_starts: Sequence[int], key_starts: Sequence[int]) -> Matrix:
    """Sum over the keys of a word and average over its query rows; a pair is allowed where any of its pieces is."""
    summed = np.add.reduceat(matrix.values, key_starts, axis=1)
    sizes = np.diff([*query_starts, matrix.values.shape[0]])
    values = (np.add.reduceat(summed, query_starts, axis=0) / sizes[:, None]).astype(np.float32)
    allowed = matrix.allowed
    if allowed is not None:
        allowed = np.logical_or.reduceat(
            np.logical_or.reduceat(allowed, key_starts, axis=1), query_starts, axis=0
        )
    return replace(matrix, values=values, allowed=allowed)


def _goes_on(before: Token, token: Token) -> bool:
    if before.special or token.special or before.sequence != token.sequence or before.end != token.start:
        return False
    if before.bytes is not None and token.bytes is not None:
        return True
    return bool(before.text and token.text) and _is_letter(before.text[-1]) and _is_letter(token.text[0])


def _is_letter(character: str) -> bool:
    return character.isalnum() or character in "_'’\ufffd"


def _joined(pieces: Tokens) -> Token:
    if len(pieces) == 1:
        return pieces[0]
    text = "".join(piece.text for piece in pieces)
    return replace(
        pieces[0], id=None, text=text, label=safe_label(text), end=pieces[-1].end, bytes=None, piece=None
    )
