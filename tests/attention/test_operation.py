"""One operation's weights, made again from what it used, for any heads and rows."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attncli.attention.core import scaled_dot_product_attention
from attncli.attention.masks.causal import create_causal_mask
from attncli.attention.operation import AttentionOperation

BATCH, HEADS, KV_HEADS, QUERY, KEY, HEAD_DIM, VALUE_DIM = 2, 6, 3, 7, 11, 4, 5


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def operation(**changes) -> AttentionOperation:
    plain = AttentionOperation(
        query=random(BATCH, HEADS, QUERY, HEAD_DIM),
        key=random(BATCH, KV_HEADS, KEY, HEAD_DIM, seed=1),
        value=random(BATCH, KV_HEADS, KEY, VALUE_DIM, seed=2),
        scale=0.7,
    )
    return dataclasses.replace(plain, **changes)


def expected(used: AttentionOperation, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    key, value = (x.repeat_interleave(HEADS // KV_HEADS, dim=1) for x in (used.key, used.value))
    sink = None if used.sink is None else used.sink.reshape(-1, 1, 1)
    return scaled_dot_product_attention(
        used.query, key, value, mask, scale=used.scale, softcap=used.softcap, bias=used.bias, sink=sink
    )


mask_of_pairs = random(BATCH, 1, QUERY, KEY, seed=3) < 0.5
cases = {
    "plain": dict(),
    "mask": dict(mask=mask_of_pairs),
    "mask of keys": dict(mask=mask_of_pairs[:, :, :1]),
    "mask of heads": dict(mask=random(1, HEADS, QUERY, KEY, seed=4) < 0.5),
    "causal": dict(causal_offset=KEY - QUERY),
    "causal and mask": dict(causal_offset=KEY - QUERY, mask=mask_of_pairs),
    "bias": dict(bias=random(1, HEADS, QUERY, KEY, seed=5)),
    "bias of keys": dict(bias=random(BATCH, HEADS, 1, KEY, seed=6)),
    "cap, bias, sink": dict(softcap=1.5, bias=random(1, 1, QUERY, KEY, seed=5), sink=random(HEADS, seed=7)),
}


@pytest.mark.parametrize("case", cases)
def test_all_heads_and_rows_are_scaled_dot_product_attention(case):
    used = operation(**cases[case])
    mask = used.mask
    if used.causal_offset is not None:
        mask = create_causal_mask(QUERY, KEY) & (True if mask is None else mask)
    output, weights = expected(used, mask)
    made = used.weights(range(HEADS), slice(0, QUERY))
    torch.testing.assert_close(made, weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(used.output(made, range(HEADS)), output, rtol=0, atol=1e-10)


@pytest.mark.parametrize("case", cases)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_any_heads_and_rows_are_that_part_of_all(case, data):
    used = operation(**cases[case])
    heads = data.draw(st.lists(st.integers(0, HEADS - 1), min_size=1, max_size=HEADS))
    start = data.draw(st.integers(0, QUERY - 1))
    rows = slice(start, data.draw(st.integers(start + 1, QUERY)))
    whole = used.weights(range(HEADS), slice(0, QUERY))
    part = used.weights(heads, rows)
    torch.testing.assert_close(part, whole[:, heads, rows], rtol=0, atol=1e-12)
    torch.testing.assert_close(used.output(part, heads), used.output(whole, range(HEADS))[:, heads, rows])


def test_output_equals_pytorchs():
    used = operation(mask=mask_of_pairs)
    output = used.output(used.weights(range(HEADS), slice(0, QUERY)), range(HEADS))
    theirs = sdpa(used.query, used.key, used.value, attn_mask=mask_of_pairs, scale=0.7, enable_gqa=True)
    torch.testing.assert_close(output, theirs, rtol=0, atol=1e-10)


def test_an_operation_knows_its_sizes():
    used = operation()
    assert (used.heads, used.kv_heads, used.rows, used.keys) == (HEADS, KV_HEADS, QUERY, KEY)


def test_without_mask_and_causality_every_key_is_allowed():
    assert operation().allowed(range(HEADS), slice(0, QUERY)) is None


def test_what_is_allowed_is_the_mask_and_the_past():
    used = operation(causal_offset=1, mask=torch.ones(BATCH, 1, 1, KEY, dtype=torch.bool))
    allowed = used.allowed([4], slice(2, 5))
    for i, row in enumerate(range(2, 5)):
        assert allowed[0, 0, i].tolist() == [j <= row + 1 for j in range(KEY)]


def test_a_row_without_any_key_gives_zeros():
    used = operation(causal_offset=-2)
    weights = used.weights(range(HEADS), slice(0, QUERY))
    assert not bool(weights[:, :, :2].any())
    torch.testing.assert_close(weights[:, :, 2:].sum(-1), torch.ones(BATCH, HEADS, QUERY - 2).double())


def test_short_floats_give_weights_in_float32():
    exact = operation()
    short = {name: getattr(exact, name).bfloat16() for name in ("query", "key", "value")}
    weights = operation(**short).weights([0, 5], slice(0, QUERY))
    rounded = {name: tensor.double() for name, tensor in short.items()}
    assert weights.dtype == torch.float32
    torch.testing.assert_close(
        weights.double(), operation(**rounded).weights([0, 5], slice(0, QUERY)), rtol=0, atol=1e-6
    )


def test_without_a_value_there_is_no_output():
    used = operation(value=None)
    assert used.output(used.weights([0], slice(0, 1)), [0]) is None
