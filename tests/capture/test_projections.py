"""Which module is which projection is seen by what they compute, and what is not seen is not guessed."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from attncli.capture.projections import (
    Leaf,
    Leaves,
    find_output_projection,
    find_projection,
    find_stream,
    weight_of,
)
from attncli.explain.forward import explain
from attncli.explain.row import Explained
from attncli.models.loading import Loaded, LoadOptions
from attncli.models.prepared_text import from_inputs
from attncli.models.pretrained import PretrainedSource

N, D, HEADS = 5, 12, 3


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def leaf(name: str, module: nn.Module, given: Tensor) -> Leaf:
    with torch.inference_mode():
        return Leaf(name, module, given, module(given))


def turned(rows: Tensor) -> Tensor:
    """Turn each row by an angle that grows with its position, as rotary positions do."""
    angle = torch.arange(len(rows)).float().unsqueeze(-1)
    first, second = rows.chunk(2, dim=-1)
    return torch.cat(
        [first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], -1
    )


@pytest.mark.parametrize("change", [turned, lambda rows: rows, lambda rows: 0.25 * rows])
def test_a_heads_vectors_are_found_in_a_fused_projection_turned_or_not(
    change: Callable[[Tensor], Tensor],
) -> None:
    fused, x = nn.Linear(D, 3 * D), numbers(1, N, D)
    ran = [leaf("mlp.up", nn.Linear(D, 3 * D), x), leaf("layers.0.attn.qkv", fused, x)]
    keys = ran[1].output[0, :, D + 4 : D + 8]
    found = find_projection(ran, change(keys), "layers.0.attn")
    assert found is not None and found.source is not None
    assert torch.equal(found.rows, keys) and torch.equal(found.source, x[0])
    assert found.turned(change(keys)) is (change is turned)
    assert found.factor == pytest.approx(float(change(keys).norm() / keys.norm()))


def test_a_low_rank_query_is_followed_back_to_what_its_first_projection_was_given() -> None:
    x = numbers(1, N, D)
    norm_before = leaf("layers.0.norm", nn.LayerNorm(D), x)
    down = leaf("layers.0.attn.q_a", nn.Linear(D, 6), norm_before.output)
    norm = leaf("layers.0.attn.q_norm", nn.LayerNorm(6), down.output)
    up = leaf("layers.0.attn.q_b", nn.Linear(6, D), norm.output)
    found = find_projection([norm_before, down, norm, up], turned(up.output[0, :, 4:8]), "layers.0.attn")
    assert found is not None and found.source is not None and torch.equal(found.source, norm_before.output[0])


def test_what_no_module_gave_is_not_found() -> None:
    ran = [leaf("a.q", nn.Linear(D, D), numbers(1, N, D))]
    assert find_projection(ran, numbers(N, 4, seed=1), "a") is None


def test_the_output_projection_is_the_linear_map_that_was_given_the_heads() -> None:
    heads, other = numbers(N, D), numbers(N, D, seed=2)
    ran = [leaf("gate", nn.Linear(D, D), other[None]), leaf("out", nn.Linear(D, 7), heads[None])]
    found = find_output_projection(ran, heads)
    assert found is not None and found.place == 1 and torch.equal(found.weight, weight_of(ran[1].module))
    assert (
        find_output_projection([leaf("out", nn.Linear(D, 7), heads[None] * other.sigmoid())], heads) is None
    )


def test_a_linear_map_that_does_something_else_besides_is_not_taken_for_one() -> None:
    class Doubling(nn.Linear):
        def forward(self, given: Tensor) -> Tensor:
            return 2 * super().forward(given)

    heads = numbers(N, D)
    assert find_output_projection([leaf("out", Doubling(D, D), heads[None])], heads) is None


@pytest.mark.parametrize("how", ["in turn", "side by side", "normed first"])
def test_the_stream_is_found_where_its_sum_with_the_output_is_seen(how: str) -> None:
    x, heads = numbers(1, N, D), numbers(1, N, D, seed=3)
    before = [leaf("norm", nn.LayerNorm(D), x)]
    out, network = leaf("out", nn.Linear(D, D), heads), leaf("mlp", nn.Linear(D, D), before[0].output)
    total = (
        x
        + {
            "in turn": out.output,
            "side by side": out.output + network.output,
            "normed first": nn.functional.layer_norm(out.output, (D,)),
        }[how]
    )
    after = [out, network, leaf("next", nn.LayerNorm(D), total)]
    projection = find_output_projection(after, heads[0])
    assert projection is not None
    stream = find_stream(before, after, projection)
    assert stream is None if how == "normed first" else torch.allclose(stream, x[0], atol=1e-5)


def test_only_what_runs_inside_the_block_is_remembered_once() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    leaves = Leaves(network)
    with leaves.watching():
        network(torch.ones(1, 2, 3))
        assert [(leaf.name, leaf.output.shape[-1]) for leaf in leaves.take()] == [("0", 4), ("1", 4)]
        assert leaves.take() == ()
    network(torch.ones(1, 2, 3))
    assert leaves.take() == ()


def explained(model: nn.Module, kind: str = "decoder") -> Explained:
    ids = torch.tensor([[3, 7, 5, 9, 2]])
    inputs = {"input_ids": ids} | ({"decoder_input_ids": ids} if model.config.is_encoder_decoder else {})
    loaded = Loaded(model.config.model_type, model.eval(), None, LoadOptions(), None)
    lengths = dict.fromkeys(
        ["encoder", "decoder", "cross"] if "decoder_input_ids" in inputs else [kind], (5, 5)
    )
    return explain(PretrainedSource(loaded, from_inputs(loaded, inputs, lengths)), kind, 1, 1, 3)[0]


def test_gpt2s_own_kind_of_linear_layer_is_known() -> None:
    from transformers import GPT2Config, GPT2Model

    row = explained(GPT2Model(GPT2Config(n_embd=D, n_head=HEADS, n_layer=2, vocab_size=11)))
    assert row.input is not None and row.added is not None and row.added.stream is not None
    assert (row.query_before, row.factor) == (None, pytest.approx(1.0))


def test_a_query_that_was_scaled_before_is_not_taken_for_one_that_was_turned() -> None:
    from transformers import OPTConfig, OPTModel

    row = explained(OPTModel(OPTConfig(
        hidden_size=D, num_attention_heads=HEADS, num_hidden_layers=2, ffn_dim=16, vocab_size=11, word_embed_proj_dim=D
    )))  # fmt: skip
    assert (row.query_before, row.scale, row.factor) == (None, 1.0, pytest.approx(0.5))
    assert row.other.scale == pytest.approx(2.0)  # takes the 1/√4 back


def test_a_position_bias_is_a_part_of_the_row_and_one_of_zeros_is_none() -> None:
    from transformers import T5Config, T5Model

    model = T5Model(T5Config(
        d_model=D, d_kv=4, num_heads=HEADS, num_layers=2, d_ff=16, vocab_size=11, decoder_start_token_id=0
    ))  # fmt: skip
    row, cross = explained(model, "decoder"), explained(model, "cross")
    assert row.bias is not None and row.scale == 1.0 and row.other.scale == 0.5
    torch.testing.assert_close(torch.from_numpy(row.scores), torch.from_numpy(row.dots + row.bias))
    assert cross.bias is None and cross.key_input is not None
