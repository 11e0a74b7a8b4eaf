"""How a picture looks: its size, its texts, its ground and its scale, and the files that keep such settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from attncli.errors import ReadError, UsageError, did_you_mean
from attncli.labels import safe_label

Ground = Literal["white", "transparent", "dark"]
Form = Literal["linear", "sqrt"]

LEAST_FONT = 5.0
"""Points: what is smaller cannot be read in print, and is left out of a picture or written no smaller."""

_INCHES = {"mm": 1 / 25.4, "cm": 1 / 2.54, "in": 1.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(?:\s*[x×]\s*(\d+(?:\.\d+)?))?\s*(mm|cm|in)")


@dataclass(frozen=True, slots=True)
class Look:
    """The settings of a picture.

    Args:
        title: Above the picture; None for the view's own, empty for none.
        notes: Whether the view's notes stand below it.
        numbers: Whether numbers stand in the cells where there is room.
        columns: How many panels stand beside each other; None for what looks best.
        size: Inches of its width and height; a height of None follows from the width.
        font_size: Points of its ordinary texts; the others follow.
        scale: The form of the scale of colours; None for what the numbers call for.
        vmax: The number at the upper end of that scale; None for the largest, or 1 for weights.
        ground: What is behind it.
        running_text: Whether the keys are shown as the text that they are, each on the colour of its weight; a single
            row of many keys is, whether asked or not.
        colormap: None for viridis.
        dpi: Dots per inch of raster pictures; None for 150.
    """

    title: str | None = None
    notes: bool = True
    numbers: bool = True
    columns: int | None = None
    size: tuple[float, float | None] | None = None
    font_size: float = 8.0
    scale: Form | None = None
    vmax: float | None = None
    ground: Ground = "white"
    running_text: bool = False
    colormap: str | None = None
    dpi: int | None = None


PLAIN = Look()

STYLES: Mapping[str, Look] = {
    "paper": Look(
        size=(84 / 25.4, None), font_size=7.0, ground="transparent", colormap="light", notes=False, dpi=600
    ),
    "paper-wide": Look(
        size=(174 / 25.4, None), font_size=7.0, ground="transparent", colormap="light", notes=False, dpi=600
    ),
    "slide": Look(size=(40 / 3, 7.5), font_size=16.0, ground="transparent", notes=False, dpi=144),
    "dark": Look(size=(40 / 3, 7.5), font_size=16.0, ground="dark", notes=False, dpi=144),
}
"""A journal's one and two columns (84 mm and 174 mm), and a slide of 16 to 9."""


def size_of(text: str) -> tuple[float, float | None]:
    """Read a size as inches.

    >>> size_of("4x3in"), size_of("2 in")
    ((4.0, 3.0), (2.0, None))

    Raises:
        UsageError: It is none.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--size {safe_label(text)}: not a size", "write 8.4cm, 8.4x6cm or 4x3in")
    width, height = (None if part is None else float(part) * _INCHES[found[3]] for part in found.groups()[:2])
    assert width is not None
    if not all(0.5 <= side <= 100 for side in (width, height) if side is not None):
        raise UsageError(f"--size {safe_label(text)}: out of range", "from 0.5 to 100 inches")
    return width, height


def style_of(name: str) -> Look:
    """Return a style by its name, or read one from a TOML file.

    Raises:
        UsageError: There is no such style, or the file says something else than a style.
        ReadError: The file cannot be read.
    """
    if name in STYLES:
        return STYLES[name]
    if not name.endswith(".toml"):
        raise UsageError(
            f"--style {safe_label(name)}: no such style",
            f"choose from {', '.join(STYLES)}, or name a file that ends in .toml",
        )
    return _from_toml(name)


def _from_toml(name: str) -> Look:
    import tomllib

    shown = safe_label(name)
    try:
        said = tomllib.loads(Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise ReadError(f"{shown}: {error.strerror or error}") from error
    except ValueError as error:  # no TOML, or no UTF-8
        raise UsageError(f"{shown}: not TOML ({error})") from error
    base = said.pop("style", None)
    if base is not None and base not in STYLES:
        raise UsageError(f"{shown}: no style {base!r}", did_you_mean(str(base), STYLES))
    return replace(STYLES[base] if base else Look(), **_checked(said, shown))


def _checked(said: Mapping[str, object], where: str) -> dict[str, Any]:
    """Return a file's settings by the names of `Look`'s fields."""
    known = {field.name.replace("_", "-"): field.name for field in fields(Look)}
    found: dict[str, Any] = {}
    for key, value in said.items():
        if key not in known:
            raise UsageError(f"{where}: no setting {safe_label(key)!r}", did_you_mean(key, [*known, "style"]))
        expected, fits = _TESTS[known[key]]
        if not fits(value):
            raise UsageError(f"{where}: {key} = {safe_label(str(value))}", f"expected {expected}")
        found[known[key]] = size_of(str(value)) if key == "size" else value
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


_TESTS: Mapping[str, tuple[str, Any]] = {
    "title": ("a text", _is_text),
    "notes": ("true or false", _is_bool),
    "numbers": ("true or false", _is_bool),
    "columns": ("a whole number", _is_count),
    "size": ('a text like "8.4x6cm"', _is_text),
    "font_size": ("5 or more points", lambda value: _is_number(value) and value >= LEAST_FONT),
    "scale": ("linear or sqrt", lambda value: value in get_args(Form)),
    "vmax": ("a number above 0", _is_number),
    "running_text": ("true or false", _is_bool),
    "ground": ("white, transparent or dark", lambda value: value in get_args(Ground)),
    "colormap": ("a name", _is_text),
    "dpi": ("a whole number", lambda value: _is_count(value) and 20 <= value <= 1200),
}
