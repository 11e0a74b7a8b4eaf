"""Word pieces to words: a word is attended to as much as its pieces together, and attends as they do on average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from attncli.labels import safe_label
from attncli.record import Span, Token, Tokens
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


def units(tokens: Tokens, whole: Sequence[range] = ()) -> list[range]:
    """Cut tokens into words, each as the range of its places; none of the special tokens is one.

    Args:
        whole: Places that are to be one word each, wherever the words around them begin: a phrase, a part of a word.
    """
    starts = set(word_starts(tokens))
    for places in whole:
        starts -= set(places[1:])
        starts |= {places.start, places.stop}
    edges = sorted(start for start in starts if start < len(tokens))
    cut = (range(start, stop) for start, stop in pairwise([*edges, len(tokens)]))
    return [places for places in cut if not tokens[places.start].special]


def places_of(tokens: Tokens, span: Span, texts: Sequence[str]) -> range | None:
    """Find the tokens that stand for some characters of a text, blanks aside; None where there are none.

    Args:
        texts: The text, and the second one of a pair.
    """
    text = texts[span.sequence]
    found = [
        place
        for place, token in enumerate(tokens)
        if token.sequence == span.sequence
        and token.start is not None
        and token.end is not None
        and text[max(token.start, span.start) : min(token.end, span.end)].strip()
    ]
    return range(found[0], found[-1] + 1) if found else None


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
