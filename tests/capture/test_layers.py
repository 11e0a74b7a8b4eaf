from types import SimpleNamespace

import pytest
import torch
from torch import nn

from attncli.capture.layers import LayerNamer, Stacks, depth
from attncli.record import KINDS, AttentionLayer


class SelfAttention(nn.Module):
    pass


class Layer(nn.Module):
    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in (parts or {"attn": SelfAttention()}).items():
            setattr(self, name, part)


class Model(nn.Module):
    def __init__(self, depth: int, *, two_stacks: bool = False, **parts: nn.Module) -> None:
        super().__init__()
        config = SimpleNamespace(num_hidden_layers=depth, is_encoder_decoder=two_stacks, model_type="toy")
        config.get_text_config = lambda decoder: config
        self.config = config
        for name, part in parts.items():
            setattr(self, name, part)


def layers(count: int) -> nn.ModuleList:
    return nn.ModuleList(Layer() for _ in range(count))


def name_all(model: Model, names: list[str], kinds: tuple[str, ...] = ("encoder",)) -> list[AttentionLayer]:
    namer, modules = LayerNamer(Stacks(model), kinds), dict(model.named_modules(remove_duplicate=False))
    return [
        namer.attention_layer(name, modules[name], 4, 2, cross=False, causal=lambda: False) for name in names
    ]


def test_a_layer_has_the_number_in_its_modules_name() -> None:
    model = Model(4, layers=layers(4))
    assert [layer.index for layer in name_all(model, ["layers.1.attn", "layers.3.attn"])] == [1, 3]


def test_stages_and_blocks_are_numbered_through() -> None:
    model = Model(3, stages=nn.ModuleList([Layer(blocks=layers(2)), Layer(blocks=layers(1))]))
    names = ["stages.0.blocks.0.attn", "stages.0.blocks.1.attn", "stages.1.blocks.0.attn"]
    assert [layer.index for layer in name_all(model, names)] == [0, 1, 2]


def test_a_module_that_runs_again_is_the_next_layer() -> None:
    model = Model(3, groups=layers(1))
    assert [layer.index for layer in name_all(model, ["groups.0.attn"] * 3)] == [0, 1, 2]


def test_two_rows_of_layers_that_run_in_turns_are_counted_together() -> None:
    model = Model(6, high=layers(1), low=layers(2))
    names = ["low.0.attn", "low.1.attn", "high.0.attn"] * 2
    found = name_all(model, names)
    assert [layer.index for layer in found] == [0, 1, 2, 3, 4, 5]
    assert {layer.stack for layer in found} == {""}


def test_a_tower_beside_the_text_model_is_a_stack_of_its_own() -> None:
    text = Layer(embed=nn.Embedding(5, 2), layers=layers(2))
    model = Model(2, vision=Layer(layers=layers(2)), text=text)
    model.get_input_embeddings = lambda: text.embed
    found = name_all(model, ["vision.layers.0.attn", "text.layers.0.attn"])
    assert [(layer.stack, layer.index) for layer in found] == [("vision.layers", 0), ("", 0)]


def test_two_attentions_in_one_layer_are_told_apart() -> None:
    parts = [Layer(time=SelfAttention(), space=SelfAttention()) for _ in range(2)]
    model = Model(2, layers=nn.ModuleList(parts))
    names = ["layers.0.time", "layers.0.space", "layers.1.time", "layers.1.space"]
    found = [(layer.stack, layer.index) for layer in name_all(model, names)]
    assert found == [("", 0), ("layers.space", 0), ("", 1), ("layers.space", 1)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("encoder.layers.0.self_attn", "encoder"),
        ("decoder.layers.0.self_attn", "decoder"),
        ("decoder.layers.0.encoder_attn", "cross"),
        ("decoder.block.0.layer.1.EncDecAttention", "cross"),
        ("text_decoder.encoder.layer.0.crossattention.self", "cross"),
    ],
)
def test_the_kind_of_attention_of_two_stacks_is_in_the_name(name: str, kind: str) -> None:
    assert Stacks(Model(1, two_stacks=True)).kind_by_name(name) == kind


def test_depth_is_the_larger_of_what_config_and_modules_say() -> None:
    assert Stacks(Model(12, layers=layers(1))).depth("encoder") == 12
    stages = nn.ModuleList([Layer(blocks=layers(2)), Layer(blocks=layers(3))])
    assert Stacks(Model(2, stages=stages)).depth("encoder") == 5


def test_the_parts_of_a_layer_are_not_counted_as_layers_in_the_whole_t5_family() -> None:
    from families.configs import tiny_config
    from transformers import AutoModel

    t5_like = ("t5", "mt5", "umt5", "longt5", "switch_transformers", "udop")
    for family in (*t5_like, "bart"):
        config = tiny_config(family)
        with torch.device("meta"):
            stacks = Stacks(AutoModel.from_config(config))
        assert [stacks.depth(kind) for kind in KINDS] == [depth(config, kind) for kind in KINDS], family


def test_what_a_layer_without_attention_is_stands_in_the_config_or_is_its_class() -> None:
    model = Model(3, layers=layers(3))
    stacks = Stacks(model)
    assert stacks.what_is_in(model, "decoder", 1) == "Layer"
    model.config.layer_types = ["full_attention", "linear_attention", "full_attention"]
    assert stacks.what_is_in(model, "decoder", 1) == "linear attention"
    assert stacks.what_is_in(model, "decoder", 2) == "Layer"  # the config is not believed
    model.config.layers_block_type = ["attention", "mamba", "attention"]
    assert stacks.what_is_in(model, "decoder", 1) == "mamba"


def test_the_embedding_of_a_two_stack_model_does_not_hide_its_other_stack() -> None:
    encoder = Layer(embed=nn.Embedding(5, 2), layers=layers(1))
    model = Model(1, two_stacks=True, encoder=encoder, decoder=Layer(layers=layers(1)))
    model.get_input_embeddings = lambda: encoder.embed
    assert Stacks(model).root == "" and torch.is_tensor(encoder.embed.weight)
