import math

import pytest

from attncli.heads.labels import _labels
from attncli.heads.scores import Number, Thresholds


@pytest.mark.parametrize(
    ("mean", "stderr", "named"),
    [(0.8, 0.0, True), (0.8, 0.24, True), (0.8, 0.26, False), (0.8, math.nan, True), (0.44, 0.0, False)],
)
def test_a_name_takes_an_excess_above_the_threshold_and_three_standard_errors(
    mean: float, stderr: float, named: bool
) -> None:
    """The null is .05: an excess of .75 is three times .25."""
    numbers = {"previous_token": Number(mean, stderr, 0.05, 0.05, math.nan, 9)}
    assert _labels(numbers, Thresholds()) == (("previous_token",) if named else ())


def test_the_name_with_the_largest_excess_comes_first_and_thresholds_may_be_changed() -> None:
    numbers = {
        "previous_token": Number(0.6, 0.01, 0.0, 0.0, math.nan, 9),
        "first_token": Number(0.9, 0.01, 0.1, 0.1, math.nan, 9),
    }
    both = _labels(numbers, Thresholds())
    assert len(both) == 2 and both[1] == "previous_token"
    assert _labels(numbers, Thresholds({"first_token": 0.85})) == ("previous_token",)
