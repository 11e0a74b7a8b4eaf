"""What of a text each token stands for, where the tokenizer's offsets say it only roughly."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from attncli.record import Token, Tokens
from attncli.segmentation import graphemes

Span = tuple[int, int]


def settled(tokens: Sequence[Token], texts: Sequence[str]) -> Tokens:
    """Set tokens' offsets to all characters that they stand for, and keep these.

    Bytes that share the offsets of several characters are told apart. A mark that no token holds, since the tokenizer
    composes or drops it, belongs to the token of its letter.

    Args:
        texts: What they were made of, by their `sequence`.
    """
    spans = [_span(token) for token in tokens]
    for places in _runs_of_bytes(tokens, spans):
        span = spans[places[0]]
        assert span is not None
        apart = _apart([tokens[place] for place in places], texts[tokens[places[0]].sequence or 0], span)
        for place, narrow in zip(places, apart, strict=True):
            spans[place] = narrow
    for sequence, text in enumerate(texts):
        own = [place for place, token in enumerate(tokens) if spans[place] and token.sequence == sequence]
        held = _holders(text, [span for place in own if (span := spans[place])])
        for place in own:
            span = spans[place]
            assert span is not None
            spans[place] = span[0], held[span[1]] if span[1] > span[0] else span[1]
    return tuple(
        token
        if span is None
        else replace(token, start=span[0], end=span[1], written=texts[token.sequence or 0][slice(*span)])
        for token, span in zip(tokens, spans, strict=True)
    )


def _span(token: Token) -> Span | None:
    return None if token.start is None or token.end is None else (token.start, token.end)


def _runs_of_bytes(tokens: Sequence[Token], spans: Sequence[Span | None]) -> Iterator[list[int]]:
    """Yield the places of neighbours that stand for the same few characters together."""
    for (_, span), group in groupby(
        range(len(tokens)), key=lambda place: (tokens[place].sequence, spans[place])
    ):
        places = list(group)
        if span is not None and span[1] - span[0] > 1 and len(places) > 1:
            yield places


def _apart(tokens: Sequence[Token], text: str, span: Span) -> list[Span]:
    """Find which characters each of some pieces of bytes belongs to; as they are where that cannot be said."""
    sizes = [len(bytes.fromhex(token.bytes) if token.bytes else token.text.encode()) for token in tokens]
    there = text[slice(*span)]
    raw = b"".join(bytes.fromhex(token.bytes) if token.bytes else token.text.encode() for token in tokens)
    if raw != there.encode("utf-8", "replace"):
        return [span] * len(tokens)
    owner = [span[0] + index for index, one in enumerate(there) for _ in one.encode("utf-8", "replace")]
    found, at = [], 0
    for size in sizes:
        found.append((owner[at], owner[at + size - 1] + 1) if size else (owner[at], owner[at]))
        at += size
    return found


def _holders(text: str, spans: Sequence[Span]) -> list[int]:
    """Return for each place where a token may end how far the marks reach that stand there and are in no token."""
    reach = list(range(len(text) + 1))
    covered = bytearray(len(text))
    for start, end in spans:
        covered[start:end] = b"\x01" * (end - start)
    if not any(not held and not text[place].isspace() for place, held in enumerate(covered)):
        return reach
    inside = bytearray(len(text) + 1)
    at = 0
    for character in graphemes(text):
        inside[at + 1 : at + len(character)] = b"\x01" * (len(character) - 1)
        at += len(character)
    for place in reversed(range(len(text))):
        if not covered[place] and (inside[place] or unicodedata.category(text[place]) == "Cf"):
            reach[place] = reach[place + 1]
    return reach
