"""How much memory there is, and how to say it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attncli.errors import TooLargeError

UNASKED = 2**20
"""Bytes: so much is taken without asking what is free, which takes as long as two layers of a short text."""


def available_bytes(read: Callable[[str], str] = lambda path: Path(path).read_text("ascii")) -> int | None:
    """Return the memory that can still be taken: the system's, or the control group's if that is less.

    Args:
        read: Reads a file of the system; given in tests.

    Returns:
        Bytes, or None where the system does not say.
    """
    limits = []
    try:
        lines = read("/proc/meminfo").splitlines()
        limits.append(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")))
    except (OSError, ValueError, StopIteration):
        pass
    try:
        limits.append(int(read("/sys/fs/cgroup/memory.max")) - int(read("/sys/fs/cgroup/memory.current")))
    except (OSError, ValueError):
        pass  # no control group, or one without a limit ("max")
    return min(limits) if limits else None


def require_memory(
    needed: int, what: str, hint: str | None = None, available: Callable[[], int | None] | None = None
) -> None:
    """Refuse what does not fit in memory, before it is begun.

    Args:
        needed: Bytes.
        what: What needs them.
        hint: What to ask for instead.
        available: Returns how many bytes may be taken; the system where None.

    Raises:
        TooLargeError: It does not fit.
    """
    if available is None and needed < UNASKED:
        return
    free = (available or available_bytes)()
    if free is not None and needed > free:
        raise TooLargeError(f"{what}: {human_bytes(needed)} needed; {human_bytes(free)} are free", hint)


def human_bytes(count: float) -> str:
    """Return a number of bytes as people do.

    >>> human_bytes(512), human_bytes(34 * 2**30), human_bytes(1.5 * 2**20)
    ('512 B', '34 GiB', '1.5 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception says that memory did not suffice: Python's, torch's, or an allocator's own words."""
    words = ("not enough memory", "can't allocate memory")
    return type(error).__name__ in ("MemoryError", "OutOfMemoryError") or any(
        word in str(error) for word in words
    )
