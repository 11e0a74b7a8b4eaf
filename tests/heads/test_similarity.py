"""Which heads do the same."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attncli.heads import similarity as overlap
from attncli.heads.metrics import positions_only
from attncli.heads.similarity import HeadOverlap, clusters, nearest
from attncli.observers.selection import Selection
from attncli.record import AttentionLayer, WeightBlock

LAYERS = [AttentionLayer("encoder", layer, 3, 3) for layer in range(2)]


def weights(layer: int) -> torch.Tensor:
    dice = torch.Generator().manual_seed(layer)
    return (2 * torch.randn(1, 3, 5, 5, generator=dice)).softmax(-1)


def added_up(rows: int = 5, heads: int = 3) -> HeadOverlap:
    """Two layers in blocks of so many rows and heads."""
    kept = HeadOverlap("encoder", Selection("layer"), Selection("head"), 2)
    kept.begin(positions_only(5))
    for layer in LAYERS:
        kept.request(layer)
        for row in range(0, 5, rows):
            for head in range(0, 3, heads):
                part = weights(layer.index)[:, head : head + heads, row : row + rows]
                names = tuple(range(head, min(head + heads, 3)))
                kept.update(WeightBlock(layer, names, range(row, min(row + rows, 5)), part, None))
    kept.commit()
    return kept


def test_heads_of_all_layers_are_held_against_each_other_row_by_row() -> None:
    kept = added_up()
    root = np.concatenate([weights(0)[0].numpy(), weights(1)[0].numpy()]) ** 0.5
    expected = np.einsum("aik,bik->ab", root, root) / 5
    np.testing.assert_allclose(kept.overlaps(), expected, atol=1e-6)
    assert kept.found[4] == (1, 1) and kept.rows == 5


@pytest.mark.parametrize(("rows", "heads"), [(1, 3), (2, 1), (3, 2)])
def test_it_does_not_depend_on_blocks(rows: int, heads: int) -> None:
    np.testing.assert_allclose(added_up(rows, heads).overlaps(), added_up().overlaps(), atol=1e-6)


def test_of_long_texts_every_few_rows_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "MOST_VALUES", 80)  # 150 weights: every second row
    kept = added_up(2, 1)
    root = weights(0)[0].numpy() ** 0.5
    expected = np.einsum("ik,ik->", root[0][::2], root[2][::2]) / 3
    assert kept.rows == 3 and kept.overlaps()[0, 2] == pytest.approx(expected, abs=1e-6)


def test_special_tokens_can_be_left_out_of_the_keys() -> None:
    """Two heads that part their weight alike between plain tokens are the same, whatever a special one takes."""
    weights = torch.tensor([[[[0.6, 0.3, 0.1]], [[0.0, 0.75, 0.25]], [[1.0, 0.0, 0.0]]]])
    plain = positions_only(1, 3)
    batch = replace(plain, keys=replace(plain.keys, special=torch.tensor([[True, False, False]])))
    found = {}
    for exclude in (False, True):
        kept = HeadOverlap("cross", Selection("layer"), Selection("head"), 1, exclude)
        kept.begin(batch)
        kept.request(layer := AttentionLayer("cross", 0, 3, 3))
        kept.update(WeightBlock(layer, (0, 1, 2), range(1), weights, None))
        kept.commit()
        found[exclude] = kept.overlaps()[:2, 1:]
    np.testing.assert_allclose(found[False], [[0.4**0.5, 0.6**0.5], [1, 0]], atol=1e-6)
    np.testing.assert_allclose(found[True], [[1, 0], [1, 0]], atol=1e-6)


def test_a_pass_that_was_broken_off_does_not_count() -> None:
    kept = added_up()
    before = kept.overlaps().copy()
    kept.begin(positions_only(5))
    kept.request(LAYERS[0])
    kept.begin(positions_only(5))
    kept.commit()
    assert (kept.overlaps() == before).all()


def test_clusters_hold_heads_of_which_each_two_are_alike() -> None:
    alike = np.array([[1, 0.95, 0.8, 0], [0.95, 1, 0.95, 0], [0.8, 0.95, 1, 0.9], [0, 0, 0.9, 1]])
    assert clusters(alike, 0.9) == [[0, 1], [2, 3]]
    assert clusters(alike, 0.99) == []
    assert nearest(alike) == [(1, 0.95), (0, 0.95), (1, 0.95), (2, 0.9)]
