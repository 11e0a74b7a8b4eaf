"""What show says of a text that a model goes on with, or answers."""

import re
from pathlib import Path

import numpy as np
import pytest
import tiny
from commandline import Cli

TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} . {% endfor %}"


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A decoder with tied embeddings, so with a head, a window of 4 and a chat template."""
    from transformers import MistralConfig, MistralModel

    config = MistralConfig(
        vocab_size=len(tiny.WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=48, max_position_embeddings=64, sliding_window=4, tie_word_embeddings=True, eos_token_id=None,
    )  # fmt: skip
    folder = tiny._write(tmp_path_factory.mktemp("writer"), MistralModel, config, tiny._word_tokenizer())
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return str(folder)


def test_one_map_over_prompt_and_what_was_written(cli: Cli, writer: str) -> None:
    result = cli("show", "the animal was", "-m", writer, "--generate", "6", "--json")
    assert [token.get("segment") for token in result.json["query_tokens"]] == ["prompt"] * 3 + [
        "generated"
    ] * 6
    weights = np.array([m["weights"] for m in result.json["attention"]])
    assert weights.shape == (8, 9, 9) and np.abs(weights.sum(-1) - 1).max() < 1e-5
    assert not weights[:, 8, :5].any() and weights[:, 8, 5:].all()
    assert "note: generated from position 3 on (▸, 6 tokens, greedy): " in result.err


def test_the_boundary_is_marked_where_people_look(cli: Cli, writer: str) -> None:
    out = cli("show", "the animal was", "-m", writer, "--generate", "2", "--layer", "0", "--head", "0").out
    rows = [line.split()[0] for line in out.splitlines() if re.search(r"^\s*\S+ +\*?(\.\d\d|1\.0)", line)]
    assert [label.startswith("▸") for label in rows[:4]] == [False, False, False, True]
    assert "generated from position 3 on" in out


def test_a_saved_generation_is_drawn_again(cli: Cli, writer: str, tmp_path: Path) -> None:
    path, ask = str(tmp_path / "run.npz"), ("show", "the animal was", "-m", writer, "--generate", "3")
    shown = cli(*ask, "-o", path, "-f", "heatmap", "-q").out
    assert cli("render", path, "-q").out == shown and "▸" in shown


def test_draws_are_told_with_their_seed(cli: Cli, writer: str) -> None:
    ask = (
        "show",
        "the animal",
        "-m",
        writer,
        "--generate",
        "5",
        "--temperature",
        "3",
        "--seed",
        "4",
        "--json",
    )
    first, again = cli(*ask), cli(*ask)
    assert first.json["provenance"]["seed"] == 4 and "temperature 3, seed 4" in first.err
    assert first.json["attention"] == again.json["attention"]


def test_a_message_is_divided_by_the_template(cli: Cli, writer: str) -> None:
    result = cli("show", "the animal", "-m", writer, "--chat", "--system", "it was", "--json")
    parts = [(token["text"], token["segment"]) for token in result.json["query_tokens"]]
    assert ("it", "system") in parts and ("animal", "user") in parts
    both = cli("show", "the animal", "-m", writer, "--chat", "--generate", "2", "--json").json["query_tokens"]
    assert [token["segment"] for token in both][-3:] == ["user", "generated", "generated"]


def test_the_share_of_the_first_token_is_told_for_a_trained_decoder_only(
    cli: Cli, writer: str, tiny_bert: str
) -> None:
    result = cli("show", "the animal was", "-m", writer, "--json")
    weights = np.array([m["weights"] for m in result.json["attention"]])
    share = f"{100 * weights[:, 1:, 0].mean():.0f}"
    assert f'note: {share} % of all attention goes to the first token, "the" (mean of 8 heads)' in result.err
    assert "first token" not in cli("show", "the animal was", "-m", tiny_bert, "--json").err
    assert "first token" not in cli("show", "the animal was", "--causal", "--json").err
    assert "first token" not in cli("show", "the animal was", "-m", writer, "--json", "--key", "1-2").err


def test_the_cross_side_of_two_stacks_is_shown(cli: Cli, tmp_path: Path) -> None:
    from transformers import MarianConfig, MarianMTModel

    sides = {f"{s}_{w}": n for s in ("encoder", "decoder") for w, n in
             (("layers", 2), ("attention_heads", 2), ("ffn_dim", 40))}  # fmt: skip
    config = MarianConfig(vocab_size=len(tiny.WORDS), d_model=24, max_position_embeddings=16, pad_token_id=0,
                          decoder_start_token_id=2, eos_token_id=3, **sides)  # fmt: skip
    folder = str(tiny._write(tmp_path / "marian", MarianMTModel, config, tiny._word_tokenizer()))
    document = cli("show", "the animal was", "-m", folder, "--generate", "4", "--layer", "1", "--json").json
    rows = len(document["query_tokens"])
    assert document["attention"][0]["kind"] == "cross" and document["attention"][0]["shape"] == [rows, 3]
    assert [t.get("segment") for t in document["query_tokens"]] == ["prompt"] + ["generated"] * (rows - 1)
    assert not any("--pair" in note for note in document["notes"])


@pytest.mark.parametrize("asked", [("--pair", "it was"), ("--generate", "3")])
def test_a_config_without_a_start_token_is_refused_in_one_line(
    cli: Cli, tmp_path: Path, asked: tuple[str, str]
) -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=len(tiny.WORDS), d_model=24, d_kv=8, d_ff=40, num_layers=2, num_heads=3)
    folder = str(tiny._write(tmp_path / "t5", T5ForConditionalGeneration, config, tiny._word_tokenizer()))
    result = cli("show", "the animal was", "-m", folder, *asked)
    assert result.code == 1 and "its config has no decoder_start_token_id" in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--generate", "3"), 2, "--generate needs a pretrained model"),
        (("--chat",), 2, "--chat needs a pretrained model"),
        (("--temperature", "1"), 2, "--temperature needs --generate"),
        (("--system", "x"), 2, "--system needs --chat"),
        (("--generate", "0"), 2, "must be at least 1"),
        (("-m", "WRITER", "--generate", "3", "--pair", "it"), 2, "--pair were both given"),
        (("-m", "WRITER", "--generate", "62"), 2, "more than the 64"),
        (("-m", "LLAMA", "--generate", "3"), 4, "no language-model head"),
        (("-m", "LLAMA", "--chat"), 2, "has no chat template"),
        (("-m", "BERT", "--generate", "3"), 4, "no language-model head"),
    ],
)
def test_what_cannot_be_generated_is_told(
    cli: Cli, writer: str, tiny_llama: str, tiny_bert: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    folders = {"WRITER": writer, "LLAMA": tiny_llama, "BERT": tiny_bert}
    result = cli("show", "the animal was", *(folders.get(word, word) for word in arguments))
    assert (result.code, result.out) == (code, "") and words in result.err
    assert len(result.err.splitlines()) <= 3
