"""Word pieces to words: a word is attended to as much as its pieces together, and attends as they do on average."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np

from attncli.errors import UsageError
from attncli.labels import safe_label
from attncli.record import Span, Token, Tokens
from attncli.view import Matrix
from attncli.written import Written, written

RULE = "word pieces merged: weights on a word's pieces are summed, those of its rows averaged (Clark et al. 2019, §5)"
"""What `merge` does, for a note. Rows sum to what they summed to before. arXiv 1906.04341."""


def require_offsets(tokens: Tokens) -> None:
    """Refuse tokens of a text that do not say which characters they stand for.

    Raises:
        UsageError: Some do not.
    """
    given = (token for token in tokens if not token.special and token.segment != "generated")
    if any(token.id is not None and token.start is None for token in given):
        raise UsageError(
            "the model's tokenizer does not say where its tokens stand in this text, so that there are no words",
            "its tokens can be shown and named by position",
        )


def word_starts(tokens: Tokens) -> list[int]:
    """Find where each word begins: at a token that has no part of the word that the one before it has a part of.

    The words are those of the text (UAX #29). A token that has parts of several makes them one, and a token of spaces
    belongs to the word after it.
    """
    read = written(tokens)
    starts, last = [], -1
    for place in range(len(tokens)):
        words = read.words_of(place)
        if not (words and (words.start <= last or _leads(read, place - 1, place))):
            starts.append(place)
        last = words[-1] if words else -1
    return starts


def _leads(read: Written, before: int, place: int) -> bool:
    """Whether a token of spaces stands right before another."""
    left, right = read.spans[before] if before >= 0 else None, read.spans[place]
    if left is None or right is None or left[1] != right[0]:
        return False
    return not read.text[slice(*left)].strip(" ")


def word_tokens(tokens: Tokens, starts: Sequence[int]) -> Tokens:
    """Return a token for each word, as the text has it, at the position of its first piece."""
    read = written(tokens)
    stops = [*starts[1:], len(tokens)]
    return tuple(_word(tokens, read, range(*ends)) for ends in zip(starts, stops, strict=True))


def chosen_words(tokens: Tokens, picked: Sequence[int] | None) -> tuple[list[int] | None, list[int], Tokens]:
    """Return the words that some tokens are of: the places of their tokens, where each begins there, and a token each.

    Args:
        picked: Places of tokens; None for all words, whose places are then None.
    """
    starts = word_starts(tokens)
    words = word_tokens(tokens, starts)
    if picked is None:
        return None, starts, words
    edges = [*starts, len(tokens)]
    chosen = list(dict.fromkeys(bisect_right(starts, place) - 1 for place in picked))
    ranges = [range(edges[word], edges[word + 1]) for word in chosen]
    begins = list(accumulate(map(len, ranges[:-1]), initial=0))
    return [place for places in ranges for place in places], begins, tuple(words[word] for word in chosen)


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


def _word(tokens: Tokens, read: Written, places: range) -> Token:
    words = [word for place in places for word in read.words_of(place)]
    first = tokens[places[0]]
    if not words:
        return first
    start, end = read.words[words[0]][0], read.words[words[-1]][1]
    text = read.text[start:end]
    shift = _shift(tokens, read, places)
    whole = len(places) == 1
    return replace(
        first,
        id=first.id if whole else None,
        text=text,
        label=safe_label(text),
        start=None if shift is None else start - shift,
        end=None if shift is None else end - shift,
        bytes=None,
        piece=first.piece if whole else None,
        written=None if shift is None else text,
    )


def _shift(tokens: Tokens, read: Written, places: range) -> int | None:
    """Return how much further on a word's tokens stand in the text put together than in their own."""
    first, span = tokens[places[0]], read.spans[places[0]]
    return None if first.start is None or span is None else span[0] - first.start
