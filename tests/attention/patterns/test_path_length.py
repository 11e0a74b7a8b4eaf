"""Path length: layers until every position has news of every other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attncli import registry
from attncli.attention.patterns import path_length as hops
from attncli.attention.patterns.key_runs import Reach, reach_of, reach_of_mask, segments
from attncli.attention.patterns.path_length import path_length, path_rows


def measured(kind: str, name: str, length: int, **chosen: Any) -> int | None:
    return path_length(reach_of(registry.load(kind, name), length, length, **chosen), path_rows(length))


def by_matrix_powers(mask: NDArray[np.bool_], causal: bool) -> int | None:
    """The definition: the least power of (pattern or itself) that has every pair."""
    step, reached = mask | np.eye(len(mask), dtype=bool), np.eye(len(mask), dtype=bool)
    wanted = np.tri(len(mask), dtype=bool) if causal else np.ones(mask.shape, bool)
    for layers in range(len(mask) + 1):
        if reached[wanted].all():
            return layers
        reached = reached @ step
    return None


@settings(max_examples=80, deadline=None)
@given(
    data=st.data(), length=st.integers(1, 70), causal=st.booleans(), density=st.sampled_from([0.03, 0.1, 0.4])
)
def test_the_path_length_is_the_least_power_of_the_matrix_with_every_pair(
    data: Any, length: int, causal: bool, density: float
) -> None:
    seed = data.draw(st.integers(0, 999))
    mask = np.random.default_rng(seed).random((length, length)) < density
    mask |= np.eye(length, k=-1, dtype=bool)  # without it, sparse patterns are rarely connected
    mask = np.tril(mask) if causal else mask
    assert path_length(reach_of_mask(mask, causal=causal)) == by_matrix_powers(mask, causal)


@settings(max_examples=60, deadline=None)
@given(length=st.integers(2, 90), step=st.integers(1, 9), width=st.integers(1, 9), seed=st.integers(0, 99))
def test_both_ways_to_take_a_hop_carry_the_same_bits(length: int, step: int, width: int, seed: int) -> None:
    width, random = min(width, step), np.random.default_rng(seed)
    starts = random.integers(0, length, length)
    stops = np.minimum(random.integers(0, length + 1, length), length - width + 1)
    spread = hops._Spread.of((segments(length, starts, stops, step=step, width=width),), length)
    words = random.integers(0, 2**63, (2, length)).astype(np.uint64)
    places = np.flatnonzero(words.reshape(-1))
    alone = np.zeros(2 * length, np.uint64)
    target, bits = spread.followed(places, words.reshape(-1)[places], alone)
    alone[target] = bits
    np.testing.assert_array_equal(spread.pushed(words).reshape(-1), alone)


@pytest.mark.parametrize("length", [256, 1024, 4096])
def test_the_textbooks_table_is_what_is_measured(length: int) -> None:
    assert measured("masks", "full", length) == 1
    assert measured("variants", "full", length, causal=True) == 1
    assert measured("masks", "recurrent", length) == length - 1
    for kernel in (3, 8):
        dilated = next(layers for layers in range(99) if kernel**layers >= length)  # ⌈log_k n⌉
        assert measured("masks", "convolution", length, kernel=kernel) == dilated
        plain = math.ceil((length - 1) / (kernel - 1))
        assert measured("masks", "convolution", length, kernel=kernel, dilated=False) == plain
    for window, causal in ((8, True), (32, False)):
        expected = math.ceil((length - 1) / (window - 1))
        assert measured("variants", "sliding-window", length, window=window, causal=causal) == expected


def test_sparse_patterns_take_two_layers() -> None:
    assert measured("variants", "sparse-fixed", 300, stride=17, summary=3) == 2
    assert measured("variants", "sparse-strided", 300, stride=17) == 2
    assert measured("variants", "bigbird", 300, block=8) == 2
    assert measured("variants", "sliding-window", 300, window=3, global_tokens=1) == 2


def test_what_is_never_reached_has_no_length() -> None:
    assert measured("masks", "padding", 7, pad=1) is None
    assert measured("masks", "padding", 7, pad=0) == 1
    assert measured("variants", "sliding-window", 9, window=1) is None
    assert measured("variants", "sliding-window", 9, window=3, dilation=2) is None
    assert measured("masks", "convolution", 9, kernel=1) is None


def test_one_position_needs_no_layer() -> None:
    for kind in ("masks", "variants"):
        for name in registry.entries(kind):
            chosen = registry.entries(kind)[name].settings(["pad=0"] if name == "padding" else [])
            if kind == "variants" and registry.entries(kind)[name].attributes["causal"] == "only":
                chosen["causal"] = True
            assert measured(kind, name, 1, **chosen) == 0


def test_a_stack_is_looked_through_from_its_last_layer() -> None:
    # Row 2 reads 1 in one layer, row 1 reads 0 in the other: the news of 0 must have come to 1 before 2 reads it.
    before = reach_of_mask(np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1]], bool)).segments
    jump = reach_of_mask(np.array([[1, 0, 0], [0, 1, 0], [0, 1, 1]], bool)).segments
    assert (
        path_length(Reach(3, 3, before, causal=True, layers=(before, jump))) == 2
    )  # 2 → 1 above, 1 → 0 below
    assert path_length(Reach(3, 3, before, causal=True, layers=(jump, before))) is None


def test_long_sequences_are_measured_from_ends_middle_and_a_sample() -> None:
    rows = path_rows(5000)
    assert len(set(rows.tolist())) == 64 and {0, 2500, 4999} <= set(rows.tolist())
    assert path_rows(5000).tolist() == rows.tolist() != path_rows(5000, seed=1).tolist()
    assert path_rows(2048).tolist() == list(range(2048))


def test_a_sample_never_gives_more_than_all_rows() -> None:
    reach = reach_of(registry.load("variants", "bigbird"), 2500, 2500, block=10, global_blocks=0)
    sampled, whole = path_length(reach, path_rows(2500)), path_length(reach)
    assert sampled is not None and whole is not None and 2 < sampled <= whole


def test_a_pattern_between_two_sequences_has_no_path() -> None:
    with pytest.raises(ValueError, match="got 5 for 3"):
        path_length(reach_of(registry.load("masks", "full"), 3, 5))
