"""A logit is the sum of what the model's parts add to it, as transformers' own modules say; or it is refused."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
import tiny
import torch
from commandline import Cli

from attncli.commands.schema import schema_text
from attncli.errors import CaptureError, UsageError
from attncli.explain.logit import Attribution, attribute
from attncli.explain.next_token import next_token
from attncli.models.loading import LoadOptions
from attncli.models.pretrained import PretrainedSource, open_model
from attncli.models.trained import TrainedSource

TEXT, TOKEN, AT = "the animal was too tired it did cross", 6, 5
GROUPED = {"num_key_value_heads": 2}

Write = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Write:
    def write(family: str, **changes: Any) -> str:
        from transformers import AutoConfig, AutoModelForCausalLM

        sizes: dict[str, Any] = {
            "vocab_size": len(tiny.WORDS), "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
            "intermediate_size": 48, "max_position_embeddings": 64,
        }  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **(sizes | changes)))
            for parameter in model.parameters():
                parameter.data += 0.2 * torch.randn_like(parameter)
        return str(tiny.write_model(tmp_path_factory.mktemp(family), model))

    return write


def opened(name: str, dtype: str = "float64") -> PretrainedSource:
    return open_model(name, TEXT, options=LoadOptions(dtype=dtype, head=True))


def total(found: Attribution) -> float:
    parts = [found.embedding, found.biases, *found.feed_forward.values(), *(one.logit for one in found.heads)]
    return sum(parts)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("llama", GROUPED),
        ("llama", GROUPED | {"tie_word_embeddings": True}),
        ("gemma2", GROUPED | {"head_dim": 8, "final_logit_softcapping": 3.0}),
        ("gpt_neox", {}),
        ("cohere", GROUPED | {"logit_scale": 0.25}),
        ("mixtral", GROUPED | {"num_local_experts": 4}),
        (
            "granite",
            GROUPED | {"residual_multiplier": 0.3, "embedding_multiplier": 2.0, "logits_scaling": 3.0},
        ),
    ],
)
def test_the_parts_sum_to_the_models_own_logit(folder: Write, family: str, changes: dict[str, Any]) -> None:
    source = opened(folder(family, **changes), "float32")  # experts run in no other
    found, _ = attribute(source, TOKEN, AT)
    with torch.inference_mode():
        logits = source.loaded.model(**source.prepared.inputs).logits[0, AT]
    assert found.logit == pytest.approx(float(logits[TOKEN]), rel=1e-5)
    assert total(found) == pytest.approx(found.logit, abs=1e-4)
    assert found.probability == pytest.approx(float(logits.softmax(-1)[TOKEN]), rel=1e-4)
    assert (len(found.heads), len(found.feed_forward)) == (12, 3)
    for head in found.heads:
        assert head.by_key is not None and sum(head.by_key) == pytest.approx(head.logit, abs=1e-5)


def test_each_part_is_what_the_models_modules_give(folder: Write) -> None:
    source = opened(folder("llama", **GROUPED))
    found, _ = attribute(source, TOKEN, AT)
    model, kept = source.loaded.model.requires_grad_(False), dict[str, Any]()
    for name in ("model.layers.1.mlp", "model.layers.1.self_attn.o_proj", "model.norm"):
        keep = lambda m, given, made, name=name: kept.update({name: (given[0][0, AT], made[0, AT])})  # noqa: E731
        model.get_submodule(name).register_forward_hook(keep)
    with torch.inference_mode():
        model(**source.prepared.inputs)
    scale = (kept["model.norm"][0].square().mean() + model.model.norm.variance_epsilon).sqrt()
    direction = model.lm_head.weight[TOKEN] * model.model.norm.weight / scale
    embedding = model.model.embed_tokens.weight[source.prepared.inputs["input_ids"][0, AT]]
    given = kept["model.layers.1.self_attn.o_proj"][0].view(4, 8)
    heads = [
        float(
            given[head] @ model.model.layers[1].self_attn.o_proj.weight.T[8 * head : 8 * head + 8] @ direction
        )
        for head in range(4)
    ]
    assert found.embedding == pytest.approx(float(embedding @ direction), abs=1e-5)
    assert found.feed_forward[1] == pytest.approx(float(kept["model.layers.1.mlp"][1] @ direction), abs=1e-5)
    assert [one.logit for one in found.heads[4:8]] == pytest.approx(heads, abs=1e-5)


def test_a_model_without_feed_forward_networks_has_none_in_the_sum() -> None:
    source = TrainedSource("tiny-decoder", "the animal was too tired")
    found, _ = attribute(source, next_token(source, " the")[0].id or 0, 3)
    assert total(found) == pytest.approx(found.logit, abs=1e-4)
    assert len(found.feed_forward) == (2 if source.model.shape.feed_forward else 0)


@pytest.mark.parametrize(
    ("family", "changes", "why"),
    [
        ("lfm2", GROUPED | {"layer_types": ["conv", "full_attention", "conv"]}, "no attention"),
        (
            "lfm2",
            GROUPED | {"layer_types": ["full_attention", "conv", "full_attention"]},
            "more than one part",
        ),
    ],
)
def test_a_model_that_adds_up_otherwise_is_refused(
    folder: Write, family: str, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(CaptureError, match=why):
        attribute(opened(folder(family, **changes)), TOKEN, AT)


def test_an_encoder_predicts_no_next_token(tiny_bert: str) -> None:
    with pytest.raises(UsageError, match="no next token"):
        next_token(open_model(tiny_bert, TEXT), "it")


def test_a_text_of_several_tokens_is_refused_and_a_blank_is_asked_after() -> None:
    source = TrainedSource("tiny-decoder", "the animal was too tired")
    with pytest.raises(UsageError, match="tokens"):
        next_token(source, " unheard-of")
    token, notes = next_token(source, "the")
    assert token.text == "the" and " the" in notes[0]


def test_the_command_shows_the_sum_the_heads_and_where_from(cli: Cli) -> None:
    result = cli("explain", "the animal was too tired", "--to", " the", "-f", "table")
    assert (result.code, result.err) == (0, "")
    for shown in ("What adds up to the logit", "from these tokens", "rank", "final norm"):
        assert shown in result.out


def test_the_document_follows_its_schema(cli: Cli) -> None:
    document = json.loads(cli("explain", "the animal was too tired", "--to", " the", "--json").out)
    jsonschema.validate(document, json.loads(schema_text("explain")))
    assert len(document["heads"][0]["keys"]) == len(document["key_tokens"]["decoder"])


def test_the_option_looks_at_all_layers(cli: Cli) -> None:
    result = cli("explain", "the animal was", "--to", " the", "--layer", "1")
    assert result.code == 2 and "--to and --layer were both given" in result.err
