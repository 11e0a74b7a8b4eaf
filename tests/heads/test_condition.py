"""Conditions on heads: what they mean, and what is said of those that do not parse."""

import math

import pytest

from attncli.errors import UsageError
from attncli.heads.condition import parse_where
from attncli.heads.scores import Head, Number

NAMES = ["entropy", "previous_token", "induction"]


def number(mean: float, null: float = 0.0) -> Number:
    return Number(mean, 0.01, null, null, math.nan, 9)


HEADS = [
    Head(
        "encoder", 0, 2, 2, {"previous_token": number(0.9, 0.1), "entropy": number(0.5)}, ("previous-token",)
    ),
    Head("encoder", 5, 1, 1, {"previous_token": number(0.3), "entropy": number(3.5)}),
    Head("encoder", 7, 3, 3, {"entropy": number(2.0)}, ("sink", "delimiter")),
]


def chosen(text: str) -> list[int]:
    condition = parse_where(text, NAMES)
    return [head.layer for head in HEADS if condition(head)]


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("previous_token > 0.4 and layer < 6", [0]),
        ("previous-token >= .3", [0, 5]),
        ("entropy>1 or layer == 0", [0, 5, 7]),
        ("layer = 0 or layer = 7 and entropy < 1", [0]),
        ("(layer = 0 or layer = 7) and entropy < 2.5", [0, 7]),
        ("not layer < 6", [7]),
        ("not not layer < 6", [0, 5]),
        ("0.4 < previous_token", [0]),
        ("previous_token.null > 0.05", [0]),
        ("previous_token.excess > 0.75", [0]),
        ("entropy.rows = 9", [0, 5, 7]),
        ("role > 0.5", [0]),
        ("label == sink", [7]),
        ('label = "previous-token"', [0]),
        ("label != sink", [0, 5]),
        ("kind == encoder and head != 1", [0, 7]),
        ("layer > -1 AND layer < 1e0", [0]),
        ("0 < layer <= 5", [5]),
        ("label == previous-token", [0]),
    ],
)
def test_a_condition_chooses_heads(text: str, layers: list[int]) -> None:
    assert chosen(text) == layers


def test_a_number_that_a_head_lacks_fulfils_nothing() -> None:
    assert chosen("induction > 0 or induction <= 0 or induction != 0") == []
    assert chosen("previous_token < 2") == [0, 5]


@pytest.mark.parametrize(
    ("text", "named", "hint"),
    [
        ("previus_token > 0.4", 'no metric "previus_token"', 'did you mean "previous_token"?'),
        ("layer < 6 and entrpy > 1", 'no metric "entrpy"', 'did you mean "entropy"?'),
        ("entropy >", "invalid syntax", None),
        ("entropy 3", 'at "3"', None),
        ("entropy", '"entropy" is no comparison', None),
        ("(layer < 3", "'(' was never closed", None),
        ("layer < 3)", "unmatched ')' at \")\"", None),
        ("layer < 3 layer", 'at "layer"', None),
        ("entropy.nul > 1", 'entropy has no part "nul"', 'did you mean "null"?'),
        ("layer < 3 & head > 1", '"3 & head" is no name or number', None),
        ("layer in (1, 2)", "in a way that has no meaning here", None),
        ("__import__('os') > 1", "\"__import__('os')\" is no name or number", None),
        ("[x for x in 'ab'] > 1", "is no name or number", None),
        ("True > 1", '"True" is no name or number', None),
        ("> 3", "invalid syntax", None),
        ("layer > 1\0", "invalid", None),
        ("entrpy == 3", 'no metric "entrpy"', 'did you mean "entropy"?'),
        ("(" * 300 + "layer < 1" + ")" * 300, "too many nested parentheses", None),
        ("not " * 300 + "layer < 1", "at most 1,000", None),
    ],
)
def test_what_has_no_meaning_in_a_condition_is_named(text: str, named: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        parse_where(text, NAMES)
    assert named in caught.value.message
    assert hint is None or caught.value.hint == hint


def test_an_empty_condition_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        parse_where("  ", NAMES)
