from pathlib import Path

import pytest
import tiny
import torch

from attncli.models.influence import influential
from attncli.models.loading import load


@pytest.mark.parametrize(
    ("write", "harmless"),
    [
        (tiny.write_bert, {"pooler.dense.bias", "pooler.dense.weight"}),
        (tiny.write_llama, {"norm.weight"}),
        (tiny.write_bloom, {"ln_f.bias", "ln_f.weight"}),
        (tiny.write_vit, {"layernorm.bias", "layernorm.weight", "pooler.dense.bias", "pooler.dense.weight"}),
        (tiny.write_whisper, {"decoder.layer_norm.bias", "decoder.layer_norm.weight"}),
    ],
)
def test_only_what_comes_after_the_last_attention_has_no_influence(
    write, harmless: set[str], tmp_path: Path
) -> None:
    model = load(str(write(tmp_path)), tokenizer=False).model
    names = {name for name, _ in model.named_parameters()}
    assert names - set(influential(model, names, head=False)) >= harmless
    for name in names:
        assert (influential(model, [name], head=False) == []) == (name in harmless)


def test_a_model_is_left_as_it_was(tmp_path: Path) -> None:
    model = load(str(tiny.write_bert(tmp_path)), tokenizer=False).model
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    influential(model, list(before), head=False)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


def test_where_no_input_fits_everything_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(str(tiny.write_bert(tmp_path)), tokenizer=False).model
    monkeypatch.setattr(
        "attncli.models.influence.small_inputs", lambda model: iter([{"none": torch.ones(1)}])
    )
    assert influential(model, ["pooler.dense.bias"], head=False) == ["pooler.dense.bias"]


def test_statistics_that_wait_to_be_filled_count_and_counters_do_not(tmp_path: Path) -> None:
    model = load(str(tiny.write_bert(tmp_path)), tokenizer=False).model
    model.encoder.layer[0].register_buffer("running_mean", torch.zeros(24))
    model.encoder.layer[0].register_buffer("seen", torch.tensor(0))
    model.encoder.layer[0].register_buffer("table", torch.arange(24.0))
    names = [f"encoder.layer.0.{name}" for name in ("running_mean", "seen", "table")]
    assert influential(model, names, head=False) == names[:1]
