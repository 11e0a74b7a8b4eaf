"""Each metric on rows that can be worked out by hand, and what every metric must do."""

import pytest
import torch

from attncli import registry
from attncli.record import KINDS, Site, WeightBlock

SITE = Site("encoder", 0, 1, 1)
NAMES = tuple(registry.entries("metrics"))


def block(
    rows: list[list[float]], first_row: int = 0, first_key: int = 0, allowed: list | None = None
) -> WeightBlock:
    mask = None if allowed is None else torch.tensor(allowed)[None, None]
    return WeightBlock(
        SITE, (0,), range(first_row, first_row + len(rows)), torch.tensor(rows)[None, None], mask, first_key
    )


def measure(name: str, of: WeightBlock) -> list[float]:
    return registry.load("metrics", name).measure(of)[0, 0].tolist()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("entropy", [0.0, 1.5]),  # one key; ½, ¼, ¼
        ("maximum", [1.0, 0.5]),
        ("distance", [1.0, 0.25 + 0.25 * 2]),  # row 1 on key 0; row 2 on keys 2, 1, 0
        ("self", [0.0, 0.5]),
        ("previous", [1.0, 0.25]),
        ("first", [1.0, 0.25]),
    ],
)
def test_a_metric_on_two_rows_by_hand(name: str, expected: list[float]) -> None:
    two = block([[1.0, 0.0, 0.0], [0.25, 0.25, 0.5]], first_row=1)
    assert measure(name, two) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_without_any_weight_has_no_number(name: str) -> None:
    found = measure(
        name, block([[0.0, 0.0], [0.5, 0.5]], first_row=0, allowed=[[False, False], [True, True]])
    )
    assert found[0] != found[0] and found[1] == found[1]


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_says_for_which_kinds_of_attention_it_is_meant_and_in_which_unit(name: str) -> None:
    attributes = registry.entries("metrics")[name].attributes
    assert set(attributes["kinds"]) <= set(KINDS) and attributes["unit"] in ("bits", "tokens", "weight")


def test_what_lies_outside_a_window_has_no_number() -> None:
    late = block([[0.5, 0.5], [0.25, 0.75]], first_row=7, first_key=6)
    assert measure("self", late)[0] == 0.5
    assert measure("previous", late) == [0.5, 0.75]
    assert all(number != number for number in measure("first", late))


def test_entropy_leaves_out_what_a_sink_takes() -> None:
    assert measure("entropy", block([[0.25, 0.25, 0.0]])) == pytest.approx([1.0], abs=1e-6)


def test_entropy_from_scores_is_entropy_from_weights() -> None:
    scores = torch.tensor([[[[3.0, -2.0, 40.0, 39.0], [-90.0, 0.0, 90.0, -1e30]]]])
    weights = scores.softmax(-1)
    plain = WeightBlock(SITE, (0,), range(2), weights, None)
    known = WeightBlock(SITE, (0,), range(2), weights, None, scores=scores, sums=weights.sum(-1))
    assert measure("entropy", known) == pytest.approx(measure("entropy", plain), abs=1e-5)


def test_distance_counts_keys_behind_the_rows_too() -> None:
    rows = [[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]]
    by_hand = [sum(w * abs(i - j) for j, w in enumerate(row)) for i, row in enumerate(rows, start=1)]
    assert measure("distance", block(rows, first_row=1)) == pytest.approx(by_hand, abs=1e-6)
