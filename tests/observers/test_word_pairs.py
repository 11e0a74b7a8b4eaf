"""Weights between words are sums over keys and means over rows of the whole matrix, however it is cut into blocks."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.attention.operation import AttentionOperation
from attncli.capture.blocks import BlockFeed
from attncli.observers.selection import parse_selection
from attncli.observers.word_pairs import WordWeights
from attncli.record import AttentionLayer

HEADS, QUERY, KEY, DIM, LAYERS = 4, 13, 17, 5, 3
PAIRS = (
    (range(2, 5), range(0, 1)),
    (range(12, 13), range(3, 10)),
    (range(2, 5), range(11, 17)),
    (range(7, 8), range(7, 8)),
)


def operation(layer: int) -> AttentionOperation:
    generator = torch.Generator().manual_seed(layer)
    query = torch.randn(1, HEADS, QUERY, DIM, generator=generator)
    key = torch.randn(1, 2, KEY, DIM, generator=generator)
    return AttentionOperation(query, key, None, scale=0.9, causal_offset=None)


def kept(layers: str = "all", heads: str = "all", pairs: tuple = PAIRS) -> WordWeights:
    return WordWeights(
        "decoder", parse_selection(layers, "layer"), parse_selection(heads, "head"), LAYERS, pairs
    )


def emit(observer: WordWeights, block_bytes: int = 2**20, dense_keys: int = 512) -> WordWeights:
    emitter = BlockFeed([observer], block_bytes=block_bytes, dense_keys=dense_keys)
    for layer in range(LAYERS):
        emitter.emit(AttentionLayer("decoder", layer, HEADS, 2, ""), operation(layer), None, "scratch")
    return observer


def expected(layer: int, heads: list[int]) -> np.ndarray:
    weights = operation(layer).weights(range(HEADS), slice(0, QUERY))[0].numpy()[heads]
    parts = [weights[:, rows.start : rows.stop, keys.start : keys.stop] for rows, keys in PAIRS]
    return np.stack([part.sum(axis=2).mean(axis=1) for part in parts], axis=1)


def test_weights_are_summed_over_keys_and_averaged_over_rows() -> None:
    for found in emit(kept()).found():
        np.testing.assert_allclose(found.values, expected(found.layer.index, [0, 1, 2, 3]), atol=1e-6)


def test_layers_and_heads_come_in_the_order_asked_for() -> None:
    found = list(emit(kept("2,0", "3,1")).found())
    assert [(words.layer.index, words.heads) for words in found] == [(2, (3, 1)), (0, (3, 1))]
    np.testing.assert_allclose(found[0].values, expected(2, [3, 1]), atol=1e-6)


@given(st.integers(4, 3000), st.sampled_from([0, 512]))
@settings(max_examples=20, deadline=None)
def test_the_size_of_blocks_changes_nothing(block_bytes: int, dense_keys: int) -> None:
    whole, cut = emit(kept()), emit(kept(), block_bytes, dense_keys)
    for one, other in zip(whole.found(), cut.found(), strict=True):
        np.testing.assert_allclose(one.values, other.values, atol=2e-7)


def test_another_kind_and_another_layer_are_not_asked_for() -> None:
    asked = kept("1")
    assert asked.request(AttentionLayer("encoder", 1, HEADS, 2)) is None
    assert asked.request(AttentionLayer("decoder", 0, HEADS, 2)) is None
