"""Texts to tokens: what a model sees of a text, decoded, with offsets, fit to show.

Only the `tokenizers` library is needed, and only where a model's tokenizer is used: never torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.errors import ModelError
from attncli.labels import CONTINUATION, safe_label
from attncli.models.spans import settled
from attncli.models.vocabulary import Dialect, Piece, decode, dialect_of
from attncli.record import Token, Tokens
from attncli.segmentation import word_spans

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load a model folder's ``tokenizer.json``, set to neither cut nor pad what it is given.

    Raises:
        ModelError: The folder has no such file, or the file cannot be read as a tokenizer.
    """
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    if not path.is_file():
        hint = "where transformers has a fast one for this model, its save_pretrained() writes that file"
        raise ModelError(
            f"no tokenizer.json in {safe_label(str(folder))}: only fast tokenizers are read", hint
        )
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception for whatever its parser says
        reason = safe_label(str(error).partition("\n")[0])
        raise ModelError(f"{safe_label(str(path))} is not a readable tokenizer: {reason}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def tokens_from_encoding(
    tokenizer: Tokenizer, encoding: Encoding, *, text: str, pair: str | None = None
) -> Tokens:
    """Return what each position of an encoding stands for.

    Offsets are in characters of `text`, or of `pair` for its second sequence. They take in the leading space
    that some tokenizers leave out of the offsets but not of the piece, and the marks of a character that its
    normalizer composes or drops.

    Args:
        encoding: What `tokenizer` made of `text` (and `pair`).
    """
    reader = TokenReader(_vocabulary(tokenizer))
    texts = (text, pair or "")
    tokens: list[Token] = []
    # Each attribute of an encoding copies the whole list, so all are read once.
    columns = zip(
        encoding.ids, encoding.offsets, encoding.special_tokens_mask, encoding.sequence_ids, strict=True
    )
    for position, (number, span, is_special, sequence) in enumerate(columns):
        source = texts[sequence or 0]
        if is_special or reader.is_typed_special(number, source[slice(*span)]):
            tokens.append(reader.special(position, number))
            continue
        previous = tokens[-1] if tokens and tokens[-1].sequence == sequence else None
        tokens.append(reader.token(position, number, source, span, previous, sequence or 0))
    return settled(tokens, texts)


def tokens_from_ids(tokenizer: Tokenizer, ids: Iterable[int]) -> Tokens:
    """Return what each of some ids stands for, where there is no text to point into (a generated output)."""
    return TokenReader(_vocabulary(tokenizer)).of_ids(ids)


def positions(count: int) -> Tokens:
    """Make tokens that are nothing but positions."""
    return tuple(Token(i, None, str(i), str(i)) for i in range(count))


def words_of_text(text: str) -> Tokens:
    """Split a text into words and punctuation marks, for a model without a vocabulary of its own.

    Equal words have equal ids, numbered by first appearance.

    >>> [(token.text, token.id) for token in words_of_text("to be, or not to be")]
    [('to', 0), ('be', 1), (',', 2), ('or', 3), ('not', 4), ('to', 0), ('be', 1)]
    """
    ids: dict[str, int] = {}
    tokens = []
    for position, (start, end) in enumerate(word_spans(text)):
        word = text[start:end]
        number = ids.setdefault(word, len(ids))
        label = safe_label(word)
        tokens.append(Token(position, number, word, label, start=start, end=end, piece=word, written=word))
    return tuple(tokens)


@dataclass(frozen=True)
class Vocabulary:
    """What is asked of a tokenizer about single ids.

    Args:
        added: The tokens that were added to the model's own, as texts.
        specials: The ids of special tokens.
        unknown: The piece that stands for what the vocabulary does not have.
        piece: Returns the piece of an id, None where there is none.
    """

    dialect: Dialect
    added: Mapping[int, str]
    specials: frozenset[int]
    unknown: str | None
    piece: Callable[[int], str | None]


def _vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    added = tokenizer.get_added_tokens_decoder()
    return Vocabulary(
        dialect=dialect_of(tokenizer),
        added={number: entry.content for number, entry in added.items()},
        specials=frozenset(number for number, entry in added.items() if entry.special),
        unknown=getattr(tokenizer.model, "unk_token", None),
        piece=tokenizer.id_to_token,
    )


class TokenReader:
    """Makes tokens of one vocabulary's ids."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def of_ids(self, ids: Iterable[int]) -> Tokens:
        """Return what each of some ids stands for, where there is no text to point into."""
        tokens: list[Token] = []
        for position, number in enumerate(ids):
            if number in self.vocabulary.specials:
                tokens.append(self.special(position, number))
            else:
                tokens.append(self.token(position, number, None, None, tokens[-1] if tokens else None, 0))
        return tuple(tokens)

    def is_typed_special(self, number: int, there: str) -> bool:
        """Return whether the text itself has a special's name in it.

        An unknown word is a special id too, but stands for a part of the text.
        """
        known = self.vocabulary
        return number in known.specials and there.strip() == known.added[number]

    def special(self, position: int, number: int) -> Token:
        """Return a token that the tokenizer has added to the text."""
        piece = self._piece(number)
        return Token(position, number, piece, safe_label(piece), special=True, piece=piece, sequence=None)

    def token(
        self,
        position: int,
        number: int,
        text: str | None,
        span: tuple[int, int] | None,
        previous: Token | None,
        sequence: int,
        piece: str | None = None,
    ) -> Token:
        """Return a token of the text.

        Args:
            span: Where it stands in `text`, if that is known.
            piece: Its piece, where the id alone does not tell it.
        """
        piece = self._piece(number) if piece is None else piece
        decoded = self._decoded(number, piece, text[slice(*span)] if text is not None and span else None)
        start, end = (None, None) if text is None or span is None else _widened(text, span, decoded, previous)
        return Token(
            position=position,
            id=number,
            text=decoded.text,
            label=_label(decoded, inside=decoded.inside or self._goes_on(previous)),
            start=start,
            end=end,
            bytes=decoded.loose.hex() if decoded.loose else None,
            piece=piece,
            sequence=sequence,
        )

    def _piece(self, number: int) -> str:
        piece = self.vocabulary.piece(number)
        return f"<{number}>" if piece is None else str(piece)

    def _decoded(self, number: int, piece: str, there: str | None) -> Piece:
        if number in self.vocabulary.added or piece == self.vocabulary.unknown:
            return Piece(piece, closes=True)
        if self.vocabulary.dialect.plain and there:
            return Piece(there)
        return decode(piece, self.vocabulary.dialect)

    def _goes_on(self, previous: Token | None) -> bool:
        """Whether a piece goes on inside a word, in a vocabulary that marks the ends of words, or all pieces before."""
        end, goes_on = self.vocabulary.dialect.word_end, self.vocabulary.dialect.goes_on
        if not (end or goes_on) or previous is None or previous.special:
            return False
        if previous.id in self.vocabulary.added:
            return False
        before = previous.piece or ""
        return before.endswith(goes_on) if goes_on else not before.endswith(end)


def _label(decoded: Piece, *, inside: bool) -> str:
    if decoded.loose is not None:
        return f"⟨{decoded.loose.hex(' ').upper().replace(' ', '·')}⟩"
    return CONTINUATION + safe_label(decoded.text) if inside else safe_label(decoded.text)


def _widened(text: str, span: tuple[int, int], decoded: Piece, previous: Token | None) -> tuple[int, int]:
    """Take the leading spaces that a piece stands for into its offsets, as far as nothing else has them."""
    start, end = span
    lead = decoded.text[: len(decoded.text) - len(decoded.text.lstrip(" "))]
    floor = previous.end if previous is not None and previous.end is not None else 0
    if not lead or text[start:end].startswith(lead):
        return span
    if start - len(lead) >= floor and text.endswith(lead, 0, start):
        return start - len(lead), end
    # At the start of a text, some tokenizers cut a lone space at its end instead.
    return (start, start + len(lead)) if lead == decoded.text and text.startswith(lead, start) else span
