"""Slips of the hand, each with its message and exit code."""

import pytest
from commandline import Cli


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (("show", "hello", "world"), 'put the text in quotes: attncli show "hello world"'),
        (("hello world",), 'put the text in quotes: attncli show "hello world"'),
        (("hello", "world", "-q"), 'put the text in quotes: attncli show "hello world"'),
        (("mask", "causal", "a", "b"), 'put the text in quotes: attncli mask causal "a b"'),
        (("show", "-l", "3", "a b"), "did you mean --layer?"),
        (("show", "-k5", "a b"), "did you mean --kind?"),
        (("show", "-x is less"), "put -- before a text that begins with a dash"),
        (("shw", "a b"), 'did you mean "show"?'),
        (("explain", "scalin"), 'did you mean "scaling"? As a text: attncli explain -- scalin'),
    ],
)
def test_a_slip_is_told_with_what_was_meant(cli: Cli, typed: tuple[str, ...], hint: str) -> None:
    found = cli(*typed)
    assert found.code == 2 and not found.out
    assert hint in found.err and found.err.count("\n") <= 3


@pytest.mark.parametrize(
    "typed",
    [
        ("show", ""),
        ("tokens", ""),
        ("heads", ""),
        ("heads", "--file", "-"),
        ("explain", ""),
        ("compare", ""),
        ("find", "", "--from", "a", "--to", "b"),
        ("mask", "causal", ""),
        ("diff", "", "a b"),
    ],
)
def test_an_empty_text_is_a_mistake_of_use_in_every_command(cli: Cli, typed: tuple[str, ...]) -> None:
    found = cli(*typed)
    assert found.code == 2 and not found.out and "empty" in found.err


def test_a_word_that_is_no_topic_can_be_explained_as_a_text(cli: Cli) -> None:
    assert cli("explain", "--", "scalin").code == 0
