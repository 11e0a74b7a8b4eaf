"""Layers without attention, layers counted from the end, and kinds, on the command line."""

from pathlib import Path

import pytest
import tiny
from commandline import Cli

TEXT = "the animal was tired"
COMMANDS = {
    "show": (TEXT,),
    "heads": (TEXT,),
    "mask": (TEXT,),
    "find": (TEXT, "--from", "tired", "--to", "animal"),
    "explain": (TEXT,),
}


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_hybrid(tmp_path_factory.mktemp("hybrid"))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_a_layer_without_attention_and_says_what_it_is(
    cli: Cli, hybrid: Path, command: str
) -> None:
    said = cli(command, *COMMANDS[command], "-m", str(hybrid), "--layer", "2")
    assert (said.code, said.out) == (2, "")
    assert said.err.splitlines() == [
        "error: --layer 2: layer 2 has no decoder attention (conv)",
        "hint: layers that have: 1, 3",
    ]


@pytest.mark.parametrize("command", ["show", "heads", "mask", "find"])
def test_of_a_range_those_that_have_attention_are_taken_and_the_others_named(
    cli: Cli, hybrid: Path, command: str
) -> None:
    document = cli(command, *COMMANDS[command], "-m", str(hybrid), "--layer", "0-2", "--json").json
    assert {one["layer"] for one in document["heads" if command in ("heads", "find") else "attention"]} == {1}
    assert "decoder layers without softmax attention: 0, 2 (conv)" in document["notes"]


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_the_last_layer_of_t5_is_the_last_that_there_is(cli: Cli, tmp_path: Path, kind: str) -> None:
    model = ("-m", str(tiny.write_t5(tmp_path)), "--pair", "it was tired", "--kind", kind)
    document = cli("heads", TEXT, *model, "--layer", "-1", "--json").json
    assert {head["layer"] for head in document["heads"]} == {1 if kind == "encoder" else 2}
    assert not [note for note in document["notes"] if "without softmax" in note]
    said = cli("show", TEXT, *model, "--layer", "3")
    assert said.code == 2 and f"this model has layers 0 to {1 if kind == 'encoder' else 2}" in said.err


def test_a_gemma_that_reads_both_ways_is_an_encoder_to_every_command(cli: Cli, tmp_path: Path) -> None:
    words = ("find", TEXT, "--from", "animal", "--to", "tired", "--json")
    both = str(tiny.write_gemma(tmp_path / "both", bidirectional=True))
    assert {head["kind"] for head in cli(*words, "-m", both).json["heads"]} == {"encoder"}
    assert {head["kind"] for head in cli("heads", TEXT, "-m", both, "--json").json["heads"]} == {"encoder"}
    one = cli(*words, "-m", str(tiny.write_gemma(tmp_path / "one", bidirectional=False)))
    assert one.code == 2 and "cannot look ahead" in one.err


@pytest.mark.parametrize("command", ["show", "heads", "mask", "find", "explain"])
def test_scores_that_overflow_in_half_precision_are_a_self_check_error(
    cli: Cli, tmp_path: Path, command: str
) -> None:
    from safetensors.torch import load_file, save_file

    folder = tiny.write_llama(tmp_path)
    weights = load_file(folder / "model.safetensors")
    large = {
        name: value * 3e4 if "q_proj" in name or "k_proj" in name else value
        for name, value in weights.items()
    }
    save_file(large, folder / "model.safetensors", metadata={"format": "pt"})
    given = ("-m", str(folder), "--dtype", "float16", "--attention", "eager")
    said = cli(command, *COMMANDS[command], *given)
    assert said.code == 1 and "not finite" in said.err and said.err.startswith("error: self-check failed: ")
