import math

import torch

from attncli.maps.comparison import compare, divergence_bits
from attncli.models.scratch import ScratchSource


def test_the_divergence_of_a_row_is_that_of_the_definition() -> None:
    p, q = torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[0.2, 0.3, 0.5]])
    expected = 0.5 * math.log2(0.5 / 0.2) + 0.5 * math.log2(0.5 / 0.3)
    assert math.isclose(float(divergence_bits(p, q)), expected, abs_tol=1e-6)


def test_the_relative_error_is_that_of_the_outputs() -> None:
    source = ScratchSource("one two three four five", heads=2)
    (found,) = compare(
        source.first_projections(), ["sliding-window"], ["sliding-window.window=1"], causal=False, head=1
    )
    query, key, value = (tensor.double() for tensor in source.first_projections())
    full = torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), dim=-1) @ value
    # a window of one key: each position keeps its own value
    assert math.isclose(found.relative_error, float((value - full).norm() / full.norm()), rel_tol=1e-9)
    assert math.isclose(found.max_abs_error, float((value - full).abs().max()), rel_tol=1e-9)
    assert found.weights.tolist() == torch.eye(5).tolist()
