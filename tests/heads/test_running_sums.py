"""Sums over texts, and the averages and errors that come from them."""

import numpy as np
import pytest

from attncli.heads.running_sums import RunningSums


def filled(texts: list[list[float]]) -> RunningSums:
    """One metric of one head over texts, each given by its rows' numbers."""
    tally = RunningSums.empty(1, 1)
    tally.add(np.array([[[sum(rows) for rows in texts]]]), np.array([[[float(len(rows)) for rows in texts]]]))
    return tally


def test_the_mean_is_over_rows_and_not_over_texts() -> None:
    assert filled([[1.0], [0.0, 0.0, 0.0], []]).means[0, 0] == 0.25


def test_the_standard_error_is_that_of_a_ratio_over_texts() -> None:
    texts = [[0.5, 0.25], [0.125], [1.0, 0.75, 0.5], [0.0, 0.5]]
    y, n = np.array([sum(rows) for rows in texts]), np.array([len(rows) for rows in texts])
    ratio = y.sum() / n.sum()
    expected = np.sqrt(4 / 3 * ((y - ratio * n) ** 2).sum()) / n.sum()
    assert filled(texts).standard_errors[0, 0] == pytest.approx(expected)


def test_texts_alike_have_no_error_and_one_text_has_none_known() -> None:
    assert filled([[0.5, 0.5], [0.5]]).standard_errors[0, 0] == 0
    assert np.isnan(filled([[0.5, 0.1]]).standard_errors[0, 0]) and np.isnan(filled([[]]).means[0, 0])


def test_two_halves_merge_to_the_whole_and_survive_a_file() -> None:
    import json

    whole, half = filled([[0.1, 0.2], [0.3], [0.7]]), filled([[0.1, 0.2]])
    half.merge(RunningSums.of_state(json.loads(json.dumps(filled([[0.3], [0.7]]).state())), 1, 1))
    np.testing.assert_allclose(half.sums, whole.sums, rtol=1e-15)


def test_sums_do_not_depend_on_how_texts_come_in_batches() -> None:
    dice = np.random.default_rng(1)
    values, counts = dice.random((3, 5, 7)), dice.integers(1, 9, (3, 5, 7)).astype(float)
    at_once, in_turn = RunningSums.empty(3, 5), RunningSums.empty(3, 5)
    at_once.add(values, counts)
    for part in (slice(0, 2), slice(2, 7)):
        in_turn.add(values[..., part], counts[..., part])
    assert (at_once.sums == in_turn.sums).all()


@pytest.mark.parametrize("state", [[[1.0]], [[[float("nan")]]] * 6, "words"])
def test_a_damaged_state_is_refused(state: object) -> None:
    with pytest.raises(ValueError):
        RunningSums.of_state(state, 1, 1)  # type: ignore[arg-type]
