"""The mask that ran decides whether a model reads one way or both, whatever its classes say."""

from typing import Any

import pytest
import torch

from attncli.capture.layers import Stacks
from attncli.models.direction import _guess, kind_of_single_stack
from attncli.record import Kind

SMALL = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 0}  # fmt: skip
GEMMA = SMALL | {"num_key_value_heads": 2, "head_dim": 8}
GPT2 = {"vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
BLOOM = {"vocab_size": 50, "hidden_size": 32, "n_layer": 2, "n_head": 4}
FAMILIES: list[tuple[str, dict[str, Any], Kind]] = [
    ("gemma3_text", GEMMA, "decoder"),
    ("gemma3_text", GEMMA | {"use_bidirectional_attention": True}, "encoder"),
    ("clip_text_model", SMALL, "decoder"),
    ("bert", SMALL, "encoder"),
    ("bert", SMALL | {"is_decoder": True}, "decoder"),
    ("gpt2", GPT2, "decoder"),
    ("imagegpt", GPT2, "decoder"),
    ("bloom", BLOOM, "decoder"),
    ("xlnet", {"vocab_size": 50, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}, "encoder"),
]


def tiny(family: str, settings: dict[str, Any], attention: str | None = None) -> Any:
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(family, **settings)
    return AutoModel.from_config(config, attn_implementation=attention).eval()


@pytest.mark.parametrize(("family", "settings", "kind"), FAMILIES)
def test_a_model_is_a_decoder_where_its_mask_hides_the_future(
    family: str, settings: dict[str, Any], kind: Kind
) -> None:
    assert kind_of_single_stack(tiny(family, settings)) == kind


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's, of flex_attention
@pytest.mark.parametrize("attention", ["eager", "flex_attention"])
@pytest.mark.parametrize(("family", "settings", "kind"), FAMILIES[:2])
def test_the_implementation_does_not_matter(
    family: str, settings: dict[str, Any], kind: Kind, attention: str
) -> None:
    assert kind_of_single_stack(tiny(family, settings, attention)) == kind


def test_the_model_stops_after_its_first_attention() -> None:
    model = tiny("bert", SMALL)
    ran: list[int] = []
    for number, layer in enumerate(model.encoder.layer):
        layer.register_forward_hook(lambda *_, number=number: ran.append(number))
    assert kind_of_single_stack(model) == "encoder" and ran == []
    with torch.no_grad():  # and is whole again
        model(torch.tensor([[5, 6]]))
    assert ran == [0, 1]


def test_a_model_that_does_not_run_on_ids_alone_is_what_its_config_says(monkeypatch: Any) -> None:
    model = tiny("bert", SMALL | {"is_decoder": True})
    monkeypatch.setattr(model, "forward", lambda **inputs: 1 / torch.zeros(1).view(2))
    assert kind_of_single_stack(model) == _guess(model, Stacks(model)) == "decoder"
