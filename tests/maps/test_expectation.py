from pathlib import Path

import pytest
import tiny
from commandline import Cli

from attncli.errors import UsageError
from attncli.maps.expectation import parse_expectation

TEXT = "the animal was too tired ."


@pytest.fixture(scope="module")
def windowed(tmp_path_factory) -> Path:
    """A decoder of 2 layers whose rows see themselves and two tokens before."""
    from transformers import MistralConfig, MistralModel

    config = MistralConfig(vocab_size=len(tiny.WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                           num_key_value_heads=2, intermediate_size=48, sliding_window=3)  # fmt: skip
    return tiny._write(tmp_path_factory.mktemp("windowed"), MistralModel, config, tiny._word_tokenizer())


def test_a_mask_as_expected_is_told_and_another_ends_with_3_and_its_first_wrong_pair(
    cli: Cli, windowed
) -> None:
    right = cli("mask", "-m", str(windowed), TEXT, "--expect", "window:3")
    assert right.code == 0 and "note: the masks of 2 layers are as expected" in right.err
    wrong = cli("mask", "-m", str(windowed), TEXT, "--expect", "causal")
    assert wrong.code == 3 and wrong.out == right.out
    assert 'layer 0 is not causal: row 3 "too" may not attend to key 0 "the"' in wrong.err
    assert "6 of 36 pairs differ in layer 0; wrong layers: 0, 1" in wrong.err


def test_layers_are_held_against_the_last_pattern_that_names_them(cli: Cli, windowed) -> None:
    found = cli("mask", "-m", str(windowed), TEXT, "--expect", "window:3@0", "--expect", "full@1")
    assert (
        found.code == 3 and 'layer 1 is not full: row 0 "the" may not attend to key 1 "animal"' in found.err
    )
    some = cli("mask", "-m", str(windowed), TEXT, "--layer", "0", "--expect", "causal@1")
    assert some.code == 2 and "names no layer whose mask was seen" in some.err


@pytest.mark.parametrize(("pattern", "code"), [("window:3", 0), ("causal", 3)])
def test_a_padded_batch_is_checked_on_both_sides(
    cli: Cli, windowed, tmp_path, pattern: str, code: int
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text(f"it was\n{TEXT}\nthe animal was tired\n")
    found = cli("mask", "-m", str(windowed), "--file", str(texts), "--padded", "--expect", pattern)
    assert found.code == code
    assert (
        "3 texts padded on either side" if code == 0 else "line 2 of a batch padded on the right"
    ) in found.err


def test_a_model_that_attends_to_padding_is_found(cli: Cli, windowed, tmp_path, monkeypatch) -> None:
    from attncli.models.batches import BatchedModel

    inputs = BatchedModel._inputs

    def without_padding(self, *given):
        made = inputs(self, *given)
        return {**made, "attention_mask": made["attention_mask"].new_ones(made["attention_mask"].shape)}

    monkeypatch.setattr(BatchedModel, "_inputs", without_padding)
    texts = tmp_path / "texts.txt"
    texts.write_text(f"it was\n{TEXT}\n")
    found = cli("mask", "-m", str(windowed), "--file", str(texts), "--padded", "--expect", "window:3")
    assert found.code == 3 and "line 1 of a batch padded on the left: in layer 0" in found.err
    assert "may attend to padding" in found.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("widow:2", "no mask or variant named"),
        ("causal:3", "causal has no settings"),
        ("full:causal=yes", "causal=true or causal=false"),
        ("window:0", "window must be at least 1"),
        ("causal@x", "--layer 'x'"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_expectation(text)
    assert said in refused.value.message


def test_expectations_are_for_a_models_masks(cli: Cli, windowed) -> None:
    assert cli("mask", "causal", "--expect", "causal").code == 2
    assert cli("mask", "-m", str(windowed), TEXT, "--padded").code == 2
