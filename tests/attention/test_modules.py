"""Attention as modules, against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from attncli import Attention, AttentionProjections, MultiHeadAttention, create_causal_mask
from attncli.attention.core import scaled_dot_product_attention

D_MODEL, HEADS = 12, 3


def inputs(query_len: int = 7, key_len: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = (query_len, key_len)
    x, memory = (torch.randn(2, size, D_MODEL, generator=generator, dtype=torch.float64) for size in sizes)
    return x, memory


def pytorchs(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    """Give PyTorch's module the weights of ours."""
    theirs = nn.MultiheadAttention(
        D_MODEL, HEADS, bias=ours.output.bias is not None, batch_first=True
    ).double()
    parts = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.data = torch.cat([part.weight.data for part in parts])
    theirs.out_proj.weight.data = ours.output.weight.data
    if ours.output.bias is not None:
        theirs.in_proj_bias.data = torch.cat([part.bias.data for part in parts])
        theirs.out_proj.bias.data = ours.output.bias.data
    return theirs.eval()


# -- projections -------------------------------------------------------------------------------------------------------


def test_projections_are_matrix_products():
    torch.manual_seed(0)
    projections = AttentionProjections(4, 3, 5)
    x = torch.randn(2, 7, 4)
    parts = (projections.query, projections.key, projections.value)
    for projected, part in zip(projections(x), parts, strict=True):
        torch.testing.assert_close(projected, x @ part.weight.T)


def test_projection_sizes_default_to_each_other():
    assert [x.shape[-1] for x in AttentionProjections(4)(torch.zeros(1, 2, 4))] == [4, 4, 4]
    assert [x.shape[-1] for x in AttentionProjections(4, 3)(torch.zeros(1, 2, 4))] == [3, 3, 3]
    assert [x.shape[-1] for x in AttentionProjections(4, 3, 5)(torch.zeros(1, 2, 4))] == [3, 3, 5]


def test_keys_and_values_come_from_the_memory():
    torch.manual_seed(0)
    projections = AttentionProjections(4)
    x, memory = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    query, key, value = projections(x, memory)
    assert torch.equal(query, projections.query(x))
    assert torch.equal(key, projections.key(memory))
    assert torch.equal(value, projections.value(memory))


def test_projections_have_a_bias_only_when_asked():
    assert AttentionProjections(4).query.bias is None
    assert all(part.bias is not None for part in AttentionProjections(4, bias=True).children())


@pytest.mark.parametrize("sizes", [(0, 1, 1), (4, 0, 1), (4, 3, -1)])
def test_a_size_that_is_not_positive_is_told(sizes):
    with pytest.raises(ValueError, match="sizes must be positive"):
        AttentionProjections(*sizes)


# -- one head ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("cross", [False, True])
def test_one_head_is_project_attend_project(causal, cross):
    torch.manual_seed(0)
    module = Attention(D_MODEL, 4, 5, causal=causal, bias=True).double()
    x, memory = inputs()
    memory = memory if cross else None
    query, key, value = module.projections(x, memory)
    mask = create_causal_mask(7, key.shape[1]) if causal else None
    attended, expected = scaled_dot_product_attention(query, key, value, mask)
    output, weights = module(x, memory)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(output, module.output(attended))
    assert output.shape == x.shape


def test_one_head_equals_pytorchs_multi_head_with_one():
    torch.manual_seed(0)
    module = Attention(D_MODEL).double()
    theirs = nn.MultiheadAttention(D_MODEL, 1, bias=False, batch_first=True).double()
    parts = (module.projections.query, module.projections.key, module.projections.value)
    theirs.in_proj_weight.data = torch.cat([part.weight.data for part in parts])
    theirs.out_proj.weight.data = module.output.weight.data
    x, memory = inputs()
    torch.testing.assert_close(module(x, memory), theirs(x, memory, memory), rtol=0, atol=1e-10)


def test_without_an_output_projection_the_values_are_mixed():
    torch.manual_seed(0)
    module = Attention(D_MODEL, 4, 5, output_projection=False).double()
    x, _ = inputs()
    output, weights = module(x)
    torch.testing.assert_close(output, weights @ module.projections.value(x))


def test_a_mask_applies_besides_causality():
    module = Attention(D_MODEL, causal=True).double()
    x, _ = inputs()
    _, weights = module(x, mask=torch.arange(7) != 2)
    allowed = create_causal_mask(7) & (torch.arange(7) != 2)
    assert torch.equal(weights > 0, allowed.expand(2, -1, -1))


# -- many heads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_many_heads_equal_pytorchs_module(bias, cross, causal):
    torch.manual_seed(0)
    ours = MultiHeadAttention(D_MODEL, HEADS, bias=bias, causal=causal).double()
    x, memory = inputs()
    source = memory if cross else x
    hidden = ~create_causal_mask(7, source.shape[1]) if causal else None  # PyTorch's module hides where True
    expected = pytorchs(ours)(x, source, source, attn_mask=hidden, average_attn_weights=False)
    output = ours(x, memory if cross else None)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


def test_many_heads_with_padding_equal_pytorchs_module():
    torch.manual_seed(0)
    ours = MultiHeadAttention(D_MODEL, HEADS).double()
    x, memory = inputs()
    real = torch.stack((torch.arange(9) >= 2, torch.arange(9) < 6))
    expected = pytorchs(ours)(x, memory, memory, key_padding_mask=~real, average_attn_weights=False)
    torch.testing.assert_close(ours(x, memory, real[:, None, None]), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(7,), (7, 7), (1, 7), (3, 7, 7), (2, 1, 7, 7), (2, 3, 7, 7)])
def test_masks_of_every_shape_reach_the_right_heads_and_the_observer(shape, causal):
    torch.manual_seed(0)
    module = MultiHeadAttention(D_MODEL, HEADS, causal=causal).double()
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.7
    seen = []
    _, weights = module(inputs()[0], mask=mask, observe=lambda operation, mixed: seen.append(operation))
    allowed = mask & create_causal_mask(7) if causal else mask
    assert torch.equal(weights > 0, allowed.expand(2, HEADS, 7, 7))
    torch.testing.assert_close(seen[0].weights(range(HEADS), slice(0, 7)), weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_heads_equal_many_heads_with_repeated_projections(kv_heads):
    torch.manual_seed(0)
    grouped = MultiHeadAttention(D_MODEL, 4, kv_heads=kv_heads, causal=True).double()
    every = MultiHeadAttention(D_MODEL, 4, causal=True).double()
    every.load_state_dict(
        grouped.state_dict()
        | {
            f"{name}.weight": getattr(grouped, name)
            .weight.reshape(kv_heads, 3, D_MODEL)
            .repeat_interleave(4 // kv_heads, dim=0)
            .reshape(D_MODEL, D_MODEL)
            for name in ("key", "value")
        }
    )
    x, _ = inputs()
    torch.testing.assert_close(grouped(x), every(x), rtol=0, atol=1e-10)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_what_an_observer_sees_gives_the_same_weights_and_output(kv_heads):
    torch.manual_seed(0)
    module = MultiHeadAttention(D_MODEL, 4, kv_heads=kv_heads, causal=True).double()
    seen = []
    output, weights = module(inputs()[0], observe=lambda operation, mixed: seen.append((operation, mixed)))
    ((operation, mixed),) = seen
    again = operation.weights(range(4), slice(0, 7))
    torch.testing.assert_close(again, weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(operation.output(again, range(4)), mixed, rtol=0, atol=1e-12)
    torch.testing.assert_close(module.output(mixed.transpose(1, 2).flatten(2)), output)


def test_permuting_the_tokens_permutes_the_output_without_positions():
    torch.manual_seed(0)
    module = MultiHeadAttention(D_MODEL, HEADS).double()
    x, _ = inputs()
    order = torch.randperm(7, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(module(x[:, order])[0], module(x)[0][:, order])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(heads=5), "heads must divide d_model, got 5 heads for d_model 12"),
        (dict(heads=0), "heads must divide d_model, got 0 heads"),
        (dict(heads=4, kv_heads=3), "kv_heads must divide heads, got 3 kv_heads for 4 heads"),
        (dict(heads=4, kv_heads=0), "kv_heads must divide heads, got 0 kv_heads"),
    ],
)
def test_heads_that_do_not_divide_are_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(D_MODEL, **arguments)


# -- learned positions -------------------------------------------------------------------------------------------------


def test_a_relative_bias_is_added_to_the_scores_and_reaches_who_observes():
    module = MultiHeadAttention(D_MODEL, HEADS, causal=True, distances=2).double()
    torch.nn.init.normal_(module.relative.table)
    x, seen = inputs()[0], []
    weights = module(x, observe=lambda operation, output: seen.append(operation))[1]
    Q, K, _ = module.project(x)
    bias = torch.stack(
        [torch.stack([module.relative.table[:, max(j - i, -2) + 2] for j in range(i + 1)], -1) for i in [6]]
    )[0]
    expected = torch.softmax((Q[:, :, 6:] @ K.mT)[:, :, 0] * module.head_dim**-0.5 + bias, dim=-1)
    torch.testing.assert_close(weights[:, :, 6], expected)
    torch.testing.assert_close(seen[0].weights(range(HEADS), slice(0, 7)), weights)
