"""Sequence lengths as a user writes them: ``512,1024,2048``, ``512:8192:*2``, ``512:4096:+512``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from attncli.errors import UsageError

MOST = 64
"""More lengths than this are surely a slip."""

_HINT = "write 512,1024,2048 or 512:8192:*2 or 512:4096:+512"


def parse_lengths(text: str) -> tuple[int, ...]:
    """Read a list of lengths, or a range with its step.

    Raises:
        UsageError: It is not such a list, a length is below 1, or they do not rise.

    >>> parse_lengths("512,1024"), parse_lengths("512:4096:*2"), parse_lengths("512:1600:+512")
    ((512, 1024), (512, 1024, 2048, 4096), (512, 1024, 1536))
    """
    lengths: list[int] = []
    for part in text.replace(" ", "").split(","):
        lengths += _range(part, text) if ":" in part else [_whole(part, text)]
    for before, after in pairwise(lengths):
        if after <= before:
            raise UsageError(f"--seq-len {text}: lengths must rise, and {after} follows {before}", _HINT)
    return tuple(lengths)


def _whole(text: str, whole: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise UsageError(f"--seq-len {whole}: {text!r} is no whole number", _HINT)
    if int(text) < 1:
        raise UsageError(f"--seq-len {whole}: a length must be at least 1, got {text}", _HINT)
    return int(text)


def _range(text: str, whole: str) -> list[int]:
    parts = text.split(":")
    step = re.fullmatch(r"([*+])([0-9]+)", parts[2]) if len(parts) == 3 else None
    if step is None:
        raise UsageError(f"--seq-len {whole}: a range is first:last:*factor or first:last:+step", _HINT)
    first, last, size = _whole(parts[0], whole), _whole(parts[1], whole), int(step[2])
    if last < first:
        raise UsageError(f"--seq-len {whole}: lengths must rise, and {last} follows {first}", _HINT)
    if size < (2 if step[1] == "*" else 1):
        raise UsageError(f"--seq-len {whole}: with step {step[0]} lengths never rise", _HINT)
    found = list(_steps(first, last, size, multiply=step[1] == "*"))
    if len(found) > MOST:
        raise UsageError(f"--seq-len {whole}: these are more than {MOST} lengths", _HINT)
    return found


def _steps(first: int, last: int, size: int, *, multiply: bool) -> Iterator[int]:
    for _ in range(MOST + 1):
        if first > last:
            return
        yield first
        first = first * size if multiply else first + size
