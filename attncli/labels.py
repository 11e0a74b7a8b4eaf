"""One gate that every text from outside passes before it reaches a screen or a picture.

Tokens, model ids, file names and messages of other libraries may hold anything: escape sequences, a
right-to-left override, a lone surrogate. `safe_label` makes each such character visible and harmless. What it
returns holds no control, format, private or unassigned character, so it can be printed, measured and drawn.
"""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache

from attncli.segmentation import graphemes

CONTINUATION = "‿"
"""Stands in front of a piece that continues a word: ``‿ed`` for WordPiece's ``##ed``."""

_ZWJ = "\u200d"
_EMOJI_VARIATION = "\ufe0f"
_NAMED = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\x7f": "␡"}
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_MARKS = ("Mn", "Mc", "Me")
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal, or the layout of a line, obeys: C0, C1, line separators, bidirectional marks; and surrogates."""

_LONGEST_QUOTED = 200

_ASCII = str.maketrans({"·": "_", "⏎": "\\n", "⇥": "\\t", "␍": "\\r", CONTINUATION: "##", "⟨": "<", "⟩": ">"})


def as_utf8(argument: str) -> str:
    """Read an argument's bytes as UTF-8, whatever encoding the locale has; what is none comes back as it is.

    Where the locale's encoding is ASCII, Python keeps each other byte as half a surrogate pair.
    """
    try:
        return os.fsencode(argument).decode("utf-8")
    except UnicodeError:
        return argument


@lru_cache(maxsize=65536)
def safe_label(text: str) -> str:
    r"""Make a text fit to show: nothing invisible, nothing that could steer a terminal.

    Edge spaces become ``·``, newlines ``⏎``, other controls their pictures, and what has no picture
    (C1, surrogates, bidirectional and format characters, private and unassigned ones) its number. A text that
    is safe already comes back as it is.

    >>> safe_label(" the"), safe_label("\n"), safe_label("\x1b[2J"), safe_label("")
    ('·the', '⏎', '␛[2J', '∅')
    >>> safe_label("abc\u202egnp")
    'abc⟨202E⟩gnp'
    """
    if not text:
        return "∅"
    shown = "".join(_visible(text, index) for index in range(len(text)))
    shown = _mark_edges(shown)
    return "◌" + shown if unicodedata.category(shown[0]) in _MARKS else shown


def _visible(text: str, index: int) -> str:
    character = text[index]
    if character in _NAMED:
        return _NAMED[character]
    if character < " ":
        return chr(0x2400 + ord(character))
    if unicodedata.category(character) not in _HIDDEN or _joins_emoji(text, index):
        return character
    return f"⟨{ord(character):04X}⟩"


def _joins_emoji(text: str, index: int) -> bool:
    """Return whether a zero-width joiner binds two pictures into one."""
    if text[index] != _ZWJ or not 0 < index < len(text) - 1:
        return False
    before, after = text[index - 1], text[index + 1]
    pictorial = before == _EMOJI_VARIATION or unicodedata.category(before) in ("So", "Sk")
    return pictorial and unicodedata.category(after) == "So"


def visible_controls(text: str) -> str:
    r"""Show the controls in a text as labels do, and leave all else as it is: blanks, joiners, nothing at all.

    >>> visible_controls(" a\x1b]52;c;x\x07\u202e ")
    ' a␛]52;c;x␇⟨202E⟩ '
    """
    return _STEERING.sub(lambda found: _visible(found[0], 0), text)


def _mark_edges(text: str) -> str:
    """Show the blanks at both ends: a space as a dot, a rarer blank (no-break, ideographic) by its number."""
    middle = text.strip()
    if middle == text:
        return text
    start = len(text) - len(text.lstrip())
    return _mark_blanks(text[:start]) + middle + _mark_blanks(text[start + len(middle) :])


def _mark_blanks(blanks: str) -> str:
    return "".join("·" if blank == " " else f"⟨{ord(blank):04X}⟩" for blank in blanks)


def quoted_for_shell(text: str) -> str:
    r"""Quote a text for a shell, as a person would; … for one that is too long or holds control characters.

    >>> quoted_for_shell("hello world"), quoted_for_shell("hello"), quoted_for_shell('a "b"')
    ('"hello world"', 'hello', '\'a "b"\'')
    """
    if len(text) > _LONGEST_QUOTED or safe_label(text) != text:
        return '"…"'
    if not set(text) & set('"$`\\!') and shlex.quote(text) != text:
        return f'"{text}"'
    return shlex.quote(text)


def ascii_label(label: str) -> str:
    r"""Write a safe label in ASCII, for terminals without UTF-8.

    >>> ascii_label("·the"), ascii_label("⏎"), ascii_label("‿ed"), ascii_label("né")
    ('_the', '\\n', '##ed', 'n\\xe9')
    """
    return label.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def cells(label: str) -> int:
    """Count the terminal cells that a label takes: two for a wide character, none for a combining mark."""
    if label.isascii():
        return len(label)
    return _cell_len()(label)


@lru_cache(maxsize=1)
def _cell_len() -> Callable[[str], int]:
    from rich.cells import cell_len

    return cell_len


def fit(label: str, width: int, mark: str = "…") -> str:
    """Cut a label to at most `width` cells and mark the cut; an accent stays on its letter.

    >>> fit("transformer", 6), fit("交通信号", 5), fit("short", 6)
    ('trans…', '交通…', 'short')
    """
    if cells(label) <= width:
        return label
    room = width - cells(mark)
    if room < 0:
        return ""
    kept = ""
    for grapheme in graphemes(label):
        room -= cells(grapheme)
        if room < 0:
            break
        kept += grapheme
    return kept + mark


def pad(label: str, width: int, align: str = "left") -> str:
    """Fill a label with spaces up to `width` cells.

    >>> pad("ab", 4, "right"), pad("交", 4, "centre")
    ('  ab', ' 交 ')
    """
    missing = max(0, width - cells(label))
    before = {"left": 0, "centre": missing // 2, "right": missing}[align]
    return " " * before + label + " " * (missing - before)


def in_ranges(numbers: Iterable[int]) -> str:
    """Write numbers in order, three and more that follow each other as a range.

    >>> in_ranges([4, 0, 1, 2, 5])
    '0-2, 4, 5'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [[f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(number) for number in run] for run in runs]
    return ", ".join(part for run in parts for part in run)
