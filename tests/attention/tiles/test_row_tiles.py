"""Tiles of weights are the plain form's weights, wherever they are cut."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.attention.operation import AttentionOperation
from attncli.attention.tiles.row_tiles import NEVER, RowTiles

BATCH, HEADS, KV_HEADS, QUERY, KEY, HEAD_DIM = 2, 6, 3, 7, 11, 4


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def operation(**changes) -> AttentionOperation:
    query, key = random(BATCH, HEADS, QUERY, HEAD_DIM), random(BATCH, KV_HEADS, KEY, HEAD_DIM, seed=1)
    plain = AttentionOperation(query, key, key, scale=0.7)
    return dataclasses.replace(plain, **changes)


window = torch.tensor([[0 <= i + 4 - j < 3 for j in range(KEY)] for i in range(QUERY)])[None, None]
some_pairs = random(BATCH, 1, QUERY, KEY, seed=3) < 0.5
cases = {
    "plain": dict(),
    "causal": dict(causal_offset=KEY - QUERY),
    "causal with rows before the first key": dict(causal_offset=-2),
    "window": dict(mask=window),
    "mask": dict(mask=some_pairs),
    "mask of heads": dict(mask=random(1, HEADS, QUERY, KEY, seed=4) < 0.3),
    "mask of keys": dict(mask=some_pairs[:, :, :1]),
    "causal and mask": dict(causal_offset=1, mask=some_pairs),
    "cap, bias, sink": dict(softcap=1.5, bias=random(1, 1, QUERY, KEY, seed=5), sink=random(HEADS, seed=7)),
    "bias of keys, sink, causal": dict(
        bias=random(BATCH, HEADS, 1, KEY, seed=6), sink=random(HEADS, seed=7), causal_offset=3
    ),
}


@pytest.mark.parametrize("case", cases)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_tiles_together_are_the_plain_weights_however_they_are_cut(case, data):
    used = operation(**cases[case])
    heads = tuple(sorted(data.draw(st.sets(st.integers(0, HEADS - 1), min_size=1))))
    start = data.draw(st.integers(0, QUERY - 1))
    stop = data.draw(st.integers(start + 1, QUERY))
    whole = used.weights(range(HEADS), slice(0, QUERY))
    allowed = used.allowed(range(HEADS), slice(0, QUERY))
    allowed = torch.ones_like(whole, dtype=torch.bool) if allowed is None else allowed.expand(whole.shape)
    made, may = torch.full_like(whole, torch.nan), torch.zeros_like(allowed)
    for tile in RowTiles(used, heads, start, stop, data.draw(st.integers(1, 2000))):
        assert bool(made[:, list(tile.heads), tile.rows].isnan().all())  # once, and no more
        made[:, list(tile.heads), tile.rows] = 0.0
        made[:, list(tile.heads), tile.rows, tile.keys] = tile.weights
        theirs = tile.allowed if tile.allowed is not None else torch.ones_like(tile.weights, dtype=torch.bool)
        may[:, list(tile.heads), tile.rows, tile.keys] = theirs
        torch.testing.assert_close(tile.sums, tile.weights.sum(-1), rtol=0, atol=1e-12)
    torch.testing.assert_close(made[:, heads, start:stop], whole[:, heads, start:stop], rtol=0, atol=1e-12)
    assert torch.equal(may[:, heads, start:stop], allowed[:, heads, start:stop])


@pytest.mark.parametrize("case", cases)
def test_the_weights_are_the_softmax_of_the_scores(case):
    used = operation(**cases[case])
    for tile in RowTiles(used, tuple(range(HEADS)), 0, QUERY, 100):
        if tile.allowed is not None:
            assert bool((tile.scores.masked_fill(tile.allowed, NEVER) == NEVER).all())
        with_weight = tile.weights > 0
        apart = torch.where(with_weight, tile.scores - tile.weights.log(), torch.nan)
        of_row = apart.nanmean(dim=-1, keepdim=True).expand(apart.shape)
        torch.testing.assert_close(apart[with_weight], of_row[with_weight], rtol=0, atol=1e-9)


def test_what_the_mask_rules_out_is_not_computed():
    causal = list(RowTiles(operation(causal_offset=0), (0,), 0, QUERY, KEY))
    assert [tile.keys for tile in causal] == [slice(0, row + 1) for row in range(QUERY)]
    windowed = list(RowTiles(operation(mask=window), (0,), 0, QUERY, KEY * BATCH))
    assert [tile.keys for tile in windowed] == [slice(row + 2, row + 5) for row in range(QUERY)]


def test_a_score_that_is_no_number_shows_in_the_sums():
    used = operation()
    used.key[0, 1, 5, 0] = torch.nan
    bad = torch.cat([tile.sums.isnan() for tile in RowTiles(used, tuple(range(HEADS)), 0, QUERY, 10**6)])
    assert bool(bad[0, 2:4].all()) and not bool(bad[0, :2].any()) and not bool(bad[1].any())
