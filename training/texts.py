"""The text that the small models learn from: Jane Austen's novels and The Devil's Dictionary, in the public domain.

They are read where two Debian packages put them, or from a folder that these were unpacked into:

    apt-get download r-cran-janeaustenr dict-devil
    for package in *.deb; do dpkg-deb --extract "$package" texts; done
    python -m training tiny-decoder --text texts
"""

from __future__ import annotations

import gzip
import hashlib
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attncli.errors import ReadError
from attncli.labels import safe_label

NOVELS = "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
DICTIONARY = "usr/share/dictd/devil.dict.dz"

ORIGINS = {
    "Rdata.rdb": "Jane Austen's six novels, 1811–1818 (Debian: r-cran-janeaustenr)",
    "devil.dict.dz": "Ambrose Bierce, The Devil's Dictionary, 1911 (Debian: dict-devil)",
}

HOLD_OUT_EVERY = 20
"""Of each text's stretches of `STRETCH` paragraphs, every so many is kept from the training."""

STRETCH = 40


@dataclass(frozen=True)
class Text:
    """A text of which a part is held out.

    Args:
        name: Where it comes from.
        sha256: Of the text as it was read, in UTF-8.
        training: Paragraphs to learn from.
        held_out: Paragraphs that no model has seen.
    """

    name: str
    sha256: str
    training: tuple[str, ...]
    held_out: tuple[str, ...]


def find_texts(paths: Sequence[str]) -> list[Text]:
    """Read the texts to train on.

    Args:
        paths: Files (plain, .gz, .dz or .rdb), or folders that the packages were unpacked into; ``/`` where they are
            installed.

    Raises:
        ReadError: There are none.
    """
    files = [file for path in paths for file in _files(Path(path))]
    if not files:
        raise ReadError(
            f"no text to train on in {', '.join(safe_label(path) for path in paths)}",
            "apt-get install r-cran-janeaustenr dict-devil, or --text FILE",
        )
    return [_divided(ORIGINS.get(file.name, file.name), _read(file)) for file in files]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [found for name in (NOVELS, DICTIONARY) if (found := path / name).is_file()]


def _read(path: Path) -> str:
    try:
        if path.suffix == ".rdb":
            return "\n".join(_r_strings(path.read_bytes()))
        content = gzip.decompress(path.read_bytes()) if path.suffix in (".dz", ".gz") else path.read_bytes()
        return content.decode("utf-8", errors="replace")
    except (OSError, zlib.error, EOFError) as error:
        raise ReadError(f"{safe_label(str(path))} cannot be read: {error}") from error


def _r_strings(content: bytes) -> Iterator[str]:
    """Yield the strings of R's lazy-load data: objects one after the other, each its size and a zlib stream."""
    while len(content) > 4:
        stream = zlib.decompressobj()
        serialised = stream.decompress(content[4:])
        content = stream.unused_data
        # A string is a word of flags, of which the last byte is 9, then its length, then its bytes.
        for found in re.finditer(rb"\x00\x04\x00\x09(....)", serialised, re.DOTALL):
            (length,) = struct.unpack(">i", found[1])
            yield serialised[found.end() : found.end() + max(length, 0)].decode("utf-8", errors="replace")


def _divided(name: str, text: str) -> Text:
    """Join a text's broken lines to paragraphs, and keep a part of them from the training."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    paragraphs = [paragraph for paragraph in paragraphs if len(paragraph) > 60]
    stretches = [paragraphs[start : start + STRETCH] for start in range(0, len(paragraphs), STRETCH)]
    held = [index % HOLD_OUT_EVERY == HOLD_OUT_EVERY // 2 for index in range(len(stretches))]
    return Text(
        name=name,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        training=tuple(p for stretch, out in zip(stretches, held, strict=True) if not out for p in stretch),
        held_out=tuple(p for stretch, out in zip(stretches, held, strict=True) if out for p in stretch),
    )
