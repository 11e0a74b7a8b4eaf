"""Windows: which keys, against a double loop and others' masks; the output, against SDPA and Longformer."""

from __future__ import annotations

import pytest
import torch
from counting import flops
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attncli.attention.variants import sliding_window


def tensors(queries: int, keys: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(queries)
    shapes = ((4, queries, 8), (2, keys, 8), (2, keys, 8))
    query, key, value = (torch.randn(2, *shape, dtype=dtype, generator=generator) for shape in shapes)
    return query, key, value


def literal(queries: int, keys: int, causal: bool, window: int, dilation: int, global_tokens: int) -> Tensor:
    """The definition, pair by pair."""
    allowed = torch.zeros(queries, keys, dtype=torch.bool)
    for row in range(queries):
        position = row + keys - queries
        for key in range(keys):
            near = any(key == position + sign * step * dilation for step in range(window) for sign in (1, -1))
            seen = near or position < global_tokens or key < global_tokens
            allowed[row, key] = seen and not (causal and key > position)
    return allowed


patterns = {
    "causal": st.booleans(),
    "window": st.integers(1, 25),
    "dilation": st.integers(1, 4),
    "global_tokens": st.integers(0, 5),
}


@settings(max_examples=80, deadline=None)
@given(queries=st.integers(1, 20), more=st.integers(0, 5), **patterns)
def test_the_mask_is_the_definition(
    queries: int, more: int, causal: bool, window: int, dilation: int, global_tokens: int
) -> None:
    given_ = {"causal": causal, "window": window, "dilation": dilation, "global_tokens": global_tokens}
    expected = literal(queries, queries + more, **given_)
    assert torch.equal(sliding_window.mask(queries, queries + more, **given_), expected)


@settings(max_examples=60, deadline=None)
@given(queries=st.integers(1, 150), more=st.integers(0, 9), **patterns)
def test_the_output_is_that_of_sdpa_under_the_mask(
    queries: int, more: int, causal: bool, window: int, dilation: int, global_tokens: int
) -> None:
    given_ = {"causal": causal, "window": window, "dilation": dilation, "global_tokens": global_tokens}
    query, key, value = tensors(queries, queries + more)
    expected = sdpa(
        query, key, value, attn_mask=sliding_window.mask(queries, queries + more, **given_), enable_gqa=True
    )
    torch.testing.assert_close(
        sliding_window.attend(query, key, value, **given_), expected, atol=1e-12, rtol=0.0
    )


def test_a_row_sees_as_many_keys_as_the_window_says() -> None:
    assert sliding_window.mask(30, 30, causal=True, window=5).sum(1)[10:].unique().tolist() == [5]
    assert sliding_window.mask(30, 30, window=5).sum(1)[10:20].unique().tolist() == [9]
    assert sliding_window.mask(30, 30, causal=True, window=5, dilation=2).sum(1)[10:].unique().tolist() == [5]


def test_it_counts_as_transformers_sliding_window_does() -> None:
    masking = pytest.importorskip("transformers.masking_utils")
    rule = masking.sliding_window_causal_mask_function(6)
    row, key = torch.arange(20).unsqueeze(-1), torch.arange(20)
    assert torch.equal(sliding_window.mask(20, 20, causal=True, window=6), rule(0, 0, row, key))


def test_it_counts_one_key_more_than_attention_gym() -> None:
    masks = pytest.importorskip("attn_gym.masks", reason="attn-gym's masks")
    none, row, key = torch.zeros((), dtype=torch.int), torch.arange(20).unsqueeze(-1), torch.arange(20)
    left_6 = masks.generate_sliding_window(6)(none, none, row, key)
    assert torch.equal(sliding_window.mask(20, 20, causal=True, window=7), left_6)
    dilated = pytest.importorskip("attn_gym.masks.dilated_sliding_window")
    span_6 = dilated.generate_dilated_sliding_window(6, 2)(none, none, row, key)
    assert torch.equal(sliding_window.mask(20, 20, window=4, dilation=2), span_6)
    glob = pytest.importorskip("attn_gym.masks.global_sliding_window")
    is_global = torch.arange(20) < 2
    around_3 = glob.generate_global_sliding_window(3, is_global)(none, none, row, key)
    assert torch.equal(sliding_window.mask(20, 20, window=4, global_tokens=2), around_3)


def test_it_equals_longformers_own_attention() -> None:
    longformer = pytest.importorskip("transformers.models.longformer.modeling_longformer")
    config = longformer.LongformerConfig(
        hidden_size=24, num_attention_heads=3, attention_window=[8], attention_probs_dropout_prob=0.0
    )
    torch.manual_seed(0)
    attention = longformer.LongformerSelfAttention(config, layer_id=0).double().eval()
    for name in ("query", "key", "value"):
        getattr(attention, f"{name}_global").load_state_dict(getattr(attention, name).state_dict())
    hidden, kind = torch.randn(2, 48, 24, dtype=torch.float64), torch.zeros(2, 48)
    kind[:, :2], kind[1, 41:] = 10_000.0, -10_000.0
    with torch.no_grad():
        expected = attention(
            hidden, kind, is_index_masked=kind < 0, is_index_global_attn=kind > 0, is_global_attn=True
        )[0]
        heads = [
            getattr(attention, name)(hidden).view(2, 48, 3, 8).transpose(1, 2)
            for name in ("query", "key", "value")
        ]
    output = sliding_window.attend(*heads, key_mask=kind >= 0, window=5, global_tokens=2)
    output = output.transpose(1, 2).flatten(2)
    # Its softmax is in float32 whatever the inputs.
    torch.testing.assert_close(output[kind >= 0], expected[kind >= 0], atol=1e-6, rtol=0.0)


def test_a_global_key_inside_the_window_counts_once() -> None:
    query, key = torch.zeros(1, 1, 3, 2), torch.zeros(1, 1, 3, 2)
    value = torch.tensor([[[[3.0], [0.0], [0.0]]]])
    output = sliding_window.attend(query, key, value, causal=True, window=3, global_tokens=1)
    torch.testing.assert_close(output[0, 0, :, 0], torch.tensor([3.0, 1.5, 1.0]))


def test_weights_are_nowhere_zero_within_the_mask() -> None:
    query, key, _ = tensors(30, 30)
    weights = sliding_window.weights(query, key, window=4, dilation=3, global_tokens=1)
    mask = sliding_window.mask(30, 30, window=4, dilation=3, global_tokens=1)
    assert torch.equal(weights[1, 3] > 0.0, mask)


def test_work_grows_with_n_and_not_with_its_square() -> None:
    work = [flops(sliding_window, n, causal=True) for n in (4096, 8192, 16384)]
    assert work[1] / work[0] < 2.1 and work[2] / work[1] < 2.05
    assert work[0] == 4 * sum(64 * min(320, (block + 1) * 64) for block in range(64))


def test_global_tokens_cost_their_columns_and_rows() -> None:
    plain, with_global = (flops(sliding_window, 512, causal=True, window=64, global_tokens=g) for g in (0, 3))
    assert with_global - plain > 4 * 3 * 512  # the columns, and the rows besides


def test_more_queries_than_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="5 queries and 3 keys"):
        sliding_window.attend(*tensors(5, 3))
