"""What streaming observers keep is what the whole matrix has, however it is cut into blocks."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.attention.operation import AttentionOperation
from attncli.capture.blocks import BlockFeed
from attncli.errors import UsageError
from attncli.observers.allowed_keys import AllowedSpans
from attncli.observers.masks import MaskOnly
from attncli.observers.pooled import PooledPicture
from attncli.observers.selection import Selection, parse_selection
from attncli.observers.strongest import NO_KEY, StrongestKeys, strongest
from attncli.observers.weights import FullWeights
from attncli.record import AttentionLayer

HEADS, QUERY, KEY, DIM, LAYERS = 4, 13, 17, 5, 2
ALL = Selection("layer"), Selection("head")
METRICS = ("entropy", "maximum", "distance", "self", "previous_token", "first_token")
cuts = st.tuples(st.integers(4, 3000), st.sampled_from([0, 512]))
"""How large blocks may be in bytes, and whether the plain form or tiles make them."""


def operation(layer: int) -> AttentionOperation:
    """Layer 0 is causal, layer 1 sees a window and has sinks."""
    generator = torch.Generator().manual_seed(layer)
    query, key = (
        torch.randn(1, HEADS, QUERY, DIM, generator=generator),
        torch.randn(1, 2, KEY, DIM, generator=generator),
    )
    made = AttentionOperation(query, key, None, scale=0.9, causal_offset=0)
    if layer == 0:
        return made
    near = torch.tensor([[0 <= i + 2 - j < 6 for j in range(KEY)] for i in range(QUERY)])[None, None]
    return replace(made, mask=near, causal_offset=None, sink=torch.linspace(-1, 1, HEADS))


def emit(observers: Sequence, cut: tuple[int, int] = (2**20, 512)) -> None:
    emitter = BlockFeed(list(observers), block_bytes=cut[0], dense_keys=cut[1])
    for layer in range(LAYERS):
        emitter.emit(AttentionLayer("decoder", layer, HEADS, 2, ""), operation(layer), None, "scratch")


def whole(layer: int) -> tuple[np.ndarray, np.ndarray]:
    """Give all weights and what is allowed."""
    used = operation(layer)
    weights = used.weights(range(HEADS), slice(0, QUERY))[0]
    allowed = used.allowed(range(HEADS), slice(0, QUERY))
    assert allowed is not None
    return weights.numpy(), allowed.expand(1, HEADS, -1, -1)[0].numpy()


@given(cuts)
@settings(max_examples=20, deadline=None)
def test_masks_and_their_runs_do_not_depend_on_blocks(cut: tuple[int, int]) -> None:
    masks = MaskOnly("decoder", ALL[0], LAYERS, QUERY, KEY)
    some = parse_selection("3,0", "head")
    runs = AllowedSpans("decoder", ALL[0], some, LAYERS, QUERY, KEY, range(2, 11))
    emit([masks, runs], cut)
    assert [layers for layers, _ in masks.groups()] == [(0,), (1,)]
    for layer, (_, mask) in enumerate(masks.groups()):
        expected = whole(layer)[1][3]
        np.testing.assert_array_equal(mask, expected)
        back = np.zeros_like(expected)
        for row, spans in enumerate(runs.spans(layer, 3), 2):
            for first, last in spans:
                back[row, first : last + 1] = True
        np.testing.assert_array_equal(back[2:11], expected[2:11])


def test_a_mask_that_forbids_nothing_has_no_runs_and_heads_may_differ() -> None:
    runs = AllowedSpans("decoder", *ALL, 1, QUERY, KEY)
    free = replace(operation(0), causal_offset=None)
    BlockFeed([runs]).emit(AttentionLayer("decoder", 0, HEADS, 2, ""), free, None, "scratch")
    assert runs.spans(0, 1) is None
    holes = torch.ones(1, HEADS, QUERY, KEY, dtype=torch.bool)
    holes[0, 1, 4, 3:5] = False
    runs = AllowedSpans("decoder", *ALL, 1, QUERY, KEY)
    BlockFeed([runs]).emit(
        AttentionLayer("decoder", 0, HEADS, 2, ""), replace(free, mask=holes), None, "scratch"
    )
    assert runs.spans(0, 1)[4].tolist() == [[0, 2], [5, 16]] and runs.spans(0, 2) is None


@given(cuts)
@settings(max_examples=20, deadline=None)
def test_full_weights_do_not_depend_on_blocks(cut: tuple[int, int]) -> None:
    kept = FullWeights("decoder", *ALL, LAYERS, QUERY, KEY)
    mean = FullWeights(
        "decoder", ALL[0], parse_selection("3,0:mean", "head"), LAYERS, QUERY, KEY, [9, 2], [0, 8, 3]
    )
    emit([kept, mean], cut)
    for layer in range(LAYERS):
        weights, allowed = whole(layer)
        ours = kept.matrices()[layer * HEADS : (layer + 1) * HEADS]
        np.testing.assert_allclose(np.stack([m.values for m in ours]), weights, atol=1e-6)
        np.testing.assert_array_equal(np.stack([m.allowed for m in ours]), allowed)
        part = weights[[3, 0]].mean(0)[[9, 2]][:, [0, 8, 3]]
        np.testing.assert_allclose(mean.matrices()[layer].values, part, atol=1e-6)
        np.testing.assert_array_equal(mean.matrices()[layer].allowed, allowed[0][[9, 2]][:, [0, 8, 3]])


@given(cuts, st.integers(1, 20))
@settings(max_examples=20, deadline=None)
def test_strongest_keys_do_not_depend_on_blocks(cut: tuple[int, int], count: int) -> None:
    kept = StrongestKeys(
        "decoder", count, ALL[0], parse_selection("3,1", "head"), LAYERS, QUERY, range(2, 11)
    )
    emit([kept], cut)
    for layer in range(LAYERS):
        weights, allowed = whole(layer)
        found = kept.strongest()[layer]
        for place, head in enumerate((3, 1)):
            for row in range(2, 11):
                keys = sorted(np.flatnonzero(allowed[head, row]), key=lambda key: -weights[head, row, key])[
                    :count
                ]
                assert found.keys[place, row - 2].tolist() == keys + [NO_KEY] * (count - len(keys))
                np.testing.assert_allclose(
                    found.weights[place, row - 2][: len(keys)], weights[head, row, keys], atol=1e-6
                )


@pytest.mark.parametrize("width", [64, 333, 1000])
def test_a_search_by_combs_finds_what_a_stable_sort_finds_with_ties_and_zeros(width: int) -> None:
    generator = torch.Generator().manual_seed(width)
    weights = torch.randint(0, 12, (2, 40, width), generator=generator).float() / 12
    weights[:, 20:] = torch.rand(2, 20, width, generator=generator)
    weights[:, 5, 3:] = 0.0
    places, values = strongest(weights, None, 3)
    order = torch.sort(weights, dim=-1, descending=True, stable=True)
    assert torch.equal(places, order.indices[..., :3]) and torch.equal(values, order.values[..., :3])


def test_forbidden_keys_are_never_among_the_strongest_of_a_wide_row() -> None:
    weights, allowed = torch.zeros(1, 2, 900), torch.zeros(1, 2, 900, dtype=torch.bool)
    allowed[0, :, 7], allowed[0, 1, 500], weights[0, 0, 7], weights[0, 1, 500] = True, True, 1.0, 1.0
    places, values = strongest(weights, allowed, 2)
    assert places.tolist() == [[[7, -1], [500, 7]]]
    assert values[0, 1].tolist() == [1.0, 0.0] and bool(values[0, 0, 1].isnan())


def by_hand(weights: np.ndarray, allowed: np.ndarray, name: str) -> np.ndarray:
    """Measure ``(heads, query, key)`` weights with plain formulas."""
    total = weights.sum(-1)
    i, j = np.arange(QUERY)[:, None], np.arange(KEY)
    share = weights / total[..., None]
    if name == "entropy":
        return -(share * np.log2(share, where=share > 0, out=np.zeros_like(share))).sum(-1)
    if name == "maximum":
        return weights.max(-1)
    if name == "distance":
        return (share * abs(i - j)).sum(-1)
    key = {"self": i[:, 0], "previous_token": i[:, 0] - 1, "first_token": 0 * i[:, 0]}[name]
    found = np.where(allowed[:, i[:, 0], key], weights[:, i[:, 0], key], np.nan)
    return np.where(key < 0, np.nan, found)


@pytest.mark.parametrize("how", ["max", "mean"])
@pytest.mark.parametrize("heads", ["all", "3,1:mean"])
@given(cut=cuts, side=st.integers(1, 20))
@settings(max_examples=12, deadline=None)
def test_a_pooled_picture_does_not_depend_on_blocks(
    how: str, heads: str, cut: tuple[int, int], side: int
) -> None:
    kept = PooledPicture("decoder", ALL[0], parse_selection(heads, "head"), LAYERS, QUERY, KEY, how, side)
    emit([kept], cut)
    assert len(kept.query_starts) == min(side, QUERY) and len(kept.key_starts) == min(side, KEY)
    query_cuts, key_cuts = [*kept.query_starts, QUERY], [*kept.key_starts, KEY]
    for number, matrix in enumerate(kept.matrices()):
        weights, allowed = whole(matrix.layer)
        one, may = (
            (weights[[3, 1]].mean(0), allowed[3]) if heads != "all" else (weights[matrix.head], allowed[0])
        )
        for row, (top, low) in enumerate(pairwise(query_cuts)):
            for column, (left, right) in enumerate(pairwise(key_cuts)):
                cell, here = one[top:low, left:right], may[top:low, left:right]
                expected = cell.max() if how == "max" else cell.sum() / max(here.sum(), 1)
                assert matrix.values[row, column] == pytest.approx(expected, abs=1e-6), number
                assert matrix.allowed is None or matrix.allowed[row, column] == here.any()


def test_a_mean_over_layers_is_pooled_by_mean_and_refused_by_max() -> None:
    layers = parse_selection("mean", "layer")
    kept = PooledPicture("decoder", layers, parse_selection("0", "head"), LAYERS, QUERY, KEY, "mean", 1)
    emit([kept])
    counted = [weights[0].sum() / allowed[0].sum() for weights, allowed in map(whole, range(LAYERS))]
    assert kept.matrices()[0].values[0, 0] == pytest.approx(np.mean(counted), abs=1e-6)
    with pytest.raises(UsageError, match="cannot be had without all the weights"):
        PooledPicture("decoder", layers, ALL[1], LAYERS, QUERY, KEY, "max")
