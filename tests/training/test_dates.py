import datetime
import random

import pytest

from training import dates, vocabularies


class Fixed(random.Random):
    """A chance that says always the same."""

    def __init__(self, value: float) -> None:
        super().__init__(0)
        self.value = value

    def random(self) -> float:
        return self.value


def by_word(one: dates.Dated) -> dict[str, str]:
    """Say which words each written piece comes from."""
    pairs = zip(one.written, one.sources, strict=True)
    return {piece: " ".join(one.said[i] for i in sorted(sources)) for piece, sources in pairs if sources}


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ((1984, 5, 23), {"19": "nineteen", "84": "eighty four", "05": "may", "23": "twenty third"}),
        ((1776, 7, 4), {"17": "seventeen", "76": "seventy six", "07": "july", "04": "fourth"}),
        ((1500, 12, 30), {"15": "fifteen", "00": "hundred", "12": "december", "30": "thirtieth"}),
        ((2005, 1, 19), {"20": "two thousand", "05": "five", "01": "january", "19": "nineteenth"}),
        ((2000, 3, 11), {"20": "two thousand", "00": "thousand", "03": "march", "11": "eleventh"}),
    ],
)
def test_each_piece_comes_from_the_words_that_say_it(date: tuple[int, int, int], expected: dict) -> None:
    assert by_word(dates.said(datetime.date(*date), Fixed(0.45))) == expected


def test_the_order_of_the_words_differs_and_what_they_say_does_not() -> None:
    date = datetime.date(1866, 8, 21)
    first, second = dates.said(date, Fixed(0.59)), dates.said(date, Fixed(0.61))
    assert first.said[:4] == ("the", "twenty", "first", "of") and second.said[:3] == (
        "august",
        "the",
        "twenty",
    )
    assert by_word(first) == by_word(second)


def test_held_out_dates_are_a_tenth_and_never_drawn_for_training() -> None:
    chance = random.Random(5)
    drawn = ["".join(dates.draw(chance, held_out=False).written) for _ in range(300)]
    assert not any(dates.is_held_out(datetime.date.fromisoformat(one)) for one in drawn)
    days = [datetime.date.fromordinal(dates.FIRST.toordinal() + i) for i in range(4000)]
    assert 0.08 < sum(map(dates.is_held_out, days)) / len(days) < 0.12


def test_the_tokenizer_cuts_what_people_write_into_the_words_that_are_drawn() -> None:
    tokenizer = vocabularies.words(dates.vocabulary())
    encoding = tokenizer.encode("The twenty-third of May, nineteen oh five")
    assert encoding.tokens == ["the", "twenty", "third", "of", "may", ",", "nineteen", "oh", "five"]
    assert encoding.offsets[1:3] == [(4, 10), (11, 16)]
    assert tokenizer.encode("1905-05-23").tokens == ["19", "05", "-", "05", "-", "23"]
    chance = random.Random(1)
    for _ in range(50):
        one = dates.draw(chance, held_out=False)
        assert tokenizer.encode(" ".join(one.said)).tokens == list(one.said)
        assert tokenizer.token_to_id("<unk>") not in tokenizer.encode("".join(one.written)).ids
