"""What counts as punctuation."""

from attncli.segmentation import is_punctuation


def test_punctuation_is_nothing_but_marks() -> None:
    assert [is_punctuation(mark) for mark in (".", " »", "…?", "$", "3.", "##.")] == [
        True,
        True,
        True,
        False,
        False,
        True,
    ]
