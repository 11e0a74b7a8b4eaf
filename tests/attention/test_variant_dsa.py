"""DeepSeek Sparse Attention: what is selected, and attention to it, against others' implementations."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attncli.attention.masks.causal import create_causal_mask
from attncli.attention.positions import apply_rotary, rotary_frequencies
from attncli.attention.variants import dsa, full

BATCH, HEADS, KV_HEADS, HEAD_DIM, VALUE_DIM = 2, 6, 3, 8, 5
INDEX_HEADS, INDEX_DIM = 4, 7


def tensors(query_len: int, key_len: int, *, dtype=torch.float64, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    sizes = ((HEADS, query_len, HEAD_DIM), (KV_HEADS, key_len, HEAD_DIM), (KV_HEADS, key_len, VALUE_DIM))
    return [torch.randn(BATCH, *size, generator=generator, dtype=dtype) for size in sizes]


def index_tensors(query_len: int, key_len: int, *, dtype=torch.float64, seed: int = 1):
    generator = torch.Generator().manual_seed(seed)
    sizes = ((query_len, INDEX_HEADS, INDEX_DIM), (key_len, INDEX_DIM), (query_len, INDEX_HEADS))
    names = ("index_query", "index_key", "index_weights")
    return {
        name: torch.randn(BATCH, *size, generator=generator, dtype=dtype)
        for name, size in zip(names, sizes, strict=True)
    }


def padding(key_len: int) -> torch.Tensor:
    """Batch element 0 has padding on the left, 1 on the right."""
    position = torch.arange(key_len)
    return torch.stack((position >= 2, position < max(key_len - 3, 1)))


def selected_by_definition(index_query, index_key, index_weights, allowed, top_k):
    """Score and sort in Python: (score, earlier first), for each query."""
    selected = torch.zeros(*index_query.shape[:2], index_key.shape[1], dtype=torch.bool)
    for b in range(selected.shape[0]):
        for i in range(selected.shape[1]):
            scores = {}
            for j in range(selected.shape[2]):
                if allowed[b, i, j]:
                    products = [max(float(q @ index_key[b, j]), 0.0) for q in index_query[b, i]]
                    scores[j] = sum(
                        w * p for w, p in zip(index_weights[b, i].tolist(), products, strict=True)
                    )
            best = sorted(scores, key=lambda j: (-scores[j], j))[:top_k]
            selected[b, i, best] = True
    return selected


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("query_len", "key_len", "top_k"), [(1, 1, 1), (7, 7, 3), (5, 13, 4), (9, 4, 2), (19, 19, 18)]
)
def test_the_selected_keys_are_those_of_the_definition(query_len, key_len, top_k, causal, padded):
    query, key, value = tensors(query_len, key_len)
    index = index_tensors(query_len, key_len)
    allowed = dsa.mask(query_len, key_len, causal=causal).expand(BATCH, -1, -1)
    real = padding(key_len) if padded else None
    if padded:
        allowed = allowed & real[:, None]
    settings = dict(causal=causal, key_mask=real, top_k=top_k, **index)
    selected = dsa.selected_mask(query, key, **settings)
    assert torch.equal(selected, selected_by_definition(*index.values(), allowed, top_k))
    expected = sdpa(query, key, value, attn_mask=selected[:, None], enable_gqa=True)
    torch.testing.assert_close(dsa.attend(query, key, value, **settings), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 70])
def test_the_gather_path_equals_weights_times_value(length, padded, causal):
    query, key, value = tensors(length, length)
    settings = dict(causal=causal, key_mask=padding(length) if padded else None, top_k=(length + 1) // 2)
    expected = dsa.weights(query, key, **settings) @ value.repeat_interleave(2, dim=1)
    torch.testing.assert_close(dsa.attend(query, key, value, **settings), expected, rtol=0, atol=1e-12)


def test_with_as_many_picks_as_keys_it_is_full_attention():
    query, key, value = tensors(37, 37)
    expected = full.attend(query, key, value, causal=True)
    output = dsa.attend(query, key, value, causal=True, top_k=37)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)


@given(
    length=st.integers(1, 40), share=st.floats(0.0, 1.0), causal=st.booleans(), seed=st.integers(0, 2**31 - 1)
)
@settings(max_examples=40, deadline=None)
def test_rows_have_min_of_top_k_and_visible_keys_and_sum_to_one(length, share, causal, seed):
    query, key, _ = tensors(length, length, seed=seed)
    top_k = max(1, round(share * length))
    weights = dsa.weights(query, key, causal=causal, top_k=top_k)
    visible = dsa.mask(length, length, causal=causal).sum(-1)
    picks = dsa.selected_mask(query, key, causal=causal, top_k=top_k).sum(-1)
    assert torch.equal(picks, visible.clamp(max=top_k).expand(BATCH, -1))
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_the_index_is_a_sum_one_can_work_out_by_hand():
    index_query = torch.tensor([[[[1.0, 0.0], [0.0, -1.0]]]])
    index_key = torch.tensor([[[2.0, 3.0], [-1.0, -4.0], [5.0, -1.0]]])
    index_weights = torch.tensor([[[10.0, -1.0]]])
    # Head 0 sees 2, −1, 5, head 1 sees −3, 4, 1: after ReLU 10·(2, 0, 5) − (0, 4, 1).
    expected = torch.tensor([[[20.0, -4.0, 49.0]]])
    torch.testing.assert_close(dsa.lightning_index(index_query, index_key, index_weights), expected)


def test_ties_go_to_the_earlier_position():
    scores = torch.tensor(
        [[0.0] * 8, [1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 3.0], [5.0, 5.0, 5.0, 9.0, 5.0, 5.0, 5.0, 9.0]]
    )
    assert dsa.select(scores, 5).tolist() == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 7], [0, 1, 2, 3, 7]]


@given(
    scores=st.lists(st.lists(st.integers(-2, 2), min_size=9, max_size=9), min_size=1, max_size=5),
    top_k=st.integers(1, 12),
)
@settings(max_examples=100, deadline=None)
def test_select_is_a_stable_sort(scores, top_k):
    picked = dsa.select(torch.tensor(scores, dtype=torch.float32), top_k)
    for row, picks in zip(scores, picked.tolist(), strict=True):
        assert picks == sorted(sorted(range(9), key=lambda j: (-row[j], j))[:top_k])


def test_masked_keys_are_never_picked_to_fill_a_row():
    mask = create_causal_mask(4)
    picked = dsa.select(torch.zeros(4, 4), 3, mask)
    assert picked.tolist() == [[0, -1, -1], [0, 1, -1], [0, 1, 2], [0, 1, 2]]
    assert dsa.select(torch.zeros(2, 3), 2, torch.zeros(2, 3, dtype=torch.bool)).tolist() == [[-1, -1]] * 2


@given(at=st.integers(0, 39))
@settings(max_examples=20, deadline=None)
def test_changing_a_token_changes_no_earlier_row_by_a_single_bit(at):
    query, key, value = tensors(40, 40, dtype=torch.float32)
    before = dsa.attend(query, key, value, causal=True, top_k=7)
    key[:, :, at], value[:, :, at] = 9.0, torch.nan
    after = dsa.attend(query, key, value, causal=True, top_k=7)
    assert torch.equal(before[:, :, :at], after[:, :, :at])


def test_nan_in_padding_does_not_reach_the_output():
    query, key, value = tensors(19, 19)
    index, real = index_tensors(19, 19), padding(19)
    expected = dsa.attend(query, key, value, key_mask=real, top_k=18, **index)
    key[~real[:, None].expand(-1, KV_HEADS, -1)] = torch.nan
    value[~real[:, None].expand(-1, KV_HEADS, -1)] = torch.nan
    index["index_key"][~real] = torch.nan
    output = dsa.attend(query, key, value, key_mask=real, top_k=18, **index)
    torch.testing.assert_close(output, expected, rtol=0, atol=0)


@pytest.mark.parametrize("causal", [False, True])
def test_a_row_without_any_key_gives_zeros_and_finite_gradients(causal):
    query, key, value = (x.requires_grad_() for x in tensors(6, 4))
    real = torch.zeros(BATCH, 4, dtype=torch.bool)
    output = dsa.attend(query, key, value, causal=causal, key_mask=real, top_k=2)
    assert torch.equal(output, torch.zeros_like(output))
    output.sum().backward()
    assert all(bool(x.grad.isfinite().all()) for x in (query, key, value))


def test_the_gradient_is_that_of_attention_to_the_selected_keys():
    query, key, value = inputs = [x.requires_grad_() for x in tensors(18, 18)]
    index = index_tensors(18, 18)
    selected = dsa.selected_mask(query, key, causal=True, top_k=5, **index)[:, None]
    expected = torch.autograd.grad(sdpa(*inputs, attn_mask=selected, enable_gqa=True).square().sum(), inputs)
    output = dsa.attend(query, key, value, causal=True, top_k=5, **index)
    torch.testing.assert_close(
        torch.autograd.grad(output.square().sum(), inputs), expected, rtol=0, atol=1e-10
    )


def test_the_stand_in_indexer_is_exact_where_the_keys_fit():
    query, key, _ = tensors(5, 11)
    scores = dsa.lightning_index(*dsa._sketch(query, key, HEADS, 24, seed=3))
    expected = torch.relu(query @ key.repeat_interleave(2, dim=1).mT).mean(dim=1)
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-12)


def test_the_stand_in_indexer_finds_more_of_the_attention_than_chance():
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 2, 256, 64, generator=generator) for _ in "qk")
    selected = dsa.selected_mask(query, key, top_k=32, index_heads=2, index_dim=32)
    captured = (full.weights(query, key) * selected[:, None]).sum(-1).mean()
    assert captured > 1.5 * 32 / 256


def test_another_seed_selects_other_keys_and_the_same_seed_the_same():
    query, key, _ = tensors(30, 30)
    first, again, other = (
        dsa.selected_mask(query, key, index_dim=2, top_k=5, seed=seed) for seed in (4, 4, 5)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_without_a_number_a_quarter_of_the_keys_is_selected_and_at_most_256():
    query, key, _ = tensors(3, 10)
    assert dsa.selected_mask(query, key).sum(-1).unique().tolist() == [3]
    query, key, _ = tensors(1, 1400)
    assert dsa.selected_mask(query, key).sum(-1).unique().tolist() == [256]


def test_what_does_not_fit_is_told():
    query, key, value = tensors(5, 8)
    with pytest.raises(ValueError, match="at most the 8 keys there are, got 9"):
        dsa.attend(query, key, value, top_k=9)
    with pytest.raises(ValueError, match="all three or none"):
        dsa.weights(query, key, index_key=torch.zeros(BATCH, 8, INDEX_DIM))


def test_inputs_and_the_random_state_stay_as_they_were():
    inputs = tensors(9, 9)
    copies, state = [x.clone() for x in inputs], torch.random.get_rng_state()
    dsa.attend(*inputs, key_mask=padding(9), causal=True, top_k=4)
    assert all(torch.equal(x, copy) for x, copy in zip(inputs, copies, strict=True))
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(("dtype", "share"), [(torch.float16, 1e-3), (torch.bfloat16, 8e-3)])
def test_short_floats_are_computed_in_float32(dtype, share):
    short, index = [x.to(dtype) for x in tensors(50, 50)], index_tensors(50, 50)
    output = dsa.attend(*short, causal=True, top_k=20, **index)
    expected = dsa.attend(*[x.double() for x in short], causal=True, top_k=20, **index)
    assert output.dtype == dtype
    assert (output.double() - expected).abs().max() <= share / 2 * expected.abs().max()


# -- what others wrote -------------------------------------------------------------------------------------------------


def small_deepseek(topk: int):
    transformers = pytest.importorskip("transformers")
    config = transformers.DeepseekV32Config(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=16,
        moe_intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=3,
        num_key_value_heads=3,
        n_routed_experts=2,
        num_experts_per_tok=1,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=1,
        q_lora_rank=12,
        kv_lora_rank=10,
        qk_nope_head_dim=6,
        qk_rope_head_dim=4,
        v_head_dim=5,
        index_n_heads=INDEX_HEADS,
        index_head_dim=10,
        index_topk=topk,
    )
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    return transformers.DeepseekV32Model(config).double().eval()


def test_it_equals_the_attention_of_deepseek_v32(monkeypatch):
    modeling = pytest.importorskip("transformers.models.deepseek_v32.modeling_deepseek_v32")
    length, top_k = 21, 6
    model = small_deepseek(top_k)
    attention = model.layers[0].self_attn
    indexer = attention.indexer
    seen = {}
    eager = modeling.eager_attention_forward

    def watched(module, query, key, value, attention_mask, **settings):
        seen.update(query=query, key=key, value=value, scale=settings["scaling"])
        output, weights = eager(module, query, key, value, attention_mask, **settings)
        seen.update(output=output.transpose(1, 2), weights=weights)
        return output, weights

    monkeypatch.setattr(modeling, "eager_attention_forward", watched)
    indexer.register_forward_pre_hook(
        lambda module, inputs: seen.update(hidden=inputs[0], residual=inputs[1])
    )
    indexer.register_forward_hook(lambda module, inputs, output: seen.update(indices=output.long()))
    with torch.no_grad():
        model(torch.randint(0, 50, (BATCH, length), generator=torch.Generator().manual_seed(2)))
        frequencies = rotary_frequencies(4)
        # The indexer turns its first dimensions in the half layout, though the main attention interleaves.
        index_query = indexer.wq_b(seen["residual"]).reshape(BATCH, length, INDEX_HEADS, 10).transpose(1, 2)
        index = dict(
            index_query=apply_rotary(index_query, frequencies, layout="half").transpose(1, 2),
            index_key=apply_rotary(indexer.k_norm(indexer.wk(seen["hidden"])), frequencies, layout="half"),
            index_weights=indexer.weights_proj(seen["hidden"]),
        )
    settings = dict(causal=True, top_k=top_k, **index)
    selected = dsa.selected_mask(seen["query"], seen["key"], **settings)
    theirs = torch.zeros_like(selected).scatter(-1, seen["indices"], True) & create_causal_mask(length)
    clear = rows_without_a_tie(dsa.lightning_index(*index.values()), top_k)
    assert clear.sum() > 35  # of 42
    assert torch.equal(selected[clear], theirs[clear])
    query = seen["query"] * seen["scale"] * seen["query"].shape[-1] ** 0.5
    weights = dsa.weights(query, seen["key"], **settings) - seen["weights"]
    assert weights.transpose(1, 2)[clear].abs().max() < 1e-6
    output = dsa.attend(query, seen["key"], seen["value"], **settings) - seen["output"]
    assert output.transpose(1, 2)[clear].abs().max() < 1e-6


def rows_without_a_tie(scores: torch.Tensor, top_k: int) -> torch.Tensor:
    """Leave out causal rows whose last score taken equals the first left: others break such ties as they like."""
    best = scores.masked_fill(~create_causal_mask(scores.shape[1]), -torch.inf).topk(top_k + 1, dim=-1).values
    return (best[..., -1] != best[..., -2]) | (best[..., -2] == -torch.inf)


def assert_same_selection(theirs: torch.Tensor, index: dict[str, torch.Tensor], *, top_k: int) -> None:
    """Compare with a table of indices that is filled with −1, but for ties."""
    query, key, _ = tensors(33, 33, dtype=torch.float32)
    selected = dsa.selected_mask(query, key, causal=True, top_k=top_k, **index)
    filled = theirs.masked_fill(theirs < 0, 33)
    expected = torch.zeros(BATCH, 33, 34, dtype=torch.bool).scatter(-1, filled, True)[..., :33]
    clear = rows_without_a_tie(dsa.lightning_index(*index.values()), top_k)
    assert clear.sum() > 50  # of 66
    assert torch.equal(selected[clear], expected[clear])


def test_it_equals_flash_linear_attentions_naive_form():
    pytest.importorskip("einops", reason="what the naive form is written with")
    found = importlib.util.find_spec("fla")
    if found is None or not found.submodule_search_locations:
        pytest.skip("fla-core is not installed")
    spec = importlib.util.spec_from_file_location(
        "fla_dsa", f"{found.submodule_search_locations[0]}/ops/dsa/naive.py"
    )
    naive = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(naive)
    index = index_tensors(33, 33, dtype=torch.float32)
    theirs = naive.naive_dsa_indexer(*index.values(), topk=9, activation="relu")
    assert_same_selection(theirs, index, top_k=9)


def test_it_equals_the_reference_of_attention_gym():
    indexer = pytest.importorskip("attn_gym.sparse.indexer", reason="attn-gym")
    index = index_tensors(33, 33, dtype=torch.float32)
    theirs = indexer.lightning_indexer(*index.values(), 9, causal=True, impl="reference").long()
    assert_same_selection(theirs, index, top_k=9)
