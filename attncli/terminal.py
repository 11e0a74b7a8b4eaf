"""The standard streams: what one can show (is it a terminal, how wide, which colours and characters), and stdin."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, Literal

from attncli.errors import ReadError, UsageError, did_you_mean

ColorMode = Literal["none", "16", "256", "truecolor"]
COLOR_CHOICES = ("auto", "always", "never")
_LEVELS: tuple[ColorMode, ...] = ("none", "16", "256", "truecolor")

PIPED_WIDTH = 80


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a stream can show.

    Args:
        tty: Whether a person sees it.
        color: ``none`` means that not one escape byte may go there.
        reason: Why this colour mode, for ``doctor``.
        width: In cells.
        unicode: Whether its encoding has block characters.
        encoding: Of the stream.
        height: Lines of the terminal; None where it is none.
    """

    tty: bool
    color: ColorMode
    reason: str
    width: int
    unicode: bool
    encoding: str
    height: int | None = None


def abilities(
    stream: IO[Any] | None,
    *,
    color: str = "auto",
    width: int | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Abilities:
    """Find out what a stream can show. Each stream is judged by itself: stdout may be piped while stderr is not.

    Args:
        color: ``auto``, ``always`` or ``never``, as the user asked.
        width: As the user asked; the terminal's where None.

    Raises:
        UsageError: `color` is none of these words, or `width` is not positive.
    """
    tty = stream is not None and not stream.closed and stream.isatty()
    mode, reason = color_mode(tty, color, environ)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if width is not None and width < 1:
        raise UsageError(f"--width {width}: must be at least 1")
    height = shutil.get_terminal_size().lines if tty else None
    return Abilities(
        tty, mode, reason, width or _width(tty, environ), _has_blocks(encoding), encoding, height
    )


def color_mode(tty: bool, color: str, environ: Mapping[str, str]) -> tuple[ColorMode, str]:
    """Decide on colours: ``--color``, then NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE, then whether it is a terminal.

    Returns:
        The mode and the reason for it.

    >>> color_mode(True, "auto", {"NO_COLOR": "1", "TERM": "xterm-256color"})
    ('none', 'NO_COLOR is set')
    >>> color_mode(False, "auto", {"FORCE_COLOR": "3"})
    ('truecolor', 'FORCE_COLOR=3')
    """
    if color not in COLOR_CHOICES:
        raise UsageError(f"--color {color}: unknown value", did_you_mean(color, COLOR_CHOICES))
    if color == "never":
        return "none", "--color never"
    able, why = _terminal_colors(environ)
    if color == "always":
        return _at_least(able, "16"), f"--color always, {why}"
    if environ.get("NO_COLOR"):
        return "none", "NO_COLOR is set"
    force = environ.get("FORCE_COLOR")
    if force:
        if force in ("0", "false"):
            return "none", f"FORCE_COLOR={force}"
        return _at_least(
            able, _LEVELS[int(force)] if force in ("1", "2", "3") else "16"
        ), f"FORCE_COLOR={force}"
    if environ.get("CLICOLOR_FORCE", "0") != "0":
        return _at_least(able, "16"), "CLICOLOR_FORCE is set"
    if not tty:
        return "none", "not a terminal"
    return able, why


def _terminal_colors(environ: Mapping[str, str]) -> tuple[ColorMode, str]:
    term = environ.get("TERM", "")
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "truecolor", f"COLORTERM={environ['COLORTERM']}"
    if term == "dumb" or not term:
        return "none", f"TERM={term or '(not set)'}"
    if term.endswith("-direct"):
        return "truecolor", f"TERM={term}"
    return ("256" if "256color" in term or "kitty" in term or "alacritty" in term else "16"), f"TERM={term}"


def _at_least(mode: ColorMode, floor: ColorMode) -> ColorMode:
    return _LEVELS[max(_LEVELS.index(mode), _LEVELS.index(floor))]


def _width(tty: bool, environ: Mapping[str, str]) -> int:
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns if tty else PIPED_WIDTH


def _has_blocks(encoding: str) -> bool:
    try:
        "▀█░·⏎".encode(encoding)
    except (UnicodeError, LookupError):
        return False
    return True


def standard_input() -> BinaryIO:
    """Return stdin.

    Raises:
        UsageError: It is closed.
    """
    if sys.stdin is None:  # what a program gets that is started with stdin closed
        raise UsageError("stdin is closed", "give a text, or name a file")
    return sys.stdin.buffer


def read_standard_input() -> bytes:
    """Read stdin to its end.

    Raises:
        UsageError: It is closed.
        ReadError: It cannot be read.
    """
    try:
        return standard_input().read()
    except OSError as error:
        raise ReadError(f"stdin: {error.strerror or error}") from error


def silence(stream: IO[Any]) -> None:
    """Point a stream elsewhere that nobody reads any more, so that no later write or last flush fails."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass  # it is no file, or closed
