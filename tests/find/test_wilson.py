import math

import pytest

from attncli.find.wilson import Share


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_intervals_are_those_that_newcombe_prints(hits: int, of: int, low: float, high: float) -> None:
    """Newcombe 1998, Statistics in Medicine 17, table I, method 3."""
    assert Share(hits, of).interval == pytest.approx((low, high), abs=5e-5)


def test_an_interval_is_the_same_from_the_other_side_and_stays_between_0_and_1() -> None:
    low, high = Share(5, 7).interval
    assert Share(2, 7).interval == pytest.approx((1 - high, 1 - low))
    assert Share(7, 7).interval[1] == 1.0


def test_of_nothing_nothing_is_known() -> None:
    assert math.isnan(Share(0, 0).value) and Share(0, 0).interval == (0.0, 1.0)
