"""Where a text can be cut into characters as people see them and into words (UAX #29); where another stands in it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise

_SENTENCE_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s+[^\sa-z])|[。！？]+[」』”’）]*")
"""Marks that end a sentence, with what closes after them; after those of Latin script a small letter goes on."""


def graphemes(text: str) -> list[str]:
    r"""Split a text into what people see as one character: a letter with its accents, an emoji, a flag.

    Reference: Unicode Standard Annex #29, section 3.

    >>> [len(part) for part in graphemes("e\u0301a")]
    [2, 1]
    """
    if text.isascii() and "\r" not in text:
        return list(text)
    import regex

    return [match[0] for match in regex.finditer(r"\X", text)]


def word_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each word, punctuation mark or symbol of a text begins and ends; blanks are none.

    Of scripts that are written without blanks, each character is a word: Chinese, Hiragana, Thai; but not Katakana.

    Reference: Unicode Standard Annex #29, section 4, without a dictionary.

    >>> text = "It's 3.14, 나는 我爱"
    >>> [text[start:end] for start, end in word_spans(text)]
    ["It's", '3.14', ',', '나는', '我', '爱']
    """
    import regex

    cuts = [0, *(match.start() for match in regex.finditer(r"(?w)\b", text)), len(text)]
    for start, end in pairwise(cuts):
        word = text[start:end]
        if word.strip():
            yield start + len(word) - len(word.lstrip()), end  # a mark may sit on a space


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each sentence of a text begins and ends; an end of a line, or an empty one, ends it too.

    >>> text = "It rained. Did it? “Yes!” he said, at 3.30 p.m. today. 好。我走。"
    >>> [text[start:end] for start, end in sentence_spans(text)]
    ['It rained.', 'Did it?', '“Yes!” he said, at 3.30 p.m. today.', '好。', '我走。']
    """
    for start, end in line_spans(text):
        at = start
        for match in _SENTENCE_END.finditer(text, start, end):
            yield at, match.end()
            at = match.end() + len(text[match.end() : end]) - len(text[match.end() : end].lstrip())
        if at < end:
            yield at, end


def line_spans(text: str) -> Iterator[tuple[int, int]]:
    r"""Yield where each line of a text begins and ends, blanks around it and empty lines aside.

    >>> list(line_spans("a b\n\n  c\n"))
    [(0, 3), (7, 8)]
    """
    at = 0
    for line in text.splitlines(keepends=True):
        if line.strip():
            yield at + len(line) - len(line.lstrip()), at + len(line.rstrip())
        at += len(line)


def composed(text: str) -> str:
    """Return a text in normal form C: an accent and its letter are one, however they were typed."""
    return unicodedata.normalize("NFC", text)


def folded(text: str) -> str:
    """Return a text without what its case and its compatible forms (full width, ligatures) tell apart."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def occurrences(
    text: str, wanted: str, starts: Collection[int], ends: Collection[int]
) -> list[tuple[int, int]]:
    """Find where a text stands in another: in its own case or, where there is none, in any; blanks are all alike.

    Args:
        starts: Where it may begin; `ends` likewise.
    """
    for same in (composed, folded):
        goal = "".join(_alike(wanted.strip(), same)[0])
        there, places = _alike(text, same)
        found = list(_found("".join(there), goal, places))
        found = [(start, end) for start, end in found if start in starts and end in ends]
        if found:
            return found
    return []


def _alike(text: str, same: Callable[[str], str]) -> tuple[list[str], list[tuple[int, int]]]:
    """Return a text's characters in one form, and for each letter of these where it comes from."""
    shown: list[str] = []
    places: list[tuple[int, int]] = []
    at = 0
    for character in graphemes(text):
        one = " " if character.isspace() else same(character)
        if one == " " and shown[-1:] == [" "]:
            places[-1] = places[-1][0], at + len(character)
        else:
            shown.append(one)
            places += [(at, at + len(character))] * len(one)
        at += len(character)
    return shown, places


def _found(there: str, goal: str, places: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield where whole characters are what is looked for, none twice."""
    at = there.find(goal) if goal else -1
    while at >= 0:
        last = at + len(goal) - 1
        whole = (at == 0 or places[at - 1] != places[at]) and places[last : last + 2] != [places[last]] * 2
        if whole:
            yield places[at][0], places[last][1]
        at = there.find(goal, at + 1)


def is_punctuation(text: str) -> bool:
    """Return whether a text is nothing but punctuation marks, as Unicode has them.

    >>> is_punctuation(" ."), is_punctuation("it's"), is_punctuation("")
    (True, False, False)
    """
    marks = text.strip()
    return bool(marks) and all(unicodedata.category(character)[0] == "P" for character in marks)
