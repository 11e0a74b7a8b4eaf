"""Tokens of whichever tokenizer transformers makes: with the `tokenizers` library, or in Python (ESM, ByT5, XLM, …).

One in Python does not say where its tokens stand in the text. Their pieces are laid along the text, one after the
other; where that can be done in one way only they have offsets, else none has.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from attncli.models.spans import Span, settled
from attncli.models.tokens import TokenReader, Vocabulary, tokens_from_encoding, tokens_from_ids
from attncli.models.vocabulary import Dialect, decode
from attncli.record import Token, Tokens

_ESCAPED = re.compile(rb"&(apos|quot|amp|lt|gt|#124|#91|#93);|@([-/])@")
_ESCAPES = {b"apos": b"'", b"quot": b'"', b"amp": b"&", b"lt": b"<", b"gt": b">", b"#124": b"|", b"#91": b"[",
            b"#93": b"]"}  # fmt: skip
"""How Moses writes what has a meaning of its own to it; BioGPT's pieces have it so."""

_LEAST_MARKED = 0.01
"""Share of a vocabulary's pieces that have a mark where it is one."""


def is_fast(tokenizer: Any) -> bool:
    """Return whether a tokenizer is one of the `tokenizers` library."""
    return bool(getattr(tokenizer, "is_fast", False))


def read_tokens(tokenizer: Any, made: Any, text: str, pair: str | None = None) -> Tokens:
    """Return what each position of an encoded text stands for.

    Args:
        made: What the tokenizer gave for `text` (and `pair`), with its ``special_tokens_mask``.
    """
    if is_fast(tokenizer):
        return tokens_from_encoding(tokenizer.backend_tokenizer, made.encodings[0], text=text, pair=pair)
    ids, added = (list(map(int, made[name][0])) for name in ("input_ids", "special_tokens_mask"))
    reader, texts = TokenReader(_vocabulary(tokenizer)), (text, pair or "")
    specials = reader.vocabulary.specials
    sequences = _sequences(tokenizer, text, added, paired=pair is not None)
    pieces = _pieces(tokenizer, ids, sequences, texts)
    tokens: list[Token] = []
    for position, (number, sequence) in enumerate(zip(ids, sequences, strict=True)):
        if sequence is None or number in specials:
            tokens.append(reader.special(position, number))
            continue
        before = tokens[-1] if tokens and tokens[-1].sequence == sequence else None
        piece = None if number == tokenizer.unk_token_id else pieces[position]
        tokens.append(reader.token(position, number, None, None, before, sequence, piece))
    return settled(_placed(tokens, sequences, pieces, texts, reader.vocabulary), texts)


def read_text(tokenizer: Any, text: str, pair: str | None = None) -> Tokens:
    """Tokenise a text, and a second one."""
    made = tokenizer(text, pair, return_special_tokens_mask=True, return_tensors="np", verbose=False)
    return read_tokens(tokenizer, made, text, pair)


def read_ids(tokenizer: Any, ids: Iterable[int]) -> Tokens:
    """Return what each of some ids stands for, where there is no text to point into (a generated output)."""
    if is_fast(tokenizer):
        return tokens_from_ids(tokenizer.backend_tokenizer, ids)
    return TokenReader(_vocabulary(tokenizer)).of_ids(ids)


def leads_back(tokenizer: Any, tokens: Tokens) -> bool:
    """Return whether ids stand for the pieces that they were made of: not where targets have other ids than sources."""
    own = [token for token in tokens if not token.special]
    return [token.piece for token in own] == [
        tokenizer.convert_ids_to_tokens(int(token.id or 0)) for token in own
    ]


def _vocabulary(tokenizer: Any) -> Vocabulary:
    def piece(number: int) -> str | None:
        found = tokenizer.convert_ids_to_tokens(number)
        return None if found is None else str(found)

    unknown = tokenizer.unk_token_id
    return Vocabulary(
        dialect=_dialect(tokenizer),
        added={number: str(token) for number, token in tokenizer.added_tokens_decoder.items()},
        specials=frozenset(number for number in tokenizer.all_special_ids if number != unknown),
        unknown=tokenizer.unk_token,
        piece=piece,
    )


def _dialect(tokenizer: Any) -> Dialect:
    """Find how a vocabulary writes its pieces: by what becomes of a text, then by the mark that most pieces have."""
    seen = "".join(map(str, tokenizer.tokenize("a é")))
    if seen == "a Ã©":
        return Dialect(byte_characters=True)
    if seen == "aĠÃ©":
        return Dialect(byte_level=True)
    pieces = list(map(str, tokenizer.get_vocab()))
    marked = {
        Dialect(continuation="##"): sum(piece.startswith("##") and piece != "##" for piece in pieces),
        Dialect(word_end="</w>"): sum(piece.endswith("</w>") for piece in pieces),
        Dialect(goes_on="@@"): sum(piece.endswith("@@") and piece != "@@" for piece in pieces),
        Dialect(space="▁"): sum(piece.startswith("▁") for piece in pieces),
    }
    best = max(marked, key=lambda dialect: marked[dialect])
    return best if marked[best] >= max(1, _LEAST_MARKED * len(pieces)) else Dialect()


def _sequences(tokenizer: Any, text: str, added: Sequence[int], *, paired: bool) -> list[int | None]:
    """Return which text each position is of; None for special tokens that the tokenizer has added."""
    runs = [list(places) for mark, places in groupby(range(len(added)), key=lambda place: added[place])
            if not mark]  # fmt: skip
    found: list[int | None] = [None] * len(added)
    first = {place for run in runs for place in run}
    if paired and len(runs) == 1:
        first = set(runs[0][: len(tokenizer.tokenize(text))])
    elif paired:
        first = set(runs[0]) if runs else set()
    for run in runs:
        for place in run:
            found[place] = 0 if place in first else 1
    return found


def _pieces(
    tokenizer: Any, ids: Sequence[int], sequences: Sequence[int | None], texts: Sequence[str]
) -> list[str]:
    """Return each position's piece as the text was cut into: an id does not tell what of the text is unknown."""
    pieces = [str(piece) for piece in tokenizer.convert_ids_to_tokens(list(ids))]
    for number, text in enumerate(texts):
        places = [place for place, sequence in enumerate(sequences) if sequence == number]
        cut = tokenizer.tokenize(text)[: len(places)]
        if tokenizer.convert_tokens_to_ids(cut) == [ids[place] for place in places]:
            for place, piece in zip(places, cut, strict=True):
                pieces[place] = str(piece)
    return pieces


def _placed(
    tokens: Sequence[Token],
    sequences: Sequence[int | None],
    pieces: Sequence[str],
    texts: Sequence[str],
    vocabulary: Vocabulary,
) -> list[Token]:
    """Give tokens their offsets, where those can be found."""
    found = list(tokens)
    for number, text in enumerate(texts):
        places = [place for place, sequence in enumerate(sequences) if sequence == number]
        stand = [_stands_for(tokens[place], pieces[place], vocabulary) for place in places]
        spans = align(stand, text)
        for place, span in zip(places, spans or (), strict=spans is not None):
            if not tokens[place].special:
                found[place] = replace(tokens[place], start=span[0], end=span[1])
    return found


def _stands_for(token: Token, piece: str, vocabulary: Vocabulary) -> bytes | None:
    """Return the bytes that a token stands for; None where only the text can tell."""
    if token.special:
        return token.text.encode()
    if piece == vocabulary.unknown:
        return None
    decoded = decode(piece, vocabulary.dialect)
    return decoded.loose or decoded.text.encode()


def align(pieces: Sequence[bytes | None], text: str) -> list[Span] | None:
    """Lay pieces along a text; None where they do not fit, or fit in several ways.

    They fit as they are or, failing that, with blanks, case, compatible forms and accents left aside.

    Args:
        pieces: The bytes that each stands for; None for one that stands for anything.

    >>> align([b"un", b"k", None], "Un kép")
    [(0, 2), (3, 4), (4, 6)]
    """
    ways = (_folded, _bare) if None in pieces else (_as_it_is, _folded, _bare)
    for alike in ways:
        shown = [None if piece is None else alike(piece) for piece in pieces]
        there, owners = bytearray(), []
        for place, character in enumerate(text):
            one = alike(character.encode("utf-8", "replace"))
            there += one
            owners += [place] * len(one)
        found = _only_way(shown, bytes(there))
        if found is not None:
            return _spans(found, owners)
    return None


def _only_way(pieces: Sequence[bytes | None], text: bytes) -> list[Span] | None:
    """Find where pieces stand that are the text together; None where there is no way, or more than one."""
    known: list[list[bytes]] = [[]]
    for piece in pieces:
        if piece is None:
            known.append([])
        else:
            known[-1].append(piece)
    runs = [b"".join(run) for run in known]
    starts = _leftmost(runs, text)
    ends = _leftmost([run[::-1] for run in runs[::-1]], text[::-1])
    if starts is None or ends is None:
        return None
    if [len(text) - end - len(run) for end, run in zip(ends[::-1], runs, strict=True)] != starts:
        return None
    found: list[Span] = []
    at = 0
    for number, (run, start) in enumerate(zip(known, starts, strict=True)):
        if number:
            found.append((at, start))  # what stands for anything has what is between the others
        at = start
        for piece in run:
            found.append((at, at + len(piece)))
            at += len(piece)
    return found


def _leftmost(runs: Sequence[bytes], text: bytes) -> list[int] | None:
    """Find the first places of some parts of a text, with something between each two of them and nothing around all."""
    if not text.startswith(runs[0]):
        return None
    starts, at = [0], len(runs[0])
    for run in runs[1:-1]:
        start = text.find(run, at + 1)
        if start < 0:
            return None
        starts.append(start)
        at = start + len(run)
    if len(runs) == 1:
        return starts if at == len(text) else None
    last = len(text) - len(runs[-1])
    return [*starts, last] if last > at and text.endswith(runs[-1]) else None


def _spans(found: Sequence[Span], owners: Sequence[int]) -> list[Span]:
    spans: list[Span] = []
    for start, end in found:
        if start < end:
            spans.append((owners[start], owners[end - 1] + 1))
        else:
            at = spans[-1][1] if spans else 0
            spans.append((at, at))
    return spans


def _as_it_is(raw: bytes) -> bytes:
    return raw


def _folded(raw: bytes) -> bytes:
    return _without(raw, marks=False)


def _bare(raw: bytes) -> bytes:
    plain = _ESCAPED.sub(lambda found: _ESCAPES[found[1]] if found[1] else found[2], raw)
    return _without(plain, marks=True)


def _without(raw: bytes, *, marks: bool) -> bytes:
    """Leave out blanks and case, and marks where that is asked; bytes that are no text stay."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return raw
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    kept = (one for one in text if not one.isspace() and not (marks and unicodedata.category(one) == "Mn"))
    return "".join(kept).encode("utf-8", "replace")
