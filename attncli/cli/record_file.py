"""A file of JSON lines that grows record by record, and is gone on with after its last whole record."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from attncli.cli.output import writing_to
from attncli.errors import ReadError, UsageError
from attncli.inputs.text import opened
from attncli.labels import safe_label

_STEP = 2**16
"""Bytes that are read at once, from the end of a file backwards."""


class RecordFile:
    """Appends records, each in one write. The file is opened, and emptied, when the first one comes.

    Args:
        resume: Whether to go on after the last whole record of a file that is there.

    Raises:
        ReadError: It is to be gone on with, and holds something else than records of texts.
    """

    def __init__(self, path: Path, *, no_clobber: bool = False, resume: bool = False) -> None:
        self.path, self._no_clobber = path, no_clobber
        self.last: Mapping[str, Any] | None = None
        self._end = 0
        self._stream: BinaryIO | None = None
        if resume and path.exists():
            self.last, self._end = _last_record(path)

    def write(self, record: bytes) -> None:
        """Append a record.

        Raises:
            UsageError: The record before it, of an earlier run, answers another question.
            WriteError: It cannot be written.
        """
        with writing_to(self.path):
            if self._stream is None:
                self._stream = self._open(record)
            rest = memoryview(record)
            while rest:
                rest = rest[self._stream.write(rest) :]

    def close(self) -> None:
        """Close the file, if it was opened."""
        if self._stream is not None:
            self._stream.close()

    def _open(self, first: bytes) -> BinaryIO:
        if self.last is None:
            return self.path.open("xb" if self._no_clobber else "wb", buffering=0)
        _refuse_another_question(self.last, json.loads(first))
        stream = self.path.open("r+b", buffering=0)
        stream.truncate(self._end)
        stream.seek(self._end)
        return stream


def _last_record(path: Path) -> tuple[Mapping[str, Any] | None, int]:
    """Return the last whole record of a file and where it ends; what comes after it was cut short."""
    with opened(str(path)) as stream:
        size = stream.seek(0, os.SEEK_END)
        end = _after_newline(stream, size)
        start = _after_newline(stream, end - 1) if end else 0
        stream.seek(start)
        line = stream.read(end - start)
    if not line:
        return None, 0
    try:
        record = json.loads(line)
        if isinstance(record["line"], int) and "text" in record:
            return record, end
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise ReadError(
        f"--resume: {safe_label(str(path))} does not end in a record of --each-line", "leave --resume out"
    )


def _after_newline(stream: BinaryIO, stop: int) -> int:
    """Return the place after the last newline before another place; 0 where there is none."""
    while stop > 0:
        start = max(0, stop - _STEP)
        stream.seek(start)
        found = stream.read(stop - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        stop = start
    return 0


def _refuse_another_question(last: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse to append answers to another question than the one before.

    Raises:
        UsageError: They are of another command, model, head, or form.
    """
    for name, before, now in zip(_SETTINGS, _settings(last), _settings(new), strict=True):
        if before != now:
            shown = (safe_label(json.dumps(value)) for value in (before, now))
            raise UsageError(
                f"--resume: that run had {name} {next(shown)}, this one {next(shown)}",
                "repeat its options, or start afresh without --resume",
            )


_SETTINGS = ("command", "model", "dtype", "adapter", "top", "unit", "maps")


def _settings(record: Mapping[str, Any]) -> list[Any]:
    source = record.get("source") or {}
    maps = [[entry.get(key) for key in ("kind", "layer", "head")] for entry in record.get("attention", ())]
    return [
        record.get("command"),
        source.get("name", record.get("model")),
        source.get("dtype"),
        source.get("adapter"),
        record.get("top"),
        record.get("unit"),
        maps if record.get("command") == "show" else None,
    ]
