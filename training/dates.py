"""Dates as they are said, as they are written in digits, and which word each digit comes from.

A small language with a known right answer: ``the twenty-third of may nineteen eighty-four`` is ``1984-05-23``.
"""

from __future__ import annotations

import datetime
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

MONTHS = "january february march april may june july august september october november december".split()
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
UNITS = "one two three four five six seven eight nine".split()
TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()

FIRST, LAST = datetime.date(1100, 1, 1), datetime.date(2099, 12, 31)


@dataclass(frozen=True)
class Dated:
    """A date said, written, and aligned.

    Args:
        said: Words and commas, as the tokenizer cuts them.
        written: ``19 84 - 05 - 23``, as the tokenizer cuts it.
        sources: For each piece of `written`, the words that say it, counted from 0: of 84 "eighty" and "four". None
            for the dashes.
    """

    said: tuple[str, ...]
    written: tuple[str, ...]
    sources: tuple[frozenset[int], ...]


Said = list[tuple[str, str]]
"""Words, each with the pieces of the written date that it says, by their places: 0 and 1 the year, 3 and 5."""


def draw(chance: random.Random, *, held_out: bool) -> Dated:
    """Draw a date and one of the ways to say it.

    Args:
        held_out: Whether the date is one of the tenth that no model is trained on.
    """
    while True:
        date = datetime.date.fromordinal(chance.randint(FIRST.toordinal(), LAST.toordinal()))
        if is_held_out(date) == held_out:
            return said(date, chance)


def is_held_out(date: datetime.date) -> bool:
    """Whether a date is kept from the training: a tenth of all, spread evenly."""
    return zlib.crc32(date.isoformat().encode()) % 10 == 0


def said(date: datetime.date, chance: random.Random) -> Dated:
    """Return a date in one of many ways."""
    day, month, year = _day(date.day), [(MONTHS[date.month - 1], "3")], _year(date.year, chance)
    the = [("the", "")] if chance.random() < 0.7 else []
    comma: Said = [(",", "")] if chance.random() < 0.4 else []
    if chance.random() < 0.6:
        of: Said = [("of", "")] if chance.random() < 0.8 else []
        words = [*the, *day, *of, *month, *comma, *year]
    else:
        words = [*month, *the, *day, *comma, *year]
    if chance.random() < 0.25:
        words = [(WEEKDAYS[date.weekday()], ""), *comma, *words]
    return _aligned(words, _pieces(date))


def _aligned(words: Said, written: tuple[str, ...]) -> Dated:
    sources = (
        frozenset(index for index, (_, places) in enumerate(words) if str(place) in places)
        for place in range(len(written))
    )
    return Dated(tuple(word for word, _ in words), written, tuple(sources))


def _pieces(date: datetime.date) -> tuple[str, ...]:
    """Write a date as it is cut: two digits at a time."""
    century, rest = divmod(date.year, 100)
    return (f"{century:02}", f"{rest:02}", "-", f"{date.month:02}", "-", f"{date.day:02}")


def _day(day: int) -> Said:
    if day <= 20:
        return [(ORDINALS[day - 1], "5")]
    if day % 10 == 0:
        return [("thirtieth", "5")]
    return [(TENS[day // 10 - 2], "5"), (ORDINALS[day % 10 - 1], "5")]


def _year(year: int, chance: random.Random) -> Said:
    century, rest = divmod(year, 100)
    if century == 20 and (rest < 10 or chance.random() < 0.5):
        joined: Said = [("and", "")] if rest and chance.random() < 0.4 else []
        return [("two", "0"), ("thousand", "0" if rest else "01"), *joined, *_last_two(rest)]
    said_century: Said = [((*TEENS, "twenty")[century - 10], "0")]
    if rest == 0:
        return [*said_century, ("hundred", "1")]
    oh: Said = [(chance.choice(("oh", "o")), "1")] if rest < 10 else []
    return [*said_century, *oh, *_last_two(rest)]


def _last_two(rest: int) -> Said:
    if rest == 0:
        return []
    if rest < 20:
        return [((*UNITS, *TEENS)[rest - 1], "1")]
    tens, unit = divmod(rest, 10)
    return [(TENS[tens - 2], "1"), *([(UNITS[unit - 1], "1")] if unit else [])]


def vocabulary() -> Iterator[str]:
    """Yield every word that can be said, and every piece that can be written."""
    yield from ("the", "of", ",", "and", "oh", "o", "two", "thousand", "hundred")
    yield from (*MONTHS, *WEEKDAYS, *UNITS, *TEENS, *TENS, *ORDINALS, "thirtieth")
    yield from ("-", *(f"{number:02}" for number in range(100)))
