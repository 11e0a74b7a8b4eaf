"""What is remembered of a network that runs, and what explain makes of models with ways of their own."""

import pytest
import torch
from torch import nn

from attncli.capture.projections import Leaves
from attncli.explain.forward import explain
from attncli.explain.row import Explained
from attncli.models.loading import Loaded, LoadOptions
from attncli.models.prepared_text import from_inputs
from attncli.models.pretrained import PretrainedSource

N, D, HEADS = 5, 12, 3


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
