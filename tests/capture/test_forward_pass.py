"""What is watched below the interface, with toy models whose right answer is known."""

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor, nn

from attncli.capture.blocks import BlockFeed
from attncli.capture.forward_pass import Watch
from attncli.capture.weight_layouts import allowed_by
from attncli.errors import CaptureError
from attncli.models.loading import Loaded, LoadOptions, load
from attncli.models.prepared_text import from_inputs, prepare
from attncli.models.pretrained import PretrainedSource
from attncli.observers.selection import Selection, parse_selection
from attncli.observers.weights import FullWeights
from attncli.record import AttentionLayer, Request, Run, WeightBlock

N, D, HEADS = 5, 6, 2


class Keep:
    def __init__(self) -> None:
        self.blocks: list[WeightBlock] = []

    def request(self, layer: AttentionLayer) -> Request:
        return Request()

    def update(self, block: WeightBlock) -> None:
        self.blocks.append(block)


class ToyAttention(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.num_heads = how, HEADS
        self.q_proj = nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q_proj(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        if self.how == "sdpa":
            return nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.7)
        if self.how == "folded":
            flat = q.flatten(0, 1)
            return torch.bmm((flat @ flat.mT).softmax(-1), flat)
        if self.how == "twice":
            return nn.Softmax(dim=-1)(q @ q.mT) @ torch.softmax(q @ q.mT * 2, dim=-1)
        if self.how == "windows":
            q = q.reshape(4, HEADS, -1, q.shape[-1])
        return nn.functional.softmax(q @ q.mT, dim=-1) @ q


class Toy(nn.Module):
    def __init__(self, how: str, attention: nn.Module | None = None) -> None:
        super().__init__()
        config = SimpleNamespace(num_hidden_layers=1, is_encoder_decoder=False, model_type="toy")
        config.get_text_config = lambda decoder: config
        self.config, self.layers = config, nn.ModuleList([attention or ToyAttention(how)])

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.softmax(x, dim=-1)  # no attention: the module at work is not an attention module
        return self.layers[0](x * gate)


def watch(how: str, batch: int = 2, length: int = N) -> tuple[Keep, BlockFeed, Tensor]:
    torch.manual_seed(0)
    model, x, keep = Toy(how), torch.randn(batch, length, D), Keep()
    emitter = BlockFeed([keep])
    with torch.inference_mode(), Watch(model, emitter, ("encoder",), batch).watching():
        model(x)
        return keep, emitter, model.layers[0].q_proj(x * torch.softmax(x, -1))


@pytest.mark.parametrize(("how", "path"), [("sdpa", "interface"), ("folded", "eager"), ("plain", "eager")])
def test_attention_is_seen_at_sdpa_and_at_softmax(how: str, path: str) -> None:
    keep, emitter, projected = watch(how)
    query = projected.unflatten(-1, (HEADS, -1)).transpose(1, 2)
    scores = query @ query.mT
    if how == "sdpa":
        scores = (0.7 * scores).masked_fill(~torch.ones(N, N).tril().bool(), -torch.inf)
    torch.testing.assert_close(keep.blocks[0].weights, scores.softmax(-1))
    assert [(layer.index, layer.heads) for layer in emitter.attention_layers] == [(0, HEADS)]
    assert emitter.reports[0].capture == path


def test_two_softmaxes_in_one_module_are_refused_by_name() -> None:
    with pytest.raises(
        CaptureError, match=r"layers\.0 \(ToyAttention\) computes its attention in several pieces"
    ):
        watch("twice")


def test_windows_in_the_batch_axis_are_refused() -> None:
    with pytest.raises(CaptureError, match="layer 0 attends inside 4 pieces of a batch of 2"):
        watch("windows", length=6)


@pytest.mark.parametrize("need_weights", [True, False])
def test_torchs_own_attention_module_is_seen_on_its_fused_path_too(need_weights: bool) -> None:
    class AskingAttention(nn.MultiheadAttention):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x, x, x, need_weights=need_weights)[0]

    torch.manual_seed(0)
    attention, keep = nn.MultiheadAttention(D, HEADS, batch_first=True).eval(), Keep()
    attention.__class__ = AskingAttention
    model, x = Toy("", attention), torch.randn(2, N, D)
    with torch.inference_mode():
        plain = model(x)
        with Watch(model, BlockFeed([keep]), ("encoder",), 2).watching():
            assert torch.equal(model(x), plain)
        gated = x * torch.softmax(x, -1)
        theirs = nn.MultiheadAttention.forward(attention, gated, gated, gated, average_attn_weights=False)[1]
    torch.testing.assert_close(keep.blocks[0].weights, theirs)


def test_torchs_own_layer_is_seen_though_it_would_run_in_one_step_by_itself() -> None:
    class AskingLayer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.TransformerEncoderLayer(D, HEADS, 8, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.attention(x)

    torch.manual_seed(0)
    keep, model, x = Keep(), Toy("", AskingLayer()).eval(), torch.randn(2, N, D)
    with torch.inference_mode(), Watch(model, BlockFeed([keep]), ("encoder",), 2).watching():
        model(x)
    gated = x * torch.softmax(x, -1)
    inner = model.layers[0].attention.self_attn
    theirs = nn.MultiheadAttention.forward(inner, gated, gated, gated, average_attn_weights=False)[1]
    torch.testing.assert_close(keep.blocks[0].weights, theirs)


class ChangingAttention(ToyAttention):
    """Changes its query and its output in place when they have been used, as some gates do."""

    def forward(self, x: Tensor) -> Tensor:
        q = self.q_proj(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        output = nn.functional.scaled_dot_product_attention(q, q, q, scale=0.7)
        q.mul_(3.0)
        return output.sigmoid_()


def test_what_the_model_changes_afterwards_is_shown_as_it_was() -> None:
    torch.manual_seed(0)
    keep, model, x = Keep(), Toy("", ChangingAttention("")), torch.randn(2, N, D)
    with torch.inference_mode(), Watch(model, BlockFeed([keep]), ("encoder",), 2).watching():
        model(x)
        assert not keep.blocks  # it waits until the model has run
    query = model.layers[0].q_proj(x * torch.softmax(x, -1)).unflatten(-1, (HEADS, -1)).transpose(1, 2)
    torch.testing.assert_close(keep.blocks[0].weights, (0.7 * query @ query.mT).softmax(-1))


@pytest.mark.parametrize("why", ["its queries are large", "its keys are large", "its parts are asked for"])
def test_a_call_does_not_wait_when(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Inspecting(Keep):
        def inspect(self, layer: AttentionLayer, operation: object, output: object) -> None:
            pass

    class LastRowAttention(ToyAttention):
        def forward(self, x: Tensor) -> Tensor:
            q = self.q_proj(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            return nn.functional.scaled_dot_product_attention(q[:, :, -1:], q, q)

    if why != "its parts are asked for":
        monkeypatch.setattr("attncli.capture.forward_pass.SMALL", 2 * N * D - 1)
    keep = Inspecting() if why == "its parts are asked for" else Keep()
    model = Toy("", LastRowAttention("")) if why == "its keys are large" else Toy("sdpa")
    x = torch.randn(2, N, D)
    with torch.inference_mode(), Watch(model, BlockFeed([keep]), ("encoder",), 2).watching():
        model(x)
        assert keep.blocks


def test_calls_are_shown_in_their_order_though_small_ones_wait() -> None:
    torch.manual_seed(0)
    keep, model, x = Keep(), Toy("sdpa"), torch.randn(2, N, D)
    small, at_once = model.layers[0], ToyAttention("plain")
    model.layers = nn.ModuleList([small, at_once])
    model.config.num_hidden_layers = 2
    with torch.inference_mode(), Watch(model, BlockFeed([keep]), ("encoder",), 2).watching():
        at_once(small(x).transpose(1, 2).flatten(2))
    assert [(block.layer.index, block.layer.module) for block in keep.blocks] == [
        (0, "layers.0"),
        (1, "layers.1"),
    ]


def test_every_forward_is_put_back_that_of_an_object_too() -> None:
    model, x, keep = Toy("sdpa"), torch.randn(2, N, D), Keep()
    attention, calls = model.layers[0], []
    of_class = attention.forward

    def own(x: Tensor) -> Tensor:
        calls.append(inspect.signature(attention.forward))
        return of_class(x)

    attention.forward = own
    with torch.inference_mode(), Watch(model, BlockFeed([keep]), ("encoder",), 2).watching():
        model(x)
    assert vars(attention)["forward"] is own and "forward" not in vars(model)
    assert keep.blocks and calls == [inspect.signature(own)]


def test_everything_that_was_wrapped_is_put_back() -> None:
    before = (nn.functional.softmax, torch.softmax, nn.functional.scaled_dot_product_attention)
    with pytest.raises(CaptureError):
        watch("twice")
    assert before == (nn.functional.softmax, torch.softmax, nn.functional.scaled_dot_product_attention)
    assert "softmax" not in vars(Tensor)


def test_what_scores_forbid_is_told_from_what_is_merely_small() -> None:
    lowest = torch.finfo(torch.float32).min
    scores = torch.tensor([[0.0, -500.0, lowest], [1.0, -10_000.0, 2.0], [lowest, lowest, lowest]])[
        None, None
    ]
    allowed = allowed_by(scores, scores.softmax(-1))
    assert allowed is not None
    assert allowed[0, 0].tolist() == [[True, True, False], [True, False, True], [False, False, False]]


def given(model: nn.Module, cache: object) -> dict[str, object]:
    """Name the cache as this version of transformers does."""
    names = inspect.signature(model.forward).parameters
    return {"cache" if "cache" in names else "past_key_values": cache}


def test_a_sliding_cache_past_its_window_keeps_the_true_positions() -> None:
    from transformers import DynamicCache, MistralConfig, MistralModel

    config = MistralConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
        vocab_size=50, sliding_window=4,
    )  # fmt: skip
    torch.manual_seed(0)
    model, cache = MistralModel(config).eval(), DynamicCache(config=config)
    ids = torch.randint(0, 50, (1, 12))
    whole, step = Keep(), Keep()
    with torch.inference_mode():
        with Watch(model, BlockFeed([whole]), ("decoder",), 1).watching():
            model(ids)
        model(ids[:, :11], **given(model, cache))
        with Watch(model, BlockFeed([step]), ("decoder",), 1).watching():
            model(ids[:, 11:], **given(model, cache))
    full, last = whole.blocks[1], step.blocks[1]
    assert (last.rows, last.first_key, last.weights.shape[-1]) == (range(11, 12), 8, 4)
    torch.testing.assert_close(last.weights, full.weights[:, :, 11:, 8:], atol=1e-5, rtol=0)


def test_a_static_cache_is_cut_to_what_it_holds() -> None:
    from transformers import LlamaConfig, LlamaModel, StaticCache

    config = LlamaConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, vocab_size=50
    )
    torch.manual_seed(0)
    model, cache, step = LlamaModel(config).eval(), StaticCache(config=config, max_cache_len=20), Keep()
    ids = torch.randint(0, 50, (1, 7))
    with torch.inference_mode():
        model(ids[:, :6], **given(model, cache))
        with Watch(model, BlockFeed([step]), ("decoder",), 1).watching():
            model(ids[:, 6:], **given(model, cache))
    assert (step.blocks[0].rows, step.blocks[0].first_key) == (range(6, 7), 0)
    assert step.blocks[0].weights.shape == (1, 4, 1, 7)


def test_longformers_weights_times_values_are_its_output_with_global_tokens() -> None:
    from transformers import LongformerConfig, LongformerModel

    config = LongformerConfig(
        hidden_size=24, num_hidden_layers=1, num_attention_heads=3, intermediate_size=40, vocab_size=50,
        attention_window=[4], max_position_embeddings=40, type_vocab_size=1,
    )  # fmt: skip
    torch.manual_seed(0)
    model, keep, n = LongformerModel(config, add_pooling_layer=False).eval(), Keep(), 12
    attention, seen = model.encoder.layer[0].attention.self, []
    attention.register_forward_hook(lambda module, args, output: seen.append((args[0], output[0])))
    marked = torch.zeros(1, n, dtype=torch.long)
    marked[0, [2, 9]] = 1
    with torch.inference_mode():
        for parameter in (attention.query.weight, attention.key.weight, attention.query_global.weight):
            parameter.mul_(40)
        with Watch(model, BlockFeed([keep], axes={"encoder": (n, n)}), ("encoder",), 1).watching():
            model(torch.randint(4, 50, (1, n)), global_attention_mask=marked)
        hidden, theirs = seen[0]
        split = [
            layer(hidden).unflatten(-1, (3, 8)).transpose(1, 2)
            for layer in (attention.value, attention.value_global)
        ]
        values = [keep.blocks[0].weights @ value for value in split]
    ours = torch.where(marked.bool()[0, :, None], values[1], values[0]).transpose(1, 2).flatten(2)
    torch.testing.assert_close(ours, theirs[:, :n], atol=1e-5, rtol=1e-4)
    allowed = keep.blocks[0].allowed
    assert allowed is not None and allowed[0, 0].sum(-1).tolist()[5] == 5 + 2 and bool(allowed[0, 0, 9].all())


def test_a_model_stops_behind_the_layers_that_are_sought_and_is_left_as_it_was() -> None:
    model = deep()
    whole, alone = kept_of(model, "all"), kept_of(model, "1")
    assert (len(whole[1].attention_layers), whole[1].stopped) == (4, False)
    assert (len(alone[1].attention_layers), alone[1].stopped) == (
        2,
        True,
    )  # the third began, and was not shown
    for ours, theirs in zip(alone[0].matrices(), whole[0].matrices()[2:4], strict=True):
        assert (ours.layer, ours.head) == (theirs.layer, theirs.head)
        assert (ours.values == theirs.values).all()
    assert "forward" not in vars(model.layers[0]) and model.config.use_cache
    assert kept_of(model, "-1")[1].stopped is False


def test_a_model_runs_to_its_end_where_an_observer_does_not_say_what_it_seeks() -> None:
    source, kept = deep_source(deep()), FullWeights("decoder", *selected("0"), 4, N, N)
    assert len(source.run([kept, Keep()]).attention_layers) == 4
    assert len(source.run([]).attention_layers) == 4


def test_two_kinds_of_attention_are_both_waited_for(tmp_path: Path) -> None:
    loaded = load(str(tiny.write_marian(tmp_path)))
    source = PretrainedSource(loaded, prepare(loaded, "the animal was tired", "it was"))
    rows, keys = (len(axis) for axis in source.axes("cross"))
    run = source.run([FullWeights("cross", *selected("0"), source.depth("cross"), rows, keys)])
    assert run.stopped and [(layer.kind, layer.index) for layer in run.attention_layers][-1] == ("cross", 0)


def deep() -> Any:
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=4, num_attention_heads=2
    )
    return LlamaModel(config).eval()


def deep_source(model: Any) -> PretrainedSource:
    loaded = Loaded("llama", model, None, LoadOptions(), None)
    return PretrainedSource(
        loaded, from_inputs(loaded, {"input_ids": torch.arange(N)[None]}, {"decoder": (N, N)})
    )


def kept_of(model: Any, layers: str) -> tuple[FullWeights, Run]:
    kept = FullWeights("decoder", *selected(layers), 4, N, N)
    return kept, deep_source(model).run([kept])


def selected(layers: str) -> tuple[Selection, Selection]:
    return parse_selection(layers, "layer"), parse_selection("0-1", "head")
