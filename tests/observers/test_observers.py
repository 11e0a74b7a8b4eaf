import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.attention.operation import AttentionOperation
from attncli.capture.blocks import BlockFeed
from attncli.errors import TooLargeError
from attncli.observers.masks import MaskOnly
from attncli.observers.pooled import PooledPicture
from attncli.observers.selection import parse_selection
from attncli.observers.weights import FullWeights
from attncli.record import AttentionLayer

HEADS, QUERIES, KEYS, DIM = 4, 7, 7, 5


def operation(seed: int = 0, *, causal: bool = True) -> AttentionOperation:
    generator = torch.Generator().manual_seed(seed)
    draw = [torch.randn(1, HEADS if i == 0 else 2, QUERIES, DIM, generator=generator) for i in range(3)]
    return AttentionOperation(*draw, scale=0.4, causal_offset=0 if causal else None)


def emit(observers: list, *, layers: int = 3, block_bytes: int = 2**20, causal: bool = True) -> None:
    emitter = BlockFeed(observers, block_bytes=block_bytes)
    for layer in range(layers):
        emitter.emit(
            AttentionLayer("decoder", layer, HEADS, 2, ""), operation(layer, causal=causal), None, "scratch"
        )


def full(layers: str = "all", heads: str = "all", **more) -> FullWeights:
    chosen = parse_selection(layers, "layer"), parse_selection(heads, "head")
    return FullWeights("decoder", *chosen, 3, QUERIES, KEYS, **more)


def expected(layer: int) -> np.ndarray:
    return operation(layer).weights(range(HEADS), slice(0, QUERIES))[0].numpy()


def test_weights_of_a_selection_are_those_of_the_operation_with_true_names() -> None:
    kept = full("0,2", "3,1")
    emit([kept])
    assert [(m.layer, m.head, m.kv_head) for m in kept.matrices()] == [
        (0, 3, 1),
        (0, 1, 0),
        (2, 3, 1),
        (2, 1, 0),
    ]
    np.testing.assert_array_equal(kept.matrices()[2].values, expected(2)[3])
    assert kept.matrices()[0].allowed is not None
    np.testing.assert_array_equal(kept.matrices()[0].allowed, np.tri(QUERIES, dtype=bool))


@given(st.integers(1, 4000))
@settings(max_examples=25, deadline=None)
def test_the_size_of_blocks_changes_nothing(block_bytes: int) -> None:
    small, whole = (
        full("1", "0,2", rows=[5, 1, 6], keys=[0, 4]),
        full("1", "0,2", rows=[5, 1, 6], keys=[0, 4]),
    )
    emit([small], block_bytes=block_bytes)
    emit([whole])
    for ours, theirs in zip(small.matrices(), whole.matrices(), strict=True):
        np.testing.assert_allclose(ours.values, theirs.values, atol=1e-7)
        np.testing.assert_array_equal(ours.allowed, theirs.allowed)


def test_picked_rows_and_keys_come_in_the_order_asked_for() -> None:
    kept = full("1", "0", rows=[5, 1], keys=[4, 0])
    emit([kept], block_bytes=100)
    np.testing.assert_allclose(kept.matrices()[0].values, expected(1)[0][[5, 1]][:, [4, 0]], atol=1e-7)


def test_means_over_heads_and_layers_are_means() -> None:
    heads, layers, both = full("1", "0,3:mean"), full("mean", "2"), full("0-1:mean", "mean")
    emit([heads, layers, both])
    np.testing.assert_allclose(heads.matrices()[0].values, expected(1)[[0, 3]].mean(0), atol=1e-7)
    np.testing.assert_allclose(
        layers.matrices()[0].values, np.mean([expected(i)[2] for i in range(3)], 0), atol=1e-7
    )
    np.testing.assert_allclose(
        both.matrices()[0].values, (expected(0).mean(0) + expected(1).mean(0)) / 2, atol=1e-7
    )
    assert (both.matrices()[0].layer, both.matrices()[0].head) == ("mean", "mean")


def test_a_small_answer_is_taken_without_asking_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("attncli.memory.available_bytes", lambda: asked.append(1))
    emit([full()])
    assert not asked
    monkeypatch.setattr("attncli.memory.UNASKED", 12 * QUERIES * KEYS * 5)
    emit([full()])
    assert asked


def test_an_answer_that_does_not_fit_in_memory_is_refused_with_the_arithmetic() -> None:
    kept = full(memory=lambda: 1000)
    with pytest.raises(
        TooLargeError, match=r"12 maps of 7×7 weights: 2\.87 KiB needed; 1e\+03 B are free"
    ) as caught:
        emit([kept])
    assert caught.value.exit_code == 5
    assert "--layer" in str(caught.value.hint)


def test_what_a_weight_takes_while_it_is_written_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.memory.UNASKED", 0)
    monkeypatch.setattr("attncli.memory.available_bytes", lambda: 12 * QUERIES * KEYS * 8)
    emit([full(written=3)])
    with pytest.raises(TooLargeError):
        emit([full(written=4)])


def test_pictures_that_do_not_fit_in_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = parse_selection("all", "layer"), parse_selection("all", "head")
    monkeypatch.setattr("attncli.memory.UNASKED", 0)
    monkeypatch.setattr("attncli.memory.available_bytes", lambda: 3 * 25 * (4 * HEADS + 8) - 1)
    with pytest.raises(TooLargeError, match="12 pooled maps of 7×7: 1\\.76 KiB needed"):
        emit([PooledPicture("decoder", *everything, 3, QUERIES, KEYS, side=5)])


def test_all_layers_of_a_hybrid_model_are_those_that_have_attention() -> None:
    kept = full("all")
    emit([kept], layers=2)
    assert {matrix.layer for matrix in kept.matrices()} == {0, 1}


def test_layers_with_the_same_mask_are_told_together() -> None:
    kept = MaskOnly("decoder", parse_selection("all", "layer"), 3, QUERIES, KEYS)
    emitter = BlockFeed([kept], block_bytes=100)
    for layer, causal in enumerate((True, False, True)):
        emitter.emit(
            AttentionLayer("decoder", layer, HEADS, 2, ""), operation(layer, causal=causal), None, "scratch"
        )
    groups = kept.groups()
    assert [layers for layers, _ in groups] == [(0, 2), (1,)]
    np.testing.assert_array_equal(groups[0][1], np.tri(QUERIES, dtype=bool))
    assert groups[1][1].all() and groups[1][1].shape == (QUERIES, KEYS)
