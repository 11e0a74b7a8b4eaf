"""Colours of a terminal: from a weight to the codes that paint its cell.

A scale is a few steps from dark to light. Each step has a background and a foreground, black or white,
whichever contrasts more: at least 4.58 to 1 on any background (√21, since black to white is 21 to 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from attncli.errors import UsageError, did_you_mean
from attncli.render import ColorMode

RGB = tuple[int, int, int]

_STOPS: Mapping[str, str] = {
    "viridis": "440154 481f70 443983 3b528b 31688e 287c8e 21918c 20a486 35b779 5ec962 90d743 c8e020 fde725",
    "cividis": "00224e 003170 2a3f6d 434e6c 575d6d 6a6c71 7d7c78 918b78 a59c74 bcae6c d2c06c e9d34e fee838",
    "magma": "000004 100b2d 2c115f 51127c 721f81 932b80 b73779 d8456c f1605d fc8961 feb078 fed799 fcfdbf",
    "inferno": "000004 110a30 320a5e 57106e 781c6d 9a2865 bc3754 d84c3e ed6925 f98e09 fbb61a f4df53 fcffa4",
    "plasma": "0d0887 3a049a 5c01a6 7e03a8 9c179e b52f8c cc4778 de5f65 ed7953 f89540 fdb42f fbd524 f0f921",
    "light": "ffffff dfeaf6 bcd5ec 93bde0 68a1d0 417fb9 275f9c 16427a 0a2654",
    "grey": "1c1c1c 303030 424242 545454 666666 787878 8a8a8a 9e9e9e b2b2b2 c6c6c6 dadada ececec ffffff",
}
"""Evenly spaced colours, joined by straight lines. In *light*, for paper, 0 is white. Grey starts above black, so
that 0 is no black ground."""

_RAMPS_256: Mapping[str, tuple[int, ...]] = {
    "viridis": (53, 54, 60, 31, 37, 43, 114, 155, 226),
    "cividis": (235, 24, 60, 242, 244, 246, 143, 185, 220),
    "magma": (233, 17, 53, 90, 126, 167, 209, 216, 230),
    "inferno": (233, 17, 53, 89, 131, 167, 208, 221, 229),
    "plasma": (18, 55, 91, 126, 132, 167, 209, 220, 226),
    "light": (231, 255, 153, 110, 74, 67, 25, 24, 17),
    "grey": (234, 237, 240, 243, 246, 248, 251, 253, 231),
}

_RAMPS_16: Mapping[str, tuple[int, ...]] = {
    "viridis": (4, 6, 10, 11),
    "cividis": (4, 7, 11),
    "magma": (1, 11, 15),
    "inferno": (1, 11, 15),
    "plasma": (4, 6, 10, 11),
    "light": (15, 7, 6, 4),
    "grey": (0, 7, 15),
}
"""Few colours, in the one order of brightness that common palettes agree on. Their exact values are the
terminal's affair, so only clearly dark and clearly light ones are used."""

_DIVERGING = "08306b 1f5fa6 4a90c9 9cc5e0 d6d6d6 f5be7e dd8a2c ac5a10 6b3103"
"""From blue (negative) to brown (positive), darker away from 0. The grey of 0 is neither the black nor the white
that a terminal's ground may be."""

_DIVERGING_256 = (17, 25, 68, 110, 188, 215, 172, 130, 52)
_DIVERGING_16 = (4, 6, 7, 11, 3)

_TRUECOLOR_STEPS = 64
_DIVERGING_STEPS = 65
"""Odd, so that 0 has a step of its own."""
COLORMAPS = tuple(_STOPS)


@dataclass(frozen=True, slots=True)
class Paint:
    """One colour as the parameters of escape codes.

    Args:
        ground: Sets it as the background.
        ink: Sets it as the foreground.
        text: Sets the foreground that is read best on it.
    """

    ground: str
    ink: str
    text: str

    @property
    def filled(self) -> str:
        """Parameters for text on this colour."""
        return f"{self.text};{self.ground}"


@cache
def scale(colormap: str, mode: ColorMode) -> tuple[Paint, ...]:
    """Return the steps of a colour scale, from 0 to the largest; none where there is no colour.

    Raises:
        UsageError: No colour map has this name.
    """
    if colormap not in _STOPS:
        raise UsageError(f"no colour map named {colormap!r}", did_you_mean(colormap, COLORMAPS))
    if mode == "truecolor":
        fractions = (step / (_TRUECOLOR_STEPS - 1) for step in range(_TRUECOLOR_STEPS))
        return tuple(_rgb_paint(color_at(colormap, fraction)) for fraction in fractions)
    if mode == "256":
        return tuple(_palette_paint(number) for number in _RAMPS_256[colormap])
    return tuple(map(_basic_paint, _RAMPS_16[colormap])) if mode == "16" else ()


@cache
def diverging(mode: ColorMode) -> tuple[Paint, ...]:
    """Return the steps of the scale for numbers with a sign, an odd number of them; none where there is no colour."""
    if mode == "truecolor":
        fractions = (step / (_DIVERGING_STEPS - 1) for step in range(_DIVERGING_STEPS))
        return tuple(_rgb_paint(diverging_color(fraction)) for fraction in fractions)
    if mode == "256":
        return tuple(map(_palette_paint, _DIVERGING_256))
    return tuple(map(_basic_paint, _DIVERGING_16)) if mode == "16" else ()


@cache
def mask_paint(mode: ColorMode) -> Paint | None:
    """Return the one colour that marks an allowed pair, of no scale; None where there is no colour."""
    paints = {"truecolor": _rgb_paint((74, 144, 217)), "256": _palette_paint(68), "16": _basic_paint(6)}
    return paints.get(mode)


def color_at(colormap: str, fraction: float) -> RGB:
    """Return a colour map's colour at a fraction between 0 and 1."""
    return _mix(_parse(_STOPS[colormap]), fraction)


def diverging_color(fraction: float) -> RGB:
    """Return the colour of a number with a sign: 0 for the most negative, ½ for 0, 1 for the most positive."""
    return _mix(_parse(_DIVERGING), fraction)


def _mix(stops: Sequence[RGB], fraction: float) -> RGB:
    place = min(max(fraction, 0.0), 1.0) * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    mixed = (a + (b - a) * (place - low) for a, b in zip(stops[low], stops[low + 1], strict=True))
    red, green, blue = (round(part) for part in mixed)
    return red, green, blue


@cache
def _parse(colors: str) -> Sequence[RGB]:
    return [(int(stop[:2], 16), int(stop[2:4], 16), int(stop[4:], 16)) for stop in colors.split()]


def luminance(color: RGB) -> float:
    """Return the relative luminance of an sRGB colour, 0 to 1.

    Reference: Web Content Accessibility Guidelines 2.2, "relative luminance".
    """
    linear = [_linear(part / 255) for part in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def is_light(color: RGB) -> bool:
    """Return whether black is read better than white on a colour."""
    return (luminance(color) + 0.05) ** 2 > 1.05 * 0.05


def palette_color(number: int) -> RGB:
    """Return a colour of the 256-colour palette, 16 and above (those below are the user's own)."""
    if number >= 232:
        level = 8 + 10 * (number - 232)
        return level, level, level
    red, rest = divmod(number - 16, 36)
    green, blue = divmod(rest, 6)
    steps = (0, 95, 135, 175, 215, 255)
    return steps[red], steps[green], steps[blue]


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)


def _rgb_paint(color: RGB) -> Paint:
    code = "2;{};{};{}".format(*color)
    text = "38;2;0;0;0" if is_light(color) else "38;2;255;255;255"
    return Paint(f"48;{code}", f"38;{code}", text)


def _palette_paint(number: int) -> Paint:
    text = "38;5;16" if is_light(palette_color(number)) else "38;5;231"
    return Paint(f"48;5;{number}", f"38;5;{number}", text)


def _basic_paint(number: int) -> Paint:
    """Paint with one of the terminal's own 16 colours: black text on the light, bright white on the dark."""
    base = number + 30 if number < 8 else number + 82
    return Paint(str(base + 10), str(base), "97" if number in (0, 1, 4) else "30")
