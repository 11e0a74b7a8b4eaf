"""Our own block forward in place of a slow kernel: the same output, the same numbers, less work."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attncli.capture.blocks import OWN_FORWARD
from attncli.errors import CaptureError
from attncli.models.loading import Loaded, LoadOptions
from attncli.models.prepared_text import from_inputs
from attncli.models.pretrained import PretrainedSource
from attncli.observers.selection import Selection
from attncli.observers.weights import FullWeights
from attncli.record import Run

LENGTH, WINDOW = 530, 100  # longer than what is made in one piece
SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
}


def mistral() -> Any:
    from transformers import MistralConfig, MistralModel

    return MistralModel(MistralConfig(**SIZES, sliding_window=WINDOW))


def gemma2() -> Any:
    from transformers import Gemma2Config, Gemma2Model

    config = Gemma2Config(**SIZES, sliding_window=WINDOW, query_pre_attn_scalar=8, attn_logit_softcapping=2.0)
    return Gemma2Model(config)


def gpt_oss() -> Any:
    from transformers import GptOssConfig, GptOssModel

    kinds = ["sliding_attention", "full_attention"]
    sizes = SIZES | {"num_local_experts": 2, "num_experts_per_tok": 1, "layer_types": kinds}
    model = GptOssModel(GptOssConfig(**sizes, sliding_window=WINDOW))
    for layer in model.layers:
        torch.nn.init.normal_(layer.self_attn.sinks)
    return model


def llama() -> Any:
    from transformers import LlamaConfig, LlamaModel

    return LlamaModel(LlamaConfig(**SIZES))


def source_of(make: Callable[[], Any], *, fast: bool, padding: int = 0) -> PretrainedSource:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = make().eval()
        ids = torch.randint(50, (1, LENGTH))
    mask = torch.ones(1, LENGTH, dtype=torch.long)
    mask[:, :padding] = 0
    loaded = Loaded("tiny", model, None, LoadOptions(), None)
    inputs = {"input_ids": ids, "attention_mask": mask}
    return PretrainedSource(loaded, from_inputs(loaded, inputs, {"decoder": (LENGTH, LENGTH)}), fast=fast)


def observed(source: PretrainedSource) -> tuple[Run, torch.Tensor, torch.Tensor]:
    """Give the run, the model's output and all weights."""
    kept = FullWeights("decoder", Selection("layer"), Selection("head"), 2, LENGTH, LENGTH)
    outputs: list[torch.Tensor] = []
    source.loaded.model.register_forward_hook(lambda *call: outputs.append(call[2].last_hidden_state))
    run = source.run([kept])
    return run, outputs[0], torch.stack([torch.from_numpy(matrix.values) for matrix in kept.matrices()])


@pytest.mark.parametrize("padding", [0, 7])
@pytest.mark.parametrize("make", [mistral, gemma2, gpt_oss])
def test_the_model_says_the_same_element_by_element(make: Callable[[], Any], padding: int) -> None:
    slow, said, weights = observed(source_of(make, fast=False, padding=padding))
    fast, ours, our_weights = observed(source_of(make, fast=True, padding=padding))
    torch.testing.assert_close(ours[:, padding:], said[:, padding:], atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(our_weights, weights, atol=1e-5, rtol=1e-5)
    assert {report.capture for report in slow.reports} != {OWN_FORWARD}
    assert [report.capture for report in fast.reports] == [OWN_FORWARD] * 2
    assert all((report.output_error or 0.0) < 1e-5 for report in fast.reports)
    assert "2 of 2 attention operations ran attncli's own block forward" in fast.notes[-1]


def test_layers_that_nobody_asked_for_are_computed_all_the_same() -> None:
    source = source_of(gemma2, fast=True)
    outputs: list[torch.Tensor] = []
    source.loaded.model.register_forward_hook(lambda *call: outputs.append(call[2].last_hidden_state))
    run = source.run([])
    _, said, _ = observed(source_of(gemma2, fast=False))
    torch.testing.assert_close(outputs[0], said, atol=2e-5, rtol=1e-5)
    assert len(run.reports) == 2


def test_plain_causal_layers_keep_their_own_kernel_and_it_is_said() -> None:
    run, said, _ = observed(source_of(llama, fast=True))
    _, plain, _ = observed(source_of(llama, fast=False))
    assert torch.equal(said, plain)
    assert run.notes[-1].startswith("--fast changed nothing")


def test_an_output_that_is_not_the_kernels_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from attncli.attention.operation import AttentionOperation

    right = AttentionOperation.output
    monkeypatch.setattr(AttentionOperation, "output", lambda *given: right(*given) * 1.01)
    with pytest.raises(CaptureError, match=r"decoder layer 0 head [0-5]: recomputed output differs"):
        observed(source_of(gpt_oss, fast=True))
