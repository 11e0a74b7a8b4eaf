"""Pictures and sounds among the texts that a user names: told by the ending of their names."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from attncli.errors import ReadError, UsageError
from attncli.labels import safe_label

Medium = Literal["picture", "sound"]

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
EXAMPLES = {"picture": "ViT, DINOv2, CLIP, …", "sound": "Whisper"}
SOUNDS = (".wav", ".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac")


def medium_of(text: str) -> Medium | None:
    """Return what a text is the name of, by its ending.

    >>> medium_of("photo.JPG"), medium_of("speech.wav"), medium_of("It fell.")
    ('picture', 'sound', None)
    """
    if text.lower().endswith(PICTURES):
        return "picture"
    return "sound" if text.lower().endswith(SOUNDS) else None


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
        reason = "no regular file" if Path(text).exists() else "no such file"
        raise ReadError(f"{safe_label(text)}: {reason}", f"by its name it is a {medium}")


def refuse_medium(text: str | None) -> None:
    """Refuse a picture or a sound that is there, where a text is read.

    Raises:
        UsageError: The text is the name of one.
    """
    if text is None or (medium := medium_of(text)) is None or not is_file(text):
        return
    raise UsageError(f"{safe_label(text)} is a {medium}, where a text is read", where_shown(text, medium))


def where_shown(name: str, medium: Medium) -> str:
    """Return the hint that says which command and models take a picture, or a sound."""
    beside = f"; beside a text: --image {safe_label(name)}" if medium == "picture" else ""
    return f"attncli show {safe_label(name)} -m NAME shows it, with a model of {medium}s ({EXAMPLES[medium]}){beside}"
