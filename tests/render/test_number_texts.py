"""Numbers as text: the shortest decimals that read back as the same float32."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from render_samples import grid

from attncli.render import Options, json_format
from attncli.render.grid_text import float_texts

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(arrays(np.float32, st.integers(0, 30), elements=FLOATS))
@settings(deadline=None)
def test_any_number_reads_back_as_itself_and_no_shorter_decimal_does(values: np.ndarray) -> None:
    texts = float_texts(values)
    np.testing.assert_array_equal(np.array(texts, np.float32), values)
    assert [float(text) for text in texts] == [float(str(value + np.float32(0))) for value in values]


def test_minus_zero_is_zero_and_what_is_undefined_is_nan() -> None:
    assert float_texts([-0.0, float("nan"), 1]) == ["0.0", "nan", "1.0"]


def test_the_json_of_a_large_matrix_reads_back_bit_by_bit() -> None:
    view = grid([str(index) for index in range(131)], causal=True)
    found = json.loads(json_format.render(view, Options()))["attention"][0]["weights"]
    np.testing.assert_array_equal(np.array(found, np.float32), view.matrices[0].values)
