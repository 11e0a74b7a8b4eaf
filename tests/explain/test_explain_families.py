"""What explain says of each family's projections is what that family's own code computes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from torch import Tensor, nn

from attncli.errors import UsageError
from attncli.explain.forward import explain
from attncli.explain.row import Explained
from attncli.models.pretrained import PretrainedSource, open_model

TEXT = "the animal was too tired ."
HYBRID = {
    "num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
    "linear_value_head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16, "partial_rotary_factor": 0.25,
}  # fmt: skip
LATENT = {
    "num_key_value_heads": 4, "q_lora_rank": 12, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
    "v_head_dim": 6, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    "moe_intermediate_size": 16, "first_k_dense_replace": 2, "head_dim": 4,
}  # fmt: skip
SHARING = {
    "num_hidden_layers": 4, "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": len(tiny.WORDS), "laurel_rank": 4, "altup_num_inputs": 2,
    "layer_types": ["sliding_attention", "full_attention"] * 2, "activation_sparsity_pattern": [0.0] * 4,
    "intermediate_size": [40] * 4,
}  # fmt: skip
ROTATED = {"Q": "rotate(x·W_Q)", "K": "rotate(x·W_K)", "V": "x·W_V"}
NORMED = {"Q": "rotate(norm(x·W_Q))", "K": "rotate(norm(x·W_K))", "V": "x·W_V"}
FAMILIES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "llama": ({}, ROTATED),
    "gptj": ({"n_embd": 32, "n_head": 4, "n_layer": 2, "rotary_dim": 4}, ROTATED),
    "qwen3": ({}, NORMED),
    "gemma3_text": ({"layer_types": ["sliding_attention", "full_attention"]}, NORMED),
    "olmo2": ({}, NORMED),
    "llama4_text": (
        {"num_local_experts": 2, "intermediate_size_mlp": 40},
        {"Q": "norm(rotate(x·W_Q))", "K": "norm(rotate(x·W_K))", "V": "x·W_V"},
    ),
    "bitnet": ({}, ROTATED),
    "qwen3_next": (HYBRID, NORMED),
    "gemma3n_text": (SHARING, {"Q": "rotate(norm(x·W_Q))", "K": "K of layer 1", "V": "V of layer 1"}),
    "deepseek_v3": (
        LATENT,
        {
            "Q": "rotate(norm(x·W_Q1)·W_Q2)",
            "K": "[norm(x·W_K1)·W_K2, rotate(x·W_K3)]",
            "V": "norm(x·W_K1)·W_V",
        },
    ),
    "gpt2": (
        {"n_embd": 32, "n_head": 4, "n_layer": 2},
        {letter: f"x·W_{letter} + b_{letter}" for letter in "QKV"},
    ),
    "opt": (
        {"ffn_dim": 40, "word_embed_proj_dim": 32, "max_position_embeddings": 64},
        {"Q": "0.354·(x·W_Q + b_Q)", "K": "x·W_K + b_K", "V": "x·W_V + b_V"},
    ),
}


def write(folder: Path, family: str, changes: dict[str, Any]) -> Path:
    from transformers import AutoConfig, AutoModel

    sizes = {
        "vocab_size": len(tiny.WORDS), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 40, "pad_token_id": 0, "bos_token_id": 2,
        "eos_token_id": 3, "initializer_range": 0.2,
    }  # fmt: skip
    if family in ("gptj", "gpt2"):
        sizes = {name: sizes[name] for name in ("vocab_size", "bos_token_id", "eos_token_id")}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = AutoModel.from_config(AutoConfig.for_model(family, **(sizes | changes)))
        for parameter in model.parameters():
            if parameter.dim() == 1:  # norms' weights and biases, which would be all the same
                parameter.data += 0.2 * torch.randn_like(parameter)
    return tiny.write_model(folder, model)


def explained(folder: Path, family: str, layer: int = 1, head: int = 1) -> tuple[Explained, PretrainedSource]:
    source = open_model(str(write(folder, family, FAMILIES[family][0])), TEXT)
    return explain(source, "decoder", layer, head, 4)[0], source


def near(ours: np.ndarray | None, theirs: Tensor) -> None:
    assert ours is not None
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=0, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_formulas_are_those_of_the_family(tmp_path: Path, family: str) -> None:
    row, _ = explained(tmp_path, family, 3 if FAMILIES[family][0].get("num_hidden_layers") == 4 else 1)
    assert {letter: made.formula for letter, made in row.made.items()} == FAMILIES[family][1]
    assert row.added is not None
    assert row.added.between == {"bitnet": "norm", "qwen3_next": "gate"}.get(family)


@pytest.mark.parametrize("family", ["qwen3", "olmo2"])
def test_the_vectors_before_each_step_are_what_the_modules_compute(tmp_path: Path, family: str) -> None:
    row, source = explained(tmp_path, family)
    attention = source.network.layers[1].self_attn
    linear = attention.q_proj(torch.from_numpy(row.input))
    split = linear.view(4, 8) if family == "qwen3" else linear
    assert [one.step for one in row.made["Q"].earlier] == ["rotation", "norm"]
    near(row.made["Q"].earlier[1].rows[4], linear[8:16])
    near(row.query_before, attention.q_norm(split).flatten()[8:16])
    assert row.made["K"].norms == (("head",) if family == "qwen3" else ("all heads",))


def test_a_layer_that_shares_keys_names_the_layer_that_made_them(tmp_path: Path) -> None:
    row, source = explained(tmp_path, "gemma3n_text", 3)
    first, _ = explain(source, "decoder", 1, 1, 4)
    np.testing.assert_array_equal(row.key, first.key)
    assert (row.made["K"].layer, row.made["V"].layer, row.made["Q"].layer) == (1, 1, None)
    assert first.made["V"].formula == "norm(x·W_V)" and row.factor is None


def test_a_gated_heads_part_is_what_its_gated_output_adds(tmp_path: Path) -> None:
    row, source = explained(tmp_path, "qwen3_next", 3)
    attention = source.network.layers[3].self_attn
    gate = attention.q_proj(torch.from_numpy(row.input)).view(4, 2, 8)[1, 1].sigmoid()
    alone = torch.zeros(32)
    alone[8:16] = torch.from_numpy(row.output) * gate
    near(row.added.vector, attention.o_proj(alone))
    assert row.added.gate == "layers.3.self_attn.q_proj"


def test_heads_parts_after_a_norm_of_all_of_them_sum_up_to_the_layers(tmp_path: Path) -> None:
    row, source = explained(tmp_path, "bitnet")
    rows = [row if head == 1 else explain(source, "decoder", 1, head, 4)[0] for head in range(4)]
    near(sum(row.added.vector for row in rows), torch.from_numpy(row.added.all_heads))
    attention = source.network.layers[1].self_attn
    every = attention.attn_sub_norm(torch.from_numpy(np.concatenate([row.output for row in rows])))
    near(row.added.vector, every[8:16] @ attention.o_proj.weight[:, 8:16].T)


def test_what_a_function_makes_of_the_keys_is_not_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.llama import modeling_llama

    original = modeling_llama.apply_rotary_pos_emb

    def strange(q: Tensor, k: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        q, k = original(q, k, *args, **kwargs)
        return q, nn.functional.normalize(k, dim=-1).tanh()

    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", strange)
    row, _ = explained(tmp_path, "llama")
    assert row.made["Q"].formula == "rotate(x·W_Q)"
    assert row.made["K"].formula is None and row.key_before is None and row.factor is None


def test_a_layer_without_attention_is_refused_by_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"layer 0 has no decoder attention \(linear attention\)"):
        explained(tmp_path, "qwen3_next", 0)
