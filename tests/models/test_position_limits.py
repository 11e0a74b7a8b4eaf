import re
from pathlib import Path
from typing import Any

import pytest
import tiny
from commandline import Cli
from transformers import AutoConfig, AutoModel

from attncli.models.position_limits import embedding_rows, token_limit

SIZES: dict[str, Any] = {
    "vocab_size": len(tiny.WORDS),
    "hidden_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 20,
    "pad_token_id": 1,
    "bos_token_id": 2,
    "eos_token_id": 3,
}


class Endless:
    """Stands for a tokenizer without a limit."""

    model_max_length = 10**30


def limit_of(family: str, **changes: Any) -> int:
    model = AutoModel.from_config(AutoConfig.for_model(family, **(SIZES | changes))).eval()
    return token_limit(model, Endless())


@pytest.mark.parametrize(
    "family",
    ["roberta", "xlm-roberta", "camembert", "data2vec-text", "mpnet", "roberta-prelayernorm", "ibert"],
)
def test_positions_that_begin_after_the_padding_tokens_leave_fewer(family: str) -> None:
    assert limit_of(family) == 18


def test_the_same_with_settings_of_their_own() -> None:
    assert limit_of("longformer", attention_window=[4]) == 18
    assert limit_of("esm", position_embedding_type="absolute", mask_token_id=3) == 18
    assert limit_of("xmod", languages=["en_XX"], default_language="en_XX") == 18
    assert limit_of("roberta", pad_token_id=4) == 15


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "distilbert"])
def test_other_families_read_what_their_config_says(family: str) -> None:
    assert limit_of(family) == 20


def test_a_config_that_knows_no_padding_is_asked_for_its_positions() -> None:
    sizes = {"n_embd": 32, "n_layer": 1, "n_head": 4, "rotary_dim": 4, "vocab_size": 20, "n_positions": 20}
    model = AutoModel.from_config(AutoConfig.for_model("codegen", **sizes)).eval()
    assert not hasattr(model.config, "pad_token_id") and token_limit(model, Endless()) == 20


def test_rows_that_are_never_used_do_not_count() -> None:
    changes = {"ffn_dim": 40, "word_embed_proj_dim": 24, "hidden_size": 24}
    assert limit_of("opt", **changes) == 20  # its table has two rows more


def test_both_sides_of_an_encoder_decoder_have_their_own(tmp_path: Path) -> None:
    model = AutoModel.from_pretrained(tiny.write_marian(tmp_path)).eval()
    assert token_limit(model, Endless()) == token_limit(model, Endless(), target=True) == 16
    assert embedding_rows(model) == embedding_rows(model, target=True) == len(tiny.WORDS)


def test_both_remedies_for_a_text_that_is_too_long_work(cli: Cli, tmp_path: Path) -> None:
    folder = str(tiny.write_bert(tmp_path / "bert"))
    config = AutoConfig.for_model("mpnet", **SIZES)
    AutoModel.from_config(config).save_pretrained(folder)
    told = cli("show", "the animal " * 20, "-m", folder)
    assert told.code == 2 and "reads at most 18" in told.err
    stride = re.search(r"--stride (\d+)", told.err)
    assert stride is not None
    for remedy in (("--truncate",), ("--stride", stride[1])):
        assert cli("show", "the animal " * 20, "-m", folder, "--layer", "0", "--head", "0", *remedy).code == 0
