"""What a tokenizer's vocabulary pieces stand for: ``Ġthe``, ``▁the``, ``##ed`` and ``<0xE2>`` back to text.

A vocabulary writes its pieces in one of a few dialects. `dialect_of` reads from the tokenizer's own parts
which ones it speaks, and `decode` turns one piece into the text (or the loose bytes) after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a vocabulary writes its pieces.

    Args:
        byte_level: Each character is one byte in GPT-2's alphabet (``Ġ`` is a space).
        space: The character that stands for a space (``▁``); empty where there is none.
        byte_fallback: ``<0xE2>`` is one byte.
        continuation: What a piece inside a word starts with (``##``); empty where there is no such mark.
        word_end: What the last piece of a word ends with (``</w>``); empty where there is no such mark.
        goes_on: What all other pieces of a word end with (``@@``); empty where there is no such mark.
        byte_characters: Each character is the byte of its number (ByT5).
    """

    byte_level: bool = False
    space: str = ""
    byte_fallback: bool = False
    continuation: str = ""
    word_end: str = ""
    goes_on: str = ""
    byte_characters: bool = False

    @property
    def plain(self) -> bool:
        """Whether pieces carry no mark that we know, so that only offsets can tell what they stand for."""
        return self == Dialect()


@dataclass(frozen=True, slots=True)
class Piece:
    """A decoded piece.

    Args:
        text: What it stands for; invalid UTF-8 is replaced by U+FFFD.
        loose: The piece's bytes where they are no valid UTF-8 by themselves, else None.
        inside: Marked as the continuation of a word.
        closes: Marked as the end of a word.
    """

    text: str
    loose: bytes | None = None
    inside: bool = False
    closes: bool = False


def dialect_of(tokenizer: Tokenizer) -> Dialect:
    """Read from a tokenizer's own decoder, pre-tokenizer and model how its vocabulary is written."""
    found = [*parts(tokenizer.decoder), *parts(tokenizer.pre_tokenizer)]
    kinds = {part["type"] for part in found}
    model = tokenizer.model
    return Dialect(
        byte_level="ByteLevel" in kinds,
        space=next(filter(None, map(_space_mark, found)), ""),
        byte_fallback="ByteFallback" in kinds or _has_bytes(tokenizer),
        continuation=getattr(model, "continuing_subword_prefix", None)
        or _setting(found, "WordPiece", "prefix"),
        word_end=getattr(model, "end_of_word_suffix", None) or _setting(found, "BPEDecoder", "suffix"),
    )


def _has_bytes(tokenizer: Tokenizer) -> bool:
    """Whether a vocabulary has a piece for each byte; a Unigram model does not say so itself."""
    return all(tokenizer.token_to_id(f"<0x{byte:02X}>") is not None for byte in range(256))


def decode(piece: str, dialect: Dialect) -> Piece:
    """Turn one vocabulary piece into what it stands for.

    >>> decode("Ġthe", Dialect(byte_level=True)).text
    ' the'
    >>> decode("##ed", Dialect(continuation="##"))
    Piece(text='ed', loose=None, inside=True, closes=False)
    >>> decode("ðŁ", Dialect(byte_level=True)).loose.hex()
    'f09f'
    """
    mark, end, goes_on = dialect.continuation, dialect.word_end, dialect.goes_on
    inside = bool(mark) and piece.startswith(mark) and piece != mark
    closes = bool(end) and piece.endswith(end)
    bare = piece.removeprefix(mark) if inside else piece
    bare = bare.removesuffix(end) if closes else bare
    bare = bare.removesuffix(goes_on) if bare != goes_on else bare
    raw = _raw_bytes(bare, dialect)
    try:
        return Piece(raw.decode(), inside=inside, closes=closes)
    except UnicodeDecodeError:
        return Piece(raw.decode(errors="replace"), raw, inside, closes)


def _raw_bytes(bare: str, dialect: Dialect) -> bytes:
    if dialect.byte_level:
        alphabet = _bytes_by_character()
        # A character outside the alphabet can only come from a piece that was added as plain text.
        return b"".join(alphabet.get(character) or character.encode() for character in bare)
    if dialect.byte_characters:
        return bare.encode("latin-1", "replace")
    single = _BYTE_PIECE.fullmatch(bare) if dialect.byte_fallback else None
    if single:
        return bytes.fromhex(single[1])
    return (bare.replace(dialect.space, " ") if dialect.space else bare).encode()


@cache
def _bytes_by_character() -> dict[str, bytes]:
    """Build GPT-2's alphabet: printable Latin-1 stands for itself, other bytes are code points from 256 on.

    Reference: Radford et al. 2019, the byte-level BPE of GPT-2.
    """
    itself = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in itself]
    pairs = [(chr(byte), byte) for byte in itself]
    pairs += [(chr(256 + index), byte) for index, byte in enumerate(others)]
    return {character: bytes([byte]) for character, byte in pairs}


def parts(component: Any) -> Iterator[dict[str, Any]]:
    """Yield the settings of a decoder or pre-tokenizer, a sequence of them flattened."""
    if component is not None:
        yield from _flattened(json.loads(component.__getstate__()))


def _flattened(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    members = state.get("decoders") or state.get("pretokenizers")
    if members is None:
        yield state
    for member in members or ():
        yield from _flattened(member)


def _space_mark(part: dict[str, Any]) -> str:
    """Find the character that a part turns into a space: Metaspace's, or Llama's ``Replace("▁", " ")``."""
    if part["type"] == "Metaspace":
        return str(part["replacement"])
    if part["type"] == "Replace" and part.get("content") == " ":
        return str(part["pattern"].get("String", ""))
    return ""


def _setting(parts: list[dict[str, Any]], kind: str, name: str) -> str:
    return next((str(part.get(name) or "") for part in parts if part["type"] == kind), "")
