"""Masks: True = may attend."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attncli import create_causal_mask, registry
from attncli.attention.masks import causal, full, padding


def test_a_causal_mask_allows_the_diagonal_and_the_past():
    expected = [[True, False, False], [True, True, False], [True, True, True]]
    assert create_causal_mask(3).tolist() == expected


@given(query_len=st.integers(0, 12), key_len=st.integers(0, 12))
def test_the_last_query_belongs_to_the_last_key(query_len, key_len):
    mask = create_causal_mask(query_len, key_len)
    assert mask.shape == (query_len, key_len)
    for i in range(query_len):
        for j in range(key_len):
            assert bool(mask[i, j]) == (j <= i + key_len - query_len)


def test_one_query_with_a_cache_sees_every_key():
    assert create_causal_mask(1, 5).tolist() == [[True] * 5]


def test_with_fewer_keys_than_queries_the_first_rows_are_empty():
    assert create_causal_mask(3, 1).tolist() == [[False], [False], [True]]


@pytest.mark.parametrize(("query_len", "key_len"), [(-1, 2), (2, -1)])
def test_a_negative_length_is_told(query_len, key_len):
    with pytest.raises(ValueError, match=f"got query {query_len} and key {key_len}"):
        create_causal_mask(query_len, key_len)


def test_a_full_mask_allows_everything():
    assert full.mask(2, 3).tolist() == [[True] * 3] * 2


def test_padding_hides_keys_on_its_side_from_every_row():
    assert padding.mask(2, 5, pad=2).tolist() == [[True, True, True, False, False]] * 2
    assert padding.mask(2, 5, pad=2, side="left").tolist() == [[False, False, True, True, True]] * 2


def test_no_padding_hides_nothing_and_padding_alone_everything():
    assert bool(padding.mask(2, 3, pad=0).all())
    assert not bool(padding.mask(2, 3, pad=3).any())


def test_left_padding_with_causality_leaves_rows_without_keys():
    mask = padding.mask(4, 4, pad=2, side="left", causal=True)
    expected = [[False] * 4, [False] * 4, [False, False, True, False], [False, False, True, True]]
    assert mask.tolist() == expected


def test_more_padding_than_keys_is_told():
    with pytest.raises(ValueError, match="pad=4 is more than the 3 keys"):
        padding.mask(2, 3, pad=4)


def test_a_mask_can_be_written_to_without_changing_others():
    mask = padding.mask(3, 4, pad=1)
    mask[0, 0] = False
    assert mask[1:, 0].all()


@pytest.mark.parametrize("name", registry.entries("masks"))
@pytest.mark.parametrize(("query_len", "key_len"), [(7, 7), (4, 9), (9, 4)])
def test_every_mask_has_the_shape_asked_for_and_its_defaults_work(name, query_len, key_len):
    settings = registry.entries("masks")[name].settings()
    mask = registry.load("masks", name).mask(query_len, key_len, **settings)
    assert mask.dtype == torch.bool
    assert mask.shape == (query_len, key_len)


def test_the_registered_causal_mask_is_the_public_one():
    assert torch.equal(causal.mask(4, 6), create_causal_mask(4, 6))
