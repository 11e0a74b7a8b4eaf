"""What a model does as it writes is held against one eager pass over its prompt and what it wrote."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch

from attncli.errors import CaptureError, ModelError, UsageError
from attncli.models.generation import GeneratedSource, Sampling, _placed, write
from attncli.models.loading import Loaded, LoadOptions, load
from attncli.models.prepared_text import Prepared, prepare
from attncli.models.tokens import positions
from attncli.observers.selection import parse_selection
from attncli.observers.weights import FullWeights
from attncli.record import AttentionLayer, Kind, Request, WeightBlock

PROMPT, NEW = 7, 9
SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48,
         "vocab_size": 50, "max_position_embeddings": 64, "pad_token_id": 0, "eos_token_id": None}  # fmt: skip
GROUPED = SMALL | {"num_key_value_heads": 2}
SIDES = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "vocab_size": 50,
         "pad_token_id": 0, "decoder_start_token_id": 1, "eos_token_id": None, "forced_eos_token_id": None}  # fmt: skip
DECODERS: dict[str, dict[str, Any]] = {
    "llama": GROUPED,
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50, "n_positions": 64, "eos_token_id": None},
    "mistral": GROUPED | {"sliding_window": 4},
    "gemma2": GROUPED | {"sliding_window": 4, "head_dim": 8, "attn_logit_softcapping": 2.0},
    "gemma3_text": GROUPED | {"sliding_window": 4, "head_dim": 8, 
                              "layer_types": ["sliding_attention"] * 2 + ["full_attention"]},
    "gpt_oss": GROUPED | {"sliding_window": 4, "head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1},
    "gemma4_text": GROUPED | {"sliding_window": 4, "head_dim": 8, "global_head_dim": 8, "num_hidden_layers": 4,
                              "layer_types": ["sliding_attention", "full_attention"] * 2, "num_kv_shared_layers": 2,
                              "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 50},
    "diffllama": GROUPED,
    "openai-gpt": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50, "n_positions": 64},
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50, "eos_token_id": None},
}  # fmt: skip
HYBRID = GROUPED | {"attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8}
TWO_STACKS: dict[str, dict[str, Any]] = {
    "bart": SIDES | {"forced_bos_token_id": None},
    "marian": SIDES,
    "t5": {"d_model": 32, "d_kv": 8, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4, "d_ff": 48,
           "vocab_size": 50, "decoder_start_token_id": 1, "eos_token_id": None},
}  # fmt: skip
FIELDS = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}


def loaded(family: str, settings: dict[str, Any]) -> Loaded:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedTokenizerFast

    config = AutoConfig.for_model(family, **settings)
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = kind.from_config(config).eval()
    return Loaded(
        "tiny", model, PreTrainedTokenizerFast(tokenizer_object=tiny._word_tokenizer()), LoadOptions(), None
    )


def prompt(kind: Kind, length: int = PROMPT) -> Prepared:
    ids = torch.randint(4, 50, (1, length), generator=torch.Generator().manual_seed(5))
    tokens = {kind: positions(length)}
    return Prepared({"input_ids": ids}, tokens, tokens)


def captured(source: GeneratedSource, kind: Kind) -> tuple[FullWeights, Any]:
    queries, keys = source.axes(kind)
    every = parse_selection("all", "layer"), parse_selection("all", "head")
    kept = FullWeights(kind, *every, source.depth(kind), len(queries), len(keys))
    return kept, source.run([kept])


def eager(source: GeneratedSource) -> Any:
    model, inputs = source.whole.loaded.model, source.whole.prepared.inputs
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return model(**inputs, output_attentions=True, use_cache=False)


@pytest.mark.parametrize("family", DECODERS)
def test_a_map_over_cached_steps_equals_one_eager_pass_over_the_whole(family: str) -> None:
    source = write(loaded(family, DECODERS[family]), prompt("decoder"), Sampling(NEW))
    kept, run = captured(source, "decoder")
    reference = eager(source).attentions
    assert len(kept.matrices()) == 4 * len(reference) and len(source.written) == NEW
    for matrix in kept.matrices():
        theirs = reference[matrix.layer][0, matrix.head].numpy()
        assert matrix.values.shape == (PROMPT + NEW, PROMPT + NEW)
        np.testing.assert_allclose(matrix.values, theirs, atol=1e-5)
        assert matrix.allowed is not None and not matrix.allowed[theirs == 0].any()
    assert len(run.attention_layers) == len(run.reports) == len(reference)


def test_past_its_window_a_row_sees_the_last_keys_and_no_others() -> None:
    source = write(loaded("mistral", DECODERS["mistral"]), prompt("decoder"), Sampling(NEW))
    kept, _ = captured(source, "decoder")
    expected = np.tri(PROMPT + NEW, dtype=bool) & ~np.tri(PROMPT + NEW, k=-4, dtype=bool)
    for matrix in kept.matrices():
        np.testing.assert_array_equal(matrix.allowed, expected)


@pytest.mark.parametrize("family", TWO_STACKS)
@pytest.mark.parametrize("kind", FIELDS)
def test_the_decoder_and_cross_side_of_two_stacks_equal_eager(family: str, kind: Kind) -> None:
    source = write(loaded(family, TWO_STACKS[family]), prompt("encoder"), Sampling(NEW))
    kept, _ = captured(source, kind)
    reference = getattr(eager(source), FIELDS[kind])
    rows = PROMPT if kind == "encoder" else 1 + NEW
    assert len(kept.matrices()) == 4 * len(reference)
    for matrix in kept.matrices():
        assert matrix.values.shape == (rows, rows if kind == "decoder" else PROMPT)
        np.testing.assert_allclose(matrix.values, reference[matrix.layer][0, matrix.head].numpy(), atol=1e-5)


@pytest.mark.parametrize(("family", "settings"), [("llama", GROUPED), ("bamba", HYBRID)])
def test_what_is_written_is_what_the_library_writes(family: str, settings: dict[str, Any]) -> None:
    made = loaded(family, settings)
    source = write(made, prompt("decoder"), Sampling(NEW))
    with torch.no_grad():
        theirs = made.model.generate(
            prompt("decoder").inputs["input_ids"], max_new_tokens=NEW, do_sample=False
        )
    assert source.written == tuple(theirs[0, PROMPT:].tolist())


def test_draws_repeat_with_their_seed_and_differ_without() -> None:
    made = loaded("llama", DECODERS["llama"])
    hot = [write(made, prompt("decoder"), Sampling(NEW, 5.0, seed)) for seed in (1, 1, 2)]
    assert hot[0].written == hot[1].written != hot[2].written
    assert (hot[0].seed, write(made, prompt("decoder"), Sampling(2)).seed) == (1, None)


def test_it_stops_at_the_models_end_token_and_says_so() -> None:
    made = loaded("llama", DECODERS["llama"])
    first = write(made, prompt("decoder"), Sampling(3)).written
    made.model.generation_config.eos_token_id = [first[1]]
    source = write(made, prompt("decoder"), Sampling(3))
    assert source.written == first[:2]
    assert "(▸, 2 tokens, greedy, then ended)" in source.whole.prepared.notes[-1]


def test_the_models_own_rules_for_single_tokens_hold() -> None:
    made = loaded("llama", DECODERS["llama"])
    first = write(made, prompt("decoder"), Sampling(1)).written[0]
    made.model.generation_config.suppress_tokens = [first]
    assert write(made, prompt("decoder"), Sampling(1)).written[0] != first
    made.model.generation_config.repetition_penalty = 1e6
    written = write(made, prompt("decoder"), Sampling(NEW)).written
    assert not set(written) & set(prompt("decoder").inputs["input_ids"][0].tolist())


def test_two_stacks_begin_with_the_token_that_the_model_forces() -> None:
    made = loaded("bart", TWO_STACKS["bart"])
    made.model.generation_config.forced_bos_token_id = 42
    assert write(made, prompt("encoder"), Sampling(2)).written[0] == 42


def test_tokens_say_which_part_they_are_and_where_they_stand() -> None:
    source = write(loaded("llama", DECODERS["llama"]), prompt("decoder"), Sampling(NEW))
    tokens, _ = source.axes("decoder")
    assert [token.position for token in tokens] == list(range(PROMPT + NEW))
    assert [token.segment for token in tokens] == ["prompt"] * PROMPT + ["generated"] * NEW
    assert tuple(token.id for token in tokens[PROMPT:]) == source.written


def test_picked_rows_and_heads_are_the_same_numbers() -> None:
    source = write(loaded("mistral", DECODERS["mistral"]), prompt("decoder"), Sampling(NEW))
    whole, _ = captured(source, "decoder")
    part = FullWeights(
        "decoder", parse_selection("1", "layer"), parse_selection("2", "head"), 3, 16, 16, [12, 3], [10, 2]
    )
    source.run([part])
    expected = whole.matrices()[1 * 4 + 2].values[[12, 3]][:, [10, 2]]
    np.testing.assert_allclose(part.matrices()[0].values, expected, atol=1e-7)


def test_an_observer_is_asked_once_a_site_and_shown_each_row_once_over_all_keys() -> None:
    source = write(loaded("mistral", DECODERS["mistral"]), prompt("decoder"), Sampling(3))
    asked: list[int] = []
    shown: dict[int, list[int]] = {}

    class Counting:
        def request(self, layer: AttentionLayer) -> Request:
            asked.append(layer.index)
            return Request()

        def update(self, block: WeightBlock) -> None:
            assert (block.first_key, block.weights.shape[-1]) == (0, PROMPT + 3)
            shown.setdefault(block.layer.index, []).extend(block.rows)

    source.run([Counting()])
    assert asked == [0, 1, 2] and set(shown) == {0, 1, 2}
    assert all(rows == list(range(PROMPT + 3)) for rows in shown.values())


def test_more_than_the_model_reads_is_refused_with_what_fits() -> None:
    with pytest.raises(UsageError, match="more than the 64") as caught:
        write(loaded("llama", DECODERS["llama"]), prompt("decoder"), Sampling(58))
    assert caught.value.hint == "--generate 57 fits"


def test_an_encoder_does_not_write() -> None:
    with pytest.raises(UsageError, match="is an encoder"):
        write(loaded("bert", SMALL | {"is_decoder": False}), prompt("encoder"), Sampling(2))


def test_a_checkpoint_without_a_head_cannot_generate(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no language-model head"):
        load(str(tiny.write_llama(tmp_path)), LoadOptions(head=True))
    tied = load(str(tiny.write_llama(tmp_path / "tied", tie_word_embeddings=True)), LoadOptions(head=True))
    assert len(write(tied, prepare(tied, "the animal"), Sampling(2)).written) == 2


def test_more_keys_than_tokens_seen_are_refused() -> None:
    source = write(loaded("llama", DECODERS["llama"]), prompt("decoder"), Sampling(1))
    layer = AttentionLayer("decoder", 0, 4, 2)
    from attncli.attention.operation import AttentionOperation

    query, key = torch.zeros(1, 4, 1, 8), torch.zeros(1, 2, 9, 8)
    operation = AttentionOperation(query, key, None, 1.0)
    assert source.depth(layer.kind) == 3
    assert (_placed(operation, "decoder", 20).first_query, _placed(operation, "decoder", 20).first_key) == (
        20,
        12,
    )
    with pytest.raises(CaptureError, match="9 keys after 8 tokens"):
        _placed(operation, "decoder", 7)


@pytest.mark.models
def test_a_trained_model_writes_as_its_library_does_and_its_maps_equal_eager(
    model_folder: Callable[[str], Path],
) -> None:
    made = load(str(model_folder("smollm2-135m")), LoadOptions(head=True))
    source = write(made, prepare(made, "The capital of France is"), Sampling(6))
    with torch.no_grad():
        theirs = made.model.generate(source.start, max_new_tokens=6, do_sample=False)
    assert source.written == tuple(theirs[0, source.start.shape[1] :].tolist())
    kept, _ = captured(source, "decoder")
    reference = eager(source).attentions
    for matrix in kept.matrices():
        np.testing.assert_allclose(matrix.values, reference[matrix.layer][0, matrix.head].numpy(), atol=1e-5)
