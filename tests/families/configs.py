"""Makes a tiny random model of any family that transformers knows: same architecture, a few thousand weights."""

from __future__ import annotations

import inspect
from typing import Any

from families.settings import AFTER, FRAGILE, NOT_A_MODEL, SETTINGS

VOCABULARY = 300

SIZES: dict[str, int] = (
    dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "emb_dim", "hidden_dim", "encoder_hidden_size",
         "decoder_hidden_size", "embedding_size", "word_embed_proj_dim", "projection_dim", "text_hidden_size",
         "encoder_hidden_dim", "decoder_hidden_dim", "codebook_dim", "out_hidden_size", "model_dim", "output_dim",
         "projector_hidden_size", "vision_feature_size", "cross_hidden_size", "output_size", "decoder_dim"),
        32,
    )
    | dict.fromkeys(
        ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner", "mlp_dim",
         "ffn_hidden_size", "dense_intermediate_size", "feed_forward_dim", "moe_intermediate_size",
         "shared_expert_intermediate_size", "block_ff_dim", "intermediate_size_mlp", "shared_intermediate_size",
         "expert_ffn_hidden_size", "decoder_intermediate_size", "encoder_intermediate_size",
         "prefix_dense_intermediate_size",
         "dense_ffn_hidden_size", "expert_intermediate_size"),
        48,
    )
    | dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "depth",
         "num_encoder_layers", "num_decoder_layers", "encoder_num_hidden_layers", "decoder_num_hidden_layers",
         "num_decoder_blocks", "decoder_depth", "num_blocks", "encoder_n_layers", "decoder_num_layers"),
        2,
    )
    | dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
         "decoder_attention_heads", "encoder_num_attention_heads", "decoder_num_attention_heads",
         "num_encoder_attention_heads", "num_decoder_attention_heads", "swa_num_attention_heads"),
        4,
    )
    | dict.fromkeys(("num_key_value_heads", "n_head_kv", "num_kv_heads", "encoder_num_key_value_heads",
                     "decoder_num_key_value_heads", "num_global_key_value_heads", "swa_num_key_value_heads"), 2)
    | dict.fromkeys(("head_dim", "d_kv", "attention_head_size", "kv_channels", "swa_head_dim", "global_head_dim",
                     "swa_v_head_dim", "attention_head_dim"), 8)
    | dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts",
                     "encoder_moe_num_experts"), 4)
    | dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "num_experts_per_token", "top_k_experts"), 2)
    | dict.fromkeys(("n_group", "topk_group", "num_expert_groups", "n_shared_experts", "moe_num_shared_experts"), 1)
    | dict.fromkeys(("q_lora_rank", "kv_lora_rank", "o_lora_rank"), 16)
    | dict.fromkeys(("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"), 8)
    | dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_source_positions", "max_target_positions",
                     "max_2d_position_embeddings"), 128)
    | {
        "vocab_size": VOCABULARY, "sliding_window": 4, "attention_chunk_size": 6, "image_size": 32, "patch_size": 8,
        "first_k_dense_replace": 1, "index_topk": 5, "index_n_heads": 4, "index_head_dim": 8, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "mamba_n_heads": 8,
        "mamba_d_head": 8, "mamba_d_state": 8, "mamba_num_heads": 8, "mamba_head_dim": 8, "state_size": 8,
        "ssm_state_size": 8, "n_groups": 1, "mamba_n_groups": 1, "time_step_rank": 4, "lru_width": 32,
        "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCABULARY, "lambda_dim": 8,
        "dense_hidden_size": 32, "type_vocab_size": 2, "window_size": 4,
    }
)  # fmt: skip
"""Sizes by the names that configs have for them."""

LISTS = {
    "hidden_sizes": [16, 32, 48, 64], "embed_dims": [16, 32, 48, 64], "encoder_hidden_sizes": [16, 32, 48, 64],
    "depths": [1, 2, 1, 1], "num_heads": [1, 2, 4, 4], "num_attention_heads": [1, 2, 4, 4],
}  # fmt: skip
"""Sizes of models with stages; cut to the number of stages."""


class NotBuildable(Exception):
    """No tiny model of a family can be made here, for the reason given."""


def tiny_model(family: str) -> Any:
    """Make a tiny model, the same each time.

    Raises:
        NotBuildable: Something is missing: a library, a config that the general sizes do not fit.
    """
    from transformers import AutoModel

    return _made(family, AutoModel)


def lm_model(family: str) -> Any:
    """Make a tiny model that predicts tokens, as `tiny_model` does; None where the family has no such class.

    Raises:
        NotBuildable: As there.
    """
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM
    from transformers import AutoModelForSpeechSeq2Seq as Speech

    config = tiny_config(family)
    text = AutoModelForSeq2SeqLM if getattr(config, "is_encoder_decoder", False) else AutoModelForCausalLM
    kinds = [kind for kind in (Speech, text) if type(config) in kind._model_mapping]
    return _made(family, kinds[0]) if kinds else None


def _made(family: str, kind: Any) -> Any:
    import torch

    if family in NOT_A_MODEL:
        raise NotBuildable(NOT_A_MODEL[family])
    try:
        config = tiny_config(family)
        with torch.device("meta"):
            size = sum(parameter.numel() for parameter in kind.from_config(config).parameters())
    except NotBuildable:
        raise
    except Exception as error:  # whatever a family's own code raises
        raise NotBuildable(_first_line(error)) from error
    if size > 200_000_000:
        raise NotBuildable(f"the general sizes leave {size // 1_000_000} million weights")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        try:
            model = kind.from_config(config).eval()
        except Exception as error:
            raise NotBuildable(_first_line(error)) from error
        if family not in FRAGILE:
            _spread(model)
    return model


def _spread(model: Any) -> None:
    """Make weights large enough that attention is not flat: on flat attention a wrong order of heads goes unseen."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() >= 2 and parameter.is_floating_point():
                parameter.copy_(torch.randn_like(parameter) * (1.5 / max(parameter[0].numel(), 1) ** 0.5))
            elif name.endswith(("sinks", "s_aux", "sink")):
                parameter.copy_(torch.randn_like(parameter))


def tiny_config(family: str) -> Any:
    """Make a family's config with small sizes."""
    from transformers import AutoConfig

    config_class = type(AutoConfig.for_model(family)) if family not in SETTINGS else _config_class(family)
    config = _tiny(config_class, SETTINGS.get(family, {}))
    for name, value in AFTER.get(family, {}).items():
        setattr(config, name, value)
    if (
        getattr(config, "is_encoder_decoder", False)
        and getattr(config, "decoder_start_token_id", None) is None
    ):
        config.decoder_start_token_id = 2  # as all of their checkpoints say
    return config


def _config_class(family: str) -> Any:
    from transformers import CONFIG_MAPPING

    return CONFIG_MAPPING[family]


def _tiny(config_class: Any, extra: dict[str, Any]) -> Any:
    default = _default(config_class)
    known = vars(default) if default is not None else {}
    keywords: dict[str, Any] = {}
    for name, value in known.items():
        small = _small(name, value)
        if small is not None:
            keywords[name] = small
    for name, sub_class in (getattr(config_class, "sub_configs", None) or {}).items():
        given = extra.get(name, {})
        sub_class = type(known[name]) if known.get(name) is not None else sub_class
        if isinstance(given, dict) and "model_type" in given:
            sub_class = _config_class(given["model_type"])
        if "Auto" not in sub_class.__name__ and isinstance(given, dict):
            keywords[name] = _tiny(sub_class, given).to_dict()
    own = {
        name: value for name, value in extra.items() if name not in keywords or not isinstance(value, dict)
    }
    if "kv_lora_rank" in known and "num_key_value_heads" in known:
        keywords["num_key_value_heads"] = keywords.get(
            "num_attention_heads", 4
        )  # latents are expanded to every head
    keywords |= own
    keywords = {name: value for name, value in keywords.items() if value is not ...}
    return config_class(**keywords)


def _default(config_class: Any) -> Any:
    try:
        return config_class()
    except Exception:  # needs arguments; SETTINGS give them
        return None


def _small(name: str, value: Any) -> Any:
    """Give a smaller value for one entry of a config; None to leave it."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        if name.endswith(("_token_id", "_token_index", "_index")) and value >= VOCABULARY:
            return VOCABULARY - 30 + (hash_of(name) % 28)
        return min(SIZES[name], value) if name in SIZES and value > 0 else None
    if value is None and name == "pad_token_id":
        return 0
    if (
        isinstance(value, (list, tuple))
        and value
        and name in LISTS
        and all(isinstance(v, int) for v in value)
    ):
        return LISTS[name][: len(value)]
    if isinstance(value, list) and name.endswith("token_id") and all(isinstance(v, int) for v in value):
        return [v if v < VOCABULARY else VOCABULARY - 1 for v in value]
    return None


def hash_of(name: str) -> int:
    """Give the same number for a name in every run."""
    return sum(ord(letter) * (i + 1) for i, letter in enumerate(name))


def _first_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{type(error).__name__}: {text}"[:160]


def accepts(model: Any, name: str) -> bool:
    """Tell whether a model's forward pass takes an argument of this name."""
    return name in inspect.signature(model.forward).parameters
