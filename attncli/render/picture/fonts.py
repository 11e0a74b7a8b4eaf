"""Which fonts a picture can use, and what none of them can draw.

Matplotlib logs a line for each absent family and each missing glyph. So only installed families are asked
for, and a character that none of them has is written as its number, ``U+4EA4``.
"""

from __future__ import annotations

import re
from functools import cache

from attncli.labels import safe_label

_WANTED = (
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Source Han Sans",
    "WenQuanYi Zen Hei",
    "Hiragino Sans",
    "PingFang SC",
    "Yu Gothic",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Sans Thai",
    "Noto Sans Symbols",
    "Noto Sans Symbols 2",
    "Noto Emoji",
    "Arial Unicode MS",
)
"""Best first. DejaVu Sans comes with Matplotlib, so one is always there. Colour emoji cannot be loaded."""


_LETTERS = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]+"
_RIGHT_TO_LEFT = re.compile(f"{_LETTERS}(?: +{_LETTERS})*")
_MARK = "\u200e"
"""Left-to-right: around a word that goes from right to left, it keeps the numbers beside it in their places."""

_CONTROL_PICTURES = {chr(0x2400 + code): code for code in range(0x20)} | {"␡": 0x7F}
"""What `safe_label` writes for control characters; where no font has it, the control's own number is told."""


@cache
def families() -> tuple[str, ...]:
    """Return the wanted font families that are installed."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return tuple(name for name in _WANTED if name in installed)


@cache
def _drawable() -> frozenset[int]:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    found: set[int] = set()
    for family in families():
        found.update(get_font(findfont(FontProperties(family=[family]))).get_charmap())
    return frozenset(found)


@cache
def picture_label(text: str) -> str:
    """Make a text fit for a picture: the gate's rules, and the number of each character that no font has."""
    known = _drawable()
    shown = "".join(part if ord(part) in known else _number(part) for part in safe_label(text))
    return _RIGHT_TO_LEFT.sub(lambda run: f"{_MARK}{run[0]}{_MARK}", shown) if ord(_MARK) in known else shown


def _number(character: str) -> str:
    """Write a character's number; a joiner or variation mark beside it says nothing by itself."""
    if character in _CONTROL_PICTURES:
        return f"⟨{_CONTROL_PICTURES[character]:04X}⟩"
    return "" if character in "\u200d\ufe0f" else f"U+{ord(character):04X}"


def has_replaced(text: str) -> bool:
    """Return whether `picture_label` had to write a ``U+`` number for a character of a text."""
    return any(ord(part) not in _drawable() and _number(part).startswith("U+") for part in safe_label(text))
