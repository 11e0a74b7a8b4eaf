"""The text that tokens stand for, put together again from them, and its words.

A token's own text is what its vocabulary holds: in lower case, without accents, or a few bytes of a character. What a
person reads and names is the text itself, so words are cut and found there, and tokens are mapped on it by overlap.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby, pairwise

from attncli.record import Token, Tokens
from attncli.segmentation import word_spans

_LOOSE = re.compile("[\udc80-\udcff]")
"""A byte that belongs to no character, as Python decodes it."""


@dataclass(frozen=True)
class Written:
    """A text with its tokens.

    Args:
        text: What the tokens stand for. Parts of different texts are separated by a newline.
        spans: Where in it each token stands; None for special tokens, and for places of a picture or a sound.
    """

    text: str
    spans: tuple[tuple[int, int] | None, ...]

    @cached_property
    def words(self) -> list[tuple[int, int]]:
        """Where the words of the text begin and end."""
        return list(word_spans(self.text))

    def words_of(self, place: int) -> range:
        """Return which of `words` a token has a part of."""
        span = self.spans[place]
        if span is None:
            return range(0)
        first = bisect_right(self._ends, span[0])
        return range(first, max(first, bisect_left(self._starts, span[1])))

    def tokens_in(self, start: int, end: int) -> tuple[int, ...]:
        """Return the places of the tokens that stand for some characters, blanks aside."""
        return tuple(
            place
            for place, span in enumerate(self.spans)
            if span is not None and self.text[max(span[0], start) : min(span[1], end)].strip()
        )

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _ in self.words]

    @cached_property
    def _ends(self) -> list[int]:
        return [end for _, end in self.words]


def written(tokens: Tokens, texts: Sequence[str] = ()) -> Written:
    """Put together the text that tokens stand for: by their offsets or, where they have none, one after the other.

    Args:
        texts: What they may be of; where one is that, it tells what stands between them, which is blank otherwise.
    """
    parts: list[str] = []
    spans: list[tuple[int, int] | None] = []
    length = 0
    for _, group in groupby(tokens, key=_part):
        run = tuple(group)
        if _is_outside(run[0]):
            spans += [None] * len(run)
            continue
        text, places = _placed(run, texts) if run[0].start is not None else _joined(run)
        spans += [(length + start, length + end) for start, end in places]
        parts.append(text)
        length += len(text) + 1
    return Written("\n".join(parts), tuple(spans))


def _part(token: Token) -> tuple[object, ...]:
    return _is_outside(token), token.sequence, token.segment, token.start is None


def _is_outside(token: Token) -> bool:
    return token.special or (token.id is None and token.start is None)


def _placed(tokens: Sequence[Token], texts: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    spans = [(token.start or 0, token.end or 0) for token in tokens]
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    characters = [" "] * (last - first)
    for text in texts:
        if all(token.written == text[slice(*span)] for token, span in zip(tokens, spans, strict=True)):
            characters = list(text[first:last])
            break
    for token, (start, end) in zip(tokens, spans, strict=True):
        characters[start - first : end - first] = _fitted(token, end - start)
    return "".join(characters), [(start - first, end - first) for start, end in spans]


def _fitted(token: Token, width: int) -> str:
    """Return a token's characters, as many as its offsets say."""
    text = token.text if token.written is None else token.written
    return next((one for one in (text, text.strip()) if len(one) == width), "\ufffd" * width)


def _joined(tokens: Sequence[Token]) -> tuple[str, list[tuple[int, int]]]:
    """Join tokens by their bytes: characters that were cut apart are whole again."""
    raw = [
        bytes.fromhex(token.bytes) if token.bytes else token.text.encode("utf-8", "surrogateescape")
        for token in tokens
    ]
    text = b"".join(raw).decode("utf-8", "surrogateescape")  # each loose byte becomes a character
    sizes = (len(character.encode("utf-8", "surrogateescape")) for character in text)
    edges = list(accumulate(sizes, initial=0))
    cuts = accumulate(map(len, raw), initial=0)
    spans = [
        (
            bisect_right(edges, start) - 1 if end > start else bisect_left(edges, start),
            bisect_left(edges, end),
        )
        for start, end in pairwise(cuts)
    ]
    return _LOOSE.sub("\ufffd", text), spans
