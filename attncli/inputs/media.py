"""Pictures, sounds and other files among the texts that a user names: told by the ending of their names."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from attncli import registry
from attncli.errors import ReadError, UsageError
from attncli.labels import safe_label


def medium_of(text: str) -> str | None:
    """Return what a text is the name of, by its ending.

    >>> medium_of("photo.JPG"), medium_of("speech.wav"), medium_of("It fell.")
    ('picture', 'sound', None)
    """
    known = registry.entries("inputs").items()
    endings = {name: cast(tuple[str, ...], entry.attributes["suffixes"]) for name, entry in known}
    return next((name for name, suffixes in endings.items() if text.lower().endswith(suffixes)), None)


def is_file(text: str) -> bool:
    """Return whether a text is the name of a file that is there."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with a NUL in it
        return False


def check_exists(text: str) -> None:
    """Refuse the name of a picture or a sound that is not there.

    Raises:
        ReadError: It is not.
    """
    if (medium := medium_of(text)) is not None and not is_file(text):
        reason = "not a regular file" if Path(text).exists() else "no such file"
        raise ReadError(f"{safe_label(text)}: {reason}", f"its ending says that it is a {medium}")


def refuse_medium(text: str | None) -> None:
    """Refuse a picture or a sound that is there, where a text is read.

    Raises:
        UsageError: The text is the name of one.
    """
    if text is None or (medium := medium_of(text)) is None or not is_file(text):
        return
    raise UsageError(f"{safe_label(text)} is a {medium}, where a text is read", where_shown(text, medium))


def models_of(medium: str) -> str:
    """Name what reads such files: ``a model of sounds (Whisper)``."""
    return f"a model of {medium}s ({registry.entries('inputs')[medium].attributes['models']})"


def where_shown(name: str, medium: str) -> str:
    """Return the hint that says which command and models take a picture, or a sound."""
    beside = f"; beside a text: --image {safe_label(name)}" if medium == "picture" else ""
    return f"attncli show {safe_label(name)} -m NAME shows it, with {models_of(medium)}{beside}"
