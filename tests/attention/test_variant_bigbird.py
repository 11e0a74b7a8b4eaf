"""BigBird: which blocks, and the output against SDPA and against BigBird's own attention."""

from __future__ import annotations

import pytest
import torch
from counting import flops
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attncli.attention.patterns.block_layout import BlockLayout
from attncli.attention.variants import bigbird


def tensors(length: int, heads: int = 4, kv_heads: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(length)
    query, key, value = (
        torch.randn(2, count, length, 8, dtype=torch.float64, generator=generator)
        for count in (heads, kv_heads, kv_heads)
    )
    return query, key, value


def fixed(blocks: int, ends: int, sides: int) -> Tensor:
    """Window and global blocks, pair by pair."""
    allowed = torch.zeros(blocks, blocks, dtype=torch.bool)
    at_end = [index < ends or index >= blocks - ends for index in range(blocks)]
    for row in range(blocks):
        for key in range(blocks):
            allowed[row, key] = abs(row - key) <= sides or at_end[row] or at_end[key]
    return allowed


layouts = {
    "random": st.integers(0, 4),
    "ends": st.integers(0, 2),
    "sides": st.integers(0, 2),
    "seed": st.integers(0, 9),
}


@settings(max_examples=60, deadline=None)
@given(blocks=st.integers(1, 12), **layouts)
def test_each_block_reads_the_fixed_blocks_and_as_many_others_as_are_drawn(
    blocks: int, random: int, ends: int, sides: int, seed: int
) -> None:
    pattern = BlockLayout(blocks, 1, random, ends, sides, seed).pattern(3)
    expected = fixed(blocks, ends, sides)
    left = (~expected).sum(-1)
    assert bool(pattern[:, expected].all())
    assert torch.equal((pattern & ~expected).sum(-1), left.clamp(max=random).expand(3, -1))


@settings(max_examples=50, deadline=None)
@given(length=st.integers(1, 90), block=st.integers(1, 20), **layouts)
def test_the_output_is_that_of_sdpa_under_the_mask(
    length: int, block: int, random: int, ends: int, sides: int, seed: int
) -> None:
    query, key, value = tensors(length)
    layout = BlockLayout(length, block, random, ends, sides, seed)
    expected = sdpa(query, key, value, attn_mask=layout.positions(layout.pattern(4))[None], enable_gqa=True)
    output = bigbird.attend(
        query,
        key,
        value,
        block=block,
        random_blocks=random,
        global_blocks=ends,
        window_blocks=sides,
        seed=seed,
    )
    torch.testing.assert_close(output, expected, atol=1e-12, rtol=0.0)


def test_it_equals_bigbirds_own_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    big_bird = pytest.importorskip("transformers.models.big_bird.modeling_big_bird")
    config = big_bird.BigBirdConfig(
        hidden_size=32,
        num_attention_heads=4,
        block_size=4,
        num_random_blocks=2,
        attention_type="block_sparse",
    )
    attention = big_bird.BigBirdBlockSparseAttention(config).eval()
    layout = BlockLayout(64, 4, random=2, ends=1, sides=1, seed=5)
    drawn = layout.pattern(4) & ~layout.fixed()
    table = [[row.nonzero().flatten().numpy() for row in head[1:-1]] for head in drawn]
    monkeypatch.setattr(attention, "_bigbird_block_rand_mask_with_head", lambda **_: table)
    query, key, value = tensors(64, 4, 4)
    real = torch.ones(2, 64, dtype=torch.float64)
    blocked, band, rows, columns = big_bird.BigBirdModel.create_masks_for_block_sparse_attn(real, 4)
    expected, _ = attention.bigbird_block_sparse_attention(
        query, key, value, band, rows, columns, blocked, blocked, 4, 2, 8, 4, 4, 2, 64, 64, 0, None, None
    )
    output = bigbird.attend(query, key, value, block=4, random_blocks=2, seed=5)
    torch.testing.assert_close(output.transpose(1, 2), expected.view(2, 64, 4, 8), atol=1e-12, rtol=0.0)


def test_the_draw_of_a_head_depends_on_the_seed_and_on_no_other_head() -> None:
    layout = BlockLayout(40, 1, 3, 1, 1, 0)
    patterns = layout.pattern(5)
    assert torch.equal(layout.pattern(2), patterns[:2]) and not torch.equal(patterns[0], patterns[1])
    assert not torch.equal(BlockLayout(40, 1, 3, 1, 1, 1).pattern(5), patterns)


def test_short_texts_are_full_attention() -> None:
    assert bool(bigbird.mask(300, 300, block=64).all()) and not bool(bigbird.mask(600, 600, block=64).all())


def test_work_is_that_of_the_blocks() -> None:
    # Two global blocks see all 64; blocks 1 and 62 see 4 and 3 drawn ones, the other 60 see 5 and 3.
    assert flops(bigbird, 4096, causal=False) == 4 * 64 * 64 * (2 * 64 + 2 * 7 + 60 * 8)


def test_weights_are_nowhere_zero_within_the_mask_of_the_first_head() -> None:
    query, key, _ = tensors(50)
    weights = bigbird.weights(query, key, block=4, random_blocks=1)
    assert torch.equal(weights[0, 0] > 0.0, bigbird.mask(50, 50, block=4, random_blocks=1))
