"""Reads texts: typed ones, files, stdin. All are UTF-8, with or without a byte-order mark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from attncli.errors import ReadError, UsageError
from attncli.inputs.media import medium_of, where_shown
from attncli.labels import as_utf8, safe_label
from attncli.terminal import standard_input

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class NotUtf8(ValueError):
    """Bytes that are not UTF-8; its text says where."""


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Open a file for reading; ``-`` is stdin.

    Raises:
        ReadError: It cannot be opened or read.
    """
    try:
        stream = standard_input() if path == "-" else Path(path).expanduser().open("rb")
    except (OSError, RuntimeError, ValueError) as error:
        raise _unreadable(path, error) from error
    try:
        yield stream
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        if path != "-":
            stream.close()


def read_text(path: str) -> str:
    """Read a file as one text, without a last newline; ``-`` is stdin.

    Raises:
        ReadError: It cannot be read.
        UsageError: It is not UTF-8.
    """
    with opened(path) as stream:
        content = stream.read()
    try:
        return decode(content).removesuffix("\n").removesuffix("\r")
    except NotUtf8 as error:
        raise UsageError(f"{_name(path)} is {error}", _hint(content, path)) from error


def decode(content: bytes) -> str:
    """Decode UTF-8, without the byte-order mark that some programs put before it.

    Raises:
        NotUtf8: It is not UTF-8.
    """
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        byte = content[error.start]
        raise NotUtf8(f"not UTF-8: byte 0x{byte:02x} at offset {error.start}") from error


def check_typed(text: str) -> str:
    """Return a text from the command line.

    Raises:
        UsageError: It is not UTF-8.
    """
    text = as_utf8(text)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        byte = text[error.start].encode("utf-8", "surrogateescape")
        raise UsageError(f"the text is not UTF-8: byte 0x{byte.hex()} at character {error.start}") from error
    return text


def _unreadable(path: str, error: Exception) -> ReadError:
    reason = getattr(error, "strerror", None) or str(error)
    return ReadError(f"{_name(path)}: {safe_label(reason)}")


def _name(path: str) -> str:
    return "stdin" if path == "-" else safe_label(path)


def _hint(content: bytes, path: str) -> str | None:
    """Guess what a file is that is not UTF-8."""
    if (medium := medium_of(path)) is not None:
        return where_shown(path, medium)
    return "it seems to be UTF-16: iconv -f UTF-16 -t UTF-8" if content[:2] in _UTF16 else None
