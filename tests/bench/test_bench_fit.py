import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.bench.fit import find_crossover, fit_power

LENGTHS = [512, 1024, 2048, 4096]


@given(st.floats(0.5, 3.0), st.floats(1e-9, 1e-3))
def test_a_power_law_is_found_again(exponent: float, scale: float) -> None:
    fit = fit_power(LENGTHS, [scale * n**exponent for n in LENGTHS])
    assert fit is not None and fit.lengths == 4
    assert (fit.exponent, fit.scale) == (pytest.approx(exponent), pytest.approx(scale))
    assert fit.stderr == pytest.approx(0, abs=1e-6)


def test_the_standard_error_is_that_of_least_squares() -> None:
    # By hand: x = 0, 1, 2 (in units of ln 2), y = 0, 2, 2; slope 1, residuals −1/3, 2/3, −1/3; √((2/3)/1/2) = 0.577.
    fit = fit_power([1, 2, 4], [1.0, 4.0, 4.0])
    assert fit is not None
    assert (fit.exponent, fit.stderr) == (pytest.approx(1.0), pytest.approx(0.57735, abs=1e-5))


def test_times_near_the_overhead_take_no_part() -> None:
    seconds = [0.0011, 0.01, 0.02, 0.04]
    fit = fit_power(LENGTHS, seconds, overhead=0.001)
    assert fit is not None and (fit.from_seq_len, fit.exponent) == (1024, pytest.approx(1.0))
    assert fit_power(LENGTHS, seconds, overhead=0.003) is None


def test_a_first_length_of_another_regime_is_left_out_while_three_remain() -> None:
    window = [1.0, 4.0, 8.0, 16.0]  # quadratic while the window is wider than the text, then linear
    fit = fit_power(LENGTHS, window)
    assert fit is not None and (fit.from_seq_len, fit.exponent) == (1024, pytest.approx(1.0))
    short = fit_power(LENGTHS[:3], window[:3])
    assert short is not None and (short.from_seq_len, short.stderr) == (
        512,
        pytest.approx(0.288675, abs=1e-5),
    )


def test_two_lengths_fit_nothing() -> None:
    assert fit_power([512, 1024], [1.0, 2.0]) is None


def test_a_crossover_is_interpolated_in_logarithms() -> None:
    found = find_crossover([1, 4, 16], [4.0, 2.0, 0.5], [(3, 5), (1.5, 2.5), (0.4, 0.6)])
    assert found is not None and found.seq_len == pytest.approx(8.0)
    low, high = found.interval
    assert low is not None and high is not None and 4 < low < 8 < high < 16


@pytest.mark.parametrize(
    ("ratios", "last"),
    [([0.5, 0.4], (0.3, 0.5)), ([2.0, 1.5], (1.4, 1.6)), ([2.0, 0.9], (0.8, 1.1)), ([2.0, 0.9], None)],
    ids=["always faster", "never faster", "not surely faster", "not known"],
)
def test_without_a_sure_change_there_is_no_crossover(
    ratios: list[float], last: tuple[float, float] | None
) -> None:
    assert find_crossover([512, 1024], ratios, [None, last]) is None


def test_an_end_outside_of_what_was_measured_is_unknown() -> None:
    found = find_crossover([512, 1024], [1.1, 0.5], [(0.9, 1.3), (0.4, 0.6)])
    assert found is not None and found.interval[0] is None and found.interval[1] is not None


def test_of_several_changes_the_last_counts() -> None:
    ratios = [2.0, 0.5, 2.0, 0.5]
    found = find_crossover(LENGTHS, ratios, [(r * 0.9, r * 1.1) for r in ratios])
    assert found is not None and 2048 < found.seq_len < 4096
