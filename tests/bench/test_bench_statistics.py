import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.bench.statistics import (
    drift,
    interquartile_range,
    is_noise,
    median,
    median_uncertainty,
    noise_floor,
    paired_ratio,
    paired_ratio_interval,
)

times = st.lists(st.floats(1e-6, 1e3), min_size=3, max_size=30)


@given(times, st.floats(1e-3, 1e3))
def test_spread_scales_with_the_times_and_uncertainty_does_not(values: list[float], factor: float) -> None:
    scaled = [value * factor for value in values]
    assert median(scaled) == pytest.approx(median(values) * factor)
    assert interquartile_range(scaled) == pytest.approx(
        interquartile_range(values) * factor, abs=1e-9 * factor
    )
    assert median_uncertainty(scaled) == pytest.approx(median_uncertainty(values), rel=1e-6, abs=1e-9)


def test_a_ratio_is_taken_within_rounds_so_that_drift_cancels() -> None:
    machine = np.linspace(1.0, 3.0, 11)  # it becomes three times slower
    assert paired_ratio(list(0.5 * machine), list(machine)) == pytest.approx(0.5)
    interval = paired_ratio_interval(list(0.5 * machine), list(machine))
    assert interval == pytest.approx((0.5, 0.5))


def test_rounds_that_only_one_ran_play_no_part() -> None:
    assert paired_ratio([2.0, 2.0], [1.0, 1.0, 100.0]) == 2.0
    assert paired_ratio_interval([2.0, 2.0], [1.0, 1.0, 100.0]) is None


def test_the_interval_holds_the_true_ratio_about_as_often_as_it_promises() -> None:
    generator = np.random.default_rng(5)
    hits = 0
    for trial in range(200):
        ours, theirs = generator.lognormal(0, 0.1, (2, 25))
        low, high = paired_ratio_interval(list(2 * ours), list(theirs), seed=trial) or (0, 0)
        hits += low <= 2.0 <= high
    assert 0.88 <= hits / 200 <= 0.99


@given(times)
def test_the_interval_lies_within_the_ratios_and_around_their_median(values: list[float]) -> None:
    ones = [1.0] * len(values)
    low, high = paired_ratio_interval(values, ones) or (0, 0)
    assert min(values) <= low <= high <= max(values)


def test_equal_things_are_noise_and_clear_differences_are_not() -> None:
    assert noise_floor((0.95, 1.02)) == pytest.approx(1 / 0.95 - 1)
    assert is_noise(1.0, (0.97, 1.03), 0.0)
    assert is_noise(0.97, (0.96, 0.98), 0.05)
    assert not is_noise(0.90, (0.88, 0.92), 0.05)
    assert is_noise(0.5, None, 0.0) and math.isinf(noise_floor(None))


def test_drift_compares_the_last_third_with_the_first() -> None:
    assert drift([2.0, 2.0, 9.0, 9.0, 3.0, 3.0]) == 0.5
    assert drift([1.0, 2.0, 3.0]) == 0.0
