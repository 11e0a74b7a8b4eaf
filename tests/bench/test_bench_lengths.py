import pytest

from attncli.bench.lengths import MOST, parse_lengths
from attncli.errors import UsageError


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("7", (7,)),
        ("512, 1024", (512, 1024)),
        ("512:8192:*2", (512, 1024, 2048, 4096, 8192)),
        ("512:1500:+512", (512, 1024)),
        ("128,256:1024:*2", (128, 256, 512, 1024)),
        ("5:5:*2", (5,)),
    ],
)
def test_lists_and_ranges_are_read(text: str, lengths: tuple[int, ...]) -> None:
    assert parse_lengths(text) == lengths


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' is no whole number"),
        ("512,", "'' is no whole number"),
        ("1.5", "'1.5' is no whole number"),
        ("1e3", "'1e3' is no whole number"),
        ("n", "'n' is no whole number"),
        ("٣", "is no whole number"),
        ("0", "at least 1, got 0"),
        ("-5", "at least 1, got -5"),
        ("512,512", "512 follows 512"),
        ("1024,512", "512 follows 1024"),
        ("1024:512:*2", "512 follows 1024"),
        ("512:1024", "a range is first:last"),
        ("512:1024:2", "a range is first:last"),
        ("512:1024:*1", "never rise"),
        ("512:1024:+0", "never rise"),
        ("1:100000:+1", f"more than {MOST} lengths"),
    ],
)
def test_what_is_no_rising_list_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_lengths(text)
    assert words in caught.value.message and caught.value.hint


def test_a_range_without_end_ends() -> None:
    with pytest.raises(UsageError):
        parse_lengths("1:999999999999999999999999:*2")
