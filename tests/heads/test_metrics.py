"""Each metric on rows that can be worked out by hand, and what every metric must do."""

from dataclasses import replace

import pytest
import torch

from attncli import registry
from attncli.batch import Axis, Batch
from attncli.heads.metrics import positions_only
from attncli.heads.metrics_of_block import Measures
from attncli.record import KINDS, AttentionLayer, WeightBlock

LAYER = AttentionLayer("encoder", 0, 1, 1)
PER = {name: entry.attributes["per"] for name, entry in registry.entries("metrics").items()}
OF_ROWS = [name for name, per in PER.items() if per == "row"]


def block(
    rows: list[list[float]], first_row: int = 0, first_key: int = 0, allowed: list | None = None
) -> WeightBlock:
    mask = None if allowed is None else torch.tensor(allowed)[None, None]
    return WeightBlock(
        LAYER, (0,), range(first_row, first_row + len(rows)), torch.tensor(rows)[None, None], mask, first_key
    )


def measure(name: str, of: WeightBlock, batch: Batch | None = None) -> list[float]:
    return Measures((name,)).rows(of, batch or positions_only(20))[0, 0, 0].tolist()


def text(ids: list[int], special: tuple[int, ...] = (), marks: tuple[int, ...] = ()) -> Batch:
    """A text of these ids; some of the places are special tokens, some punctuation."""
    places = torch.arange(len(ids))
    axis = Axis(
        torch.tensor([ids]),
        torch.ones(1, len(ids), dtype=torch.bool),
        torch.isin(places, torch.tensor(special, dtype=torch.long))[None],
        torch.isin(places, torch.tensor(marks, dtype=torch.long))[None],
    )
    return Batch(axis, axis, axis.present & ~axis.special)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("entropy", [0.0, 1.5]),  # one key; ½, ¼, ¼
        ("normalised_entropy", [0.0, 1.5 / 1.584962500721156]),
        ("effective_keys", [1.0, 2**1.5]),
        ("maximum", [1.0, 0.5]),
        ("distance", [1.0, 0.25 + 0.25 * 2]),  # row 1 on key 0; row 2 on keys 2, 1, 0
        ("span", [0.0, 0.6875**0.5]),  # mean place 1¼: Σ p·j² = 2¼
        ("self", [0.0, 0.5]),
        ("diagonal", [0.0, 0.5]),
        ("previous_token", [1.0, 0.25]),
        ("first_token", [1.0, 0.25]),
    ],
)
def test_a_metric_on_two_rows_by_hand(name: str, expected: list[float]) -> None:
    two = block([[1.0, 0.0, 0.0], [0.25, 0.25, 0.5]], first_row=1)
    assert measure(name, two) == pytest.approx(expected, abs=1e-6)


def test_the_next_token_is_the_one_behind_and_the_last_row_has_none() -> None:
    found = measure("next_token", block([[0.25, 0.75], [0.5, 0.5]]))
    assert found[0] == 0.75 and found[1] != found[1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("delimiter", [0.3, 0.5]),  # places 0 and 4
        ("punctuation", [0.3, 0.25]),  # place 3
        ("duplicate_token", [0.1, 0.125]),  # 7 stands at 1 and 2
        ("induction", [0.3, 0.125]),  # after the other 7: place 3 for row 1, place 2 for row 2
    ],
)
def test_a_metric_of_tokens_by_hand(name: str, expected: list[float]) -> None:
    batch = text([101, 7, 7, 9, 102], special=(0, 4), marks=(3,))
    rows = block([[0.1, 0.3, 0.1, 0.3, 0.2], [0.25, 0.125, 0.125, 0.25, 0.25]], first_row=1)
    assert measure(name, rows, batch) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["delimiter", "punctuation", "duplicate_token", "induction"])
def test_a_row_that_can_reach_no_such_token_has_no_number(name: str) -> None:
    none = measure(name, block([[0.5, 0.5]]), text([3, 4]))
    hidden = measure(
        name, block([[1.0, 0.0, 0.0]], allowed=[[True, False, False]]), text([5, 5, 6], (), (1, 2))
    )
    assert none[0] != none[0] and hidden[0] != hidden[0]


def test_nothing_comes_after_the_last_token() -> None:
    found = measure("induction", block([[0.5, 0.2, 0.3]]), text([5, 6, 5]))
    assert found[0] != found[0]


def test_what_keys_receive_is_even_at_0_and_all_on_one_at_1() -> None:
    received = registry.load("metrics", "received")
    batch = text([1, 2])
    alike, one = block([[0.25, 0.75], [0.75, 0.25]]), block([[0.0, 1.0], [0.0, 1.0]])
    found = [float(received.finish(received.collect(rows, batch), batch)) for rows in (alike, one)]
    assert found == pytest.approx([0.0, 1.0])


def test_monotonicity_is_1_on_a_diagonal_and_minus_1_on_an_anti_diagonal() -> None:
    monotonicity, batch = registry.load("metrics", "monotonicity"), text([1, 2, 3, 4])
    eye = torch.eye(4)
    blocks = [block(rows.tolist()) for rows in (eye, eye.flip(0), torch.full((4, 4), 0.25))]
    found = [float(monotonicity.finish(monotonicity.collect(rows, batch), batch)) for rows in blocks]
    assert found[:2] == pytest.approx([1.0, -1.0]) and found[2] != found[2]


def test_two_heads_alike_overlap_by_1_and_two_apart_by_0() -> None:
    vectors = registry.load("metrics", "similarity").vectors
    batch = text([1, 2])
    left, right, half = (vectors(block(rows), batch)[0, 0] for rows in
                         ([[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.5]]))  # fmt: skip
    assert [float((left * left).sum()), float((left * right).sum())] == [1.0, 0.0]
    assert float((left * half).sum()) == pytest.approx(0.5**0.5)


@pytest.mark.parametrize("name", OF_ROWS)
def test_a_row_without_any_weight_has_no_number(name: str) -> None:
    batch = text([3, 3, 3, 3], special=(), marks=(0, 1))
    if name == "delimiter":
        batch = text([3, 3], special=(0, 1))
    rows = block([[0.0, 0.0], [0.5, 0.5]], first_row=0, allowed=[[False, False], [True, True]])
    found = measure(name, rows, batch)
    assert found[0] != found[0]
    if name != "next_token":
        assert found[1] == found[1]


@pytest.mark.parametrize("name", PER)
def test_a_metric_says_what_it_is_for(name: str) -> None:
    attributes = registry.entries("metrics")[name].attributes
    assert set(attributes["kinds"]) <= set(KINDS)
    assert attributes["unit"] in ("bits", "tokens", "keys", "weight", "share")
    assert attributes["per"] in ("row", "text", "pair")
    assert attributes.get("null") in (None, "chance", "places", "pairs", "shuffled")
    assert ("offset" in attributes) == (attributes.get("null") == "pairs")
    assert "label" not in attributes or attributes["unit"] == "weight"


def test_what_lies_outside_a_window_has_no_number() -> None:
    late = block([[0.5, 0.5], [0.25, 0.75]], first_row=7, first_key=6)
    assert measure("self", late)[0] == 0.5
    assert measure("previous_token", late) == [0.5, 0.75]
    assert all(number != number for number in measure("first_token", late))


def test_the_first_token_stands_behind_the_padding_on_its_left() -> None:
    one = text([1, 2, 3])
    present = torch.tensor([[True, True, True], [False, True, True]])
    axis = replace(one.queries, ids=one.queries.ids.repeat(2, 1), present=present)
    batch = Batch(axis, axis, present)
    weights = torch.tensor([[[[0.5, 0.3, 0.2]]], [[[0.0, 0.4, 0.6]]]])
    rows = WeightBlock(LAYER, (0,), range(2, 3), weights, present[:, None, None])
    assert registry.load("metrics", "first_token").measure(rows, batch).flatten().tolist() == pytest.approx(
        [0.5, 0.4]
    )


def test_entropy_leaves_out_what_a_sink_takes() -> None:
    assert measure("entropy", block([[0.25, 0.25, 0.0]])) == pytest.approx([1.0], abs=1e-6)


def test_entropy_from_scores_is_entropy_from_weights() -> None:
    scores = torch.tensor([[[[3.0, -2.0, 40.0, 39.0], [-90.0, 0.0, 90.0, -1e30]]]])
    weights = scores.softmax(-1)
    plain = WeightBlock(LAYER, (0,), range(2), weights, None)
    known = WeightBlock(LAYER, (0,), range(2), weights, None, scores=scores, sums=weights.sum(-1))
    assert measure("entropy", known) == pytest.approx(measure("entropy", plain), abs=1e-5)


def test_distance_counts_keys_behind_the_rows_too() -> None:
    rows = [[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]]
    by_hand = [sum(w * abs(i - j) for j, w in enumerate(row)) for i, row in enumerate(rows, start=1)]
    assert measure("distance", block(rows, first_row=1)) == pytest.approx(by_hand, abs=1e-6)


def test_span_is_exact_far_from_the_row() -> None:
    wide = torch.zeros(1, 1, 1, 500)
    wide[..., 0], wide[..., 1] = 0.999, 0.001
    rows = WeightBlock(LAYER, (0,), range(499, 500), wide, None)
    assert measure("span", rows) == pytest.approx([(0.999 * 0.001) ** 0.5], rel=1e-4)
