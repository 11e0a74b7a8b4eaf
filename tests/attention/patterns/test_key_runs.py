"""Patterns as runs of keys: the same pairs as the mask, counted and drawn without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli import registry
from attncli.attention.patterns.key_runs import (
    Reach,
    full_reach,
    keys_per_row,
    pooled,
    reach_of,
    reach_of_mask,
    segments,
)
from attncli.registry import Parameter

NAMES = [(kind, name) for kind in ("masks", "variants") for name in registry.entries(kind)]


def value_for(parameter: Parameter) -> st.SearchStrategy[Any]:
    if parameter.choices:
        return st.sampled_from(parameter.choices)
    if isinstance(parameter.default, bool):
        return st.booleans()
    if isinstance(parameter.default, int):
        return st.integers(int(parameter.minimum or 0), 13)
    return st.just(parameter.default)


def drawn_settings(data: st.DataObject, kind: str, name: str) -> dict[str, Any]:
    entry = registry.entries(kind)[name]
    chosen = {one.name: data.draw(value_for(one), label=one.name) for one in entry.parameters}
    if kind == "variants":
        forms = {True: [True, False], "only": [True], False: [False]}[entry.attributes["causal"]]
        chosen["causal"] = data.draw(st.sampled_from(forms), label="causal")
    return chosen


@pytest.mark.parametrize(("kind", "name"), NAMES)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), length=st.integers(1, 30), more=st.sampled_from([0, 0, 5]))
def test_every_reach_describes_its_mask(kind: str, name: str, data: Any, length: int, more: int) -> None:
    module, chosen = registry.load(kind, name), drawn_settings(data, kind, name)
    try:
        mask = module.mask(length, length + more, **chosen).numpy()
    except ValueError:  # what the mask refuses, the other form refuses too
        with pytest.raises(ValueError):
            reach_of(module, length, length + more, **chosen)
        return
    try:
        reach = reach_of(module, length, length + more, **chosen)
    except ValueError:
        assert chosen["top_k"] > length  # the mask of dsa does not look at it
        return
    np.testing.assert_array_equal(pooled(reach, range(length), range(length + more)), mask)
    np.testing.assert_array_equal(keys_per_row(reach), mask.sum(axis=1))
    assert not reach.causal or not np.triu(mask, 1 + more).any()


@pytest.mark.parametrize("name", ["sliding-window", "sparse-fixed", "sparse-strided", "bigbird"])
def test_a_cell_of_a_picture_is_filled_where_any_of_its_pairs_is_allowed(name: str) -> None:
    chosen = {"sliding-window": {"window": 2, "dilation": 5}, "bigbird": {"block": 3, "random_blocks": 1}}
    module, size = registry.load("variants", name), {"stride": 7, "summary": 2}
    settings = chosen.get(name, size if name == "sparse-fixed" else {"stride": 7})
    mask, reach = module.mask(53, 53, **settings).numpy(), reach_of(module, 53, 53, **settings)
    for rows, columns in ((4, 10), (10, 4), (1, 53), (53, 1), (8, 8)):
        cuts = np.arange(0, 53, rows), np.arange(0, 53, columns)
        expected = np.logical_or.reduceat(np.logical_or.reduceat(mask, cuts[0], axis=0), cuts[1], axis=1)
        picture = pooled(reach, *(cut.tolist() for cut in cuts))
        np.testing.assert_array_equal(picture, expected)


@given(mask=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=5))
def test_any_mask_has_a_reach(mask: list[list[bool]]) -> None:
    array = np.array(mask)
    reach = reach_of_mask(array)
    np.testing.assert_array_equal(pooled(reach, range(len(mask)), range(6)), array)
    np.testing.assert_array_equal(keys_per_row(reach), array.sum(axis=1))


def test_a_run_of_wide_steps_is_counted_by_its_keys() -> None:
    # Keys 1, 2, 6, 7 for the first row; none for the second, whose part is empty.
    reach = Reach(2, 9, (segments(2, 1, [9, 1], step=5, width=2),), causal=False)
    assert keys_per_row(reach).tolist() == [4, 0]
    assert np.flatnonzero(pooled(reach, [0, 1], range(9))[0]).tolist() == [1, 2, 6, 7]


def test_a_long_bigbird_draws_the_blocks_that_its_mask_draws() -> None:
    module = registry.load("variants", "bigbird")
    chosen = {"block": 1, "random_blocks": 2, "seed": 5}  # 1,201 blocks are drawn in two parts
    mask = module.mask(1201, 1201, **chosen).numpy()
    np.testing.assert_array_equal(
        pooled(reach_of(module, 1201, 1201, **chosen), range(1201), range(1201)), mask
    )


def test_a_mask_without_a_reach_is_described_by_its_matrix() -> None:
    from types import ModuleType

    import torch

    odd = ModuleType("odd")
    odd.mask = lambda query_len, key_len: torch.eye(query_len, key_len, dtype=torch.bool)  # type: ignore[attr-defined]
    assert keys_per_row(reach_of(odd, 3, 3)).tolist() == [1, 1, 1]


def test_all_pairs_of_a_long_sequence_take_no_matrix() -> None:
    assert int(keys_per_row(full_reach(10**6, 10**6, causal=True)).sum()) == 10**6 * (10**6 + 1) // 2
