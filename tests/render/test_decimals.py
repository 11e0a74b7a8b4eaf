from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from render_samples import grid

from attncli.render import Options, json_format
from attncli.render.decimals import _between, number_texts, row_texts

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def without_minus_zero(values: np.ndarray) -> list[str]:
    """NumPy's own shortest decimals, one by one."""
    return [str(value + np.float32(0)) for value in values]


@given(arrays(np.float32, st.integers(0, 30), elements=FLOATS))
@settings(deadline=None)
def test_any_number_is_written_as_numpy_writes_it_alone(values: np.ndarray) -> None:
    assert number_texts(values) == without_minus_zero(values)


@pytest.mark.parametrize("seed", range(3))
def test_many_weights_are_written_in_the_fewest_digits(seed: int) -> None:
    generator = np.random.default_rng(seed)
    values = np.exp(generator.uniform(-33, 5, 7001)).astype(np.float32)
    values = np.concatenate([values, -values, generator.random(5003, np.float32)])
    assert number_texts(values) == without_minus_zero(values)


def test_powers_of_two_and_their_neighbours_are_exact() -> None:
    powers = (2.0 ** np.arange(-60, 20)).astype(np.float32)
    below = np.nextafter(powers, np.float32(0))
    for values in (
        powers,
        below,
        np.nextafter(powers, np.float32(np.inf)),
        np.float32(10) ** np.arange(-20, 9),
    ):
        assert number_texts(values.astype(np.float32)) == without_minus_zero(values.astype(np.float32))


def test_rows_stay_rows_over_the_edge_of_a_chunk() -> None:
    values = np.random.default_rng(1).random((37, 601), np.float32)
    rows = list(row_texts(values))
    assert [len(row) for row in rows] == [601] * 37
    np.testing.assert_array_equal(np.array(rows, np.float32), values)


def test_the_json_of_a_large_matrix_reads_back_bit_by_bit() -> None:
    view = grid([str(index) for index in range(131)], causal=True)
    found = json.loads(json_format.render(view, Options()))["attention"][0]["weights"]
    np.testing.assert_array_equal(np.array(found, np.float32), view.matrices[0].values)


def test_what_lies_right_between_two_float32_numbers_is_told_from_the_rest() -> None:
    one = np.float32(0.7)
    after = np.nextafter(one, np.float32(1))
    middle = (float(one) + float(after)) / 2
    found = _between(np.array([float(one), middle, np.nextafter(middle, 1), np.nextafter(middle, 0)]))
    assert found.tolist() == [False, True, False, False]
