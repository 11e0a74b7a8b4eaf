"""Measures do not depend on how rows are cut into blocks, and are refused where they could not be exact."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli.attention.operation import AttentionOperation
from attncli.capture.blocks import BlockFeed
from attncli.capture.layer_parts import LayerParts
from attncli.capture.measures import Measure, MeasureName
from attncli.capture.output_projection import OutputProjection, Sum
from attncli.errors import CaptureError
from attncli.observers.selection import parse_selection
from attncli.observers.weights import FullWeights
from attncli.record import AttentionLayer

N, HEADS, GROUPS, DIM, MODEL = 23, 6, 3, 5, 17
LAYER = AttentionLayer("decoder", 0, HEADS, GROUPS, "it")


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def operation() -> AttentionOperation:
    query, key, value = (numbers(1, heads, N, DIM, seed=i) for i, heads in enumerate((HEADS, GROUPS, GROUPS)))
    return AttentionOperation(query, key, value, scale=0.7, causal_offset=0)


def parts() -> LayerParts:
    weight, given = numbers(HEADS * DIM, MODEL, seed=4), numbers(N, HEADS * DIM, seed=5)
    projection = OutputProjection(weight, None, given, given @ weight, 0, None)
    stream = numbers(N, MODEL, seed=6)
    return LayerParts(projection, None, Sum(stream, stream, 1, None), None)


def shown(measure: Measure, **cut: int) -> NDArray[np.float32]:
    every, first = parse_selection("all", "head"), parse_selection("0", "layer")
    kept = FullWeights("decoder", first, every, 1, N, N)
    BlockFeed([kept], measure=measure, **cut).emit(LAYER, operation(), None, "scratch")
    return np.stack([matrix.values for matrix in kept.matrices()])


@pytest.mark.parametrize("name", ["value", "norm", "contribution"])
@pytest.mark.parametrize("cut", [{"block_bytes": 400}, {"dense_keys": 4, "block_bytes": 4000}])
def test_blocks_of_any_size_give_the_same(name: MeasureName, cut: dict[str, int]) -> None:
    measure = Measure(name, raw=True, parts={0: parts()})
    np.testing.assert_allclose(shown(measure, **cut), shown(measure), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["value", "norm", "contribution"])
def test_shares_sum_to_one_and_are_lengths_by_their_rows_sum(name: MeasureName) -> None:
    shares, sizes = (shown(Measure(name, raw, parts={0: parts()})) for raw in (False, True))
    assert sizes.shape[0] == (1 if name == "contribution" else HEADS)
    np.testing.assert_allclose(shares.sum(-1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(shares, sizes / sizes.sum(-1, keepdims=True), rtol=1e-5)


def test_the_first_tokens_share_of_the_weights_and_of_what_is_carried_are_means_over_rows_after_it() -> None:
    measure = Measure("norm", parts={0: parts()})
    shares, weights = shown(measure), operation().weights(range(HEADS), slice(0, N))[0].numpy()
    expected = [weights[:, [4, 7], 0].mean(), shares[:, [4, 7], 0].mean()]
    assert measure.first_token({0, 4, 7}) == pytest.approx(expected, rel=1e-5)
    assert replace(measure, from_start=False).first_token() is None


def without_sum() -> LayerParts:
    return replace(parts(), sum=None)


def gated() -> LayerParts:
    return replace(parts(), projection=replace(parts().projection, between="gate"))


@pytest.mark.parametrize(
    ("name", "found", "why"),
    [
        ("norm", None, "projection was not found"),
        ("norm", gated(), "a gate stands between"),
        ("contribution", without_sum(), "residual stream was not seen"),
        ("contribution", replace(parts(), unsure="no idea"), "no idea"),
    ],
)
def test_what_is_not_exact_is_refused_with_the_measure_that_is_left(
    name: MeasureName, found: LayerParts | None, why: str
) -> None:
    with pytest.raises(CaptureError, match=why) as refused:
        shown(Measure(name, parts={0: found}))
    assert refused.value.hint == f"--measure {'norm' if name == 'contribution' else 'value'}"


def test_weights_that_the_model_computes_by_itself_have_no_measure() -> None:
    feed = BlockFeed(
        [FullWeights("decoder", parse_selection("0", "layer"), parse_selection("all", "head"), 1, N, N)],
        measure=Measure("value"),
    )
    with pytest.raises(CaptureError, match="not to be seen"):
        feed.emit_weights(LAYER, torch.eye(N).expand(1, HEADS, N, N), None, "eager")
