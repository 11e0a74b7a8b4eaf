import csv
import io
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from commandline import Cli

TEXT = "the animal was too tired ."


def test_the_name_of_a_file_is_a_text_but_that_is_said(cli: Cli, tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    assert "is a file" not in cli("show", str(book), "-m", "scratch").err
    book.write_text("a b c")
    shown = cli("show", str(book), "-m", "scratch")
    assert shown.code == 0 and "--file reads the file" in shown.err
    assert "is a file" not in cli("show", str(book), "-m", "scratch", "-q").err


def test_the_scratch_model_is_said_to_be_untrained(cli: Cli) -> None:
    result = cli("show", "The animal was tired.", "-m", "scratch")
    assert result.code == 0 and result.err == ""
    assert "scratch (untrained)" in result.out and "weights are random, not trained" in result.out
    assert "\x1b" not in result.out


def test_json_has_the_documented_form_and_stdout_has_nothing_else(cli: Cli) -> None:
    result = cli("show", "a b c", "--seed", "0", "--format", "json", "-q")
    document = result.json
    assert (document["schema"], document["command"], result.err) == (1, "show", "")
    assert [token["text"] for token in document["query_tokens"]] == ["a", "b", "c"]
    assert document["source"]["kind"] == "scratch" and document["provenance"]["seed"] == 0
    assert document["provenance"]["argv"] == ["show", "a b c", "--seed", "0", "--format", "json", "-q"]
    assert np.array(document["attention"][0]["weights"]).shape == (3, 3)


@pytest.mark.parametrize(
    "arguments", [(), ("--top", "2"), ("--head", "mean"), ("--query", "was", "--key", "0-2")]
)
def test_json_validates_against_the_schema_that_schema_prints(
    cli: Cli, tiny_llama: str, arguments: tuple
) -> None:
    schema = cli("schema", "show").json
    document = cli("show", TEXT, "-m", tiny_llama, "--json", *arguments).json
    jsonschema.Draft202012Validator(schema).validate(document)


def test_all_heads_are_shown_with_true_labels_and_grouped_heads(cli: Cli, tiny_llama: str) -> None:
    maps = cli("show", TEXT, "-m", tiny_llama, "--json").json["attention"]
    assert [(m["kind"], m["layer"], m["head"]) for m in maps] == [
        ("decoder", layer, head) for layer in range(3) for head in range(4)
    ]
    assert [m["kv_head"] for m in maps[:4]] == [0, 0, 1, 1]


def test_layers_and_heads_are_picked(cli: Cli, tiny_bert: str) -> None:
    maps = cli("show", TEXT, "-m", tiny_bert, "--layer", "-1", "--head", "2,0", "--json").json["attention"]
    assert [(m["layer"], m["head"]) for m in maps] == [(1, 2), (1, 0)]


def test_the_mean_of_heads_is_the_mean(cli: Cli, tiny_bert: str) -> None:
    every = cli("show", TEXT, "-m", tiny_bert, "--layer", "1", "--json").json["attention"]
    mean = cli("show", TEXT, "-m", tiny_bert, "--layer", "1", "--head", "mean", "--json").json["attention"]
    assert (mean[0]["layer"], mean[0]["head"], len(mean)) == (1, "mean", 1)
    np.testing.assert_allclose(mean[0]["weights"], np.mean([m["weights"] for m in every], axis=0), atol=1e-6)


def test_rows_and_columns_are_picked_by_position_or_text_and_keep_their_positions(
    cli: Cli, tiny_bert: str
) -> None:
    document = cli("show", TEXT, "-m", tiny_bert, "--query", "tired,2", "--key", "0,was", "--json").json
    assert [token["position"] for token in document["query_tokens"]] == [5, 2]
    assert [token["text"] for token in document["key_tokens"]] == ["[CLS]", "was"]
    assert document["attention"][0]["shape"] == [2, 2]
    whole = cli("show", TEXT, "-m", tiny_bert, "--json").json["attention"][0]["weights"]
    np.testing.assert_allclose(
        document["attention"][0]["weights"], np.array(whole)[[5, 2]][:, [0, 3]], atol=1e-7
    )


def test_csv_ndjson_and_npz_say_the_same_as_json(cli: Cli, tiny_llama: str, tmp_path) -> None:
    common = ("show", TEXT, "-m", tiny_llama, "--layer", "1")
    weights = np.array([m["weights"] for m in cli(*common, "--json").json["attention"]])
    rows = list(csv.DictReader(io.StringIO(cli(*common, "--format", "csv").out)))
    lines = [json.loads(line) for line in cli(*common, "--format", "ndjson").out.splitlines()]
    assert cli(*common, "-o", str(tmp_path / "run.npz")).out == ""
    np.testing.assert_allclose([float(row["weight"]) for row in rows], weights.ravel(), atol=1e-9)
    np.testing.assert_allclose([line["weight"] for line in lines], weights.ravel(), atol=1e-9)
    with np.load(tmp_path / "run.npz", allow_pickle=False) as saved:
        np.testing.assert_array_equal(saved["decoder.1"], weights.astype(np.float32))
        assert saved["decoder.1.heads"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_a_pair_opens_all_three_kinds(cli: Cli, tiny_marian: str, kind: str) -> None:
    document = cli(
        "show", "the animal was", "-m", tiny_marian, "--pair", "it was", "--kind", kind, "--json"
    ).json
    assert {m["kind"] for m in document["attention"]} == {kind}
    shape = {"encoder": [3, 3], "decoder": [2, 2], "cross": [2, 3]}[kind]
    assert document["attention"][0]["shape"] == shape


def test_cross_attention_is_what_a_pair_shows_by_default(cli: Cli, tiny_marian: str) -> None:
    assert "cross-attention" in cli("show", "the animal", "-m", tiny_marian, "--pair", "it").out
    assert "cross-attention" in cli("show", "the animal", "--pair", "it").out


@pytest.mark.parametrize("arguments", [("-",), ()])
def test_text_comes_from_stdin(cli: Cli, arguments: tuple[str, ...]) -> None:
    document = cli("show", *arguments, "-m", "scratch", "--json", stdin="zwölf Boxkämpfer\n".encode()).json
    assert [token["text"] for token in document["query_tokens"]] == ["zwölf", "Boxkämpfer"]


def test_text_comes_from_a_file_and_may_start_with_a_dash(cli: Cli, tmp_path) -> None:
    (tmp_path / "t.txt").write_text("- one\n")
    assert (
        len(cli("show", "-m", "scratch", "--file", str(tmp_path / "t.txt"), "--json").json["query_tokens"])
        == 2
    )
    assert len(cli("show", "-m", "scratch", "--json", "--", "-5 °C").json["query_tokens"]) == 4


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "json", "csv", "npz", "md", "tsv", "ndjson"])
def test_a_file_is_written_by_its_ending(cli: Cli, tmp_path, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    result = cli("show", "a b", "-o", str(path))
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith(f"wrote {path} (") and path.stat().st_size > 50
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_picture_and_data_may_be_asked_for_together(cli: Cli, tmp_path) -> None:
    first, second = tmp_path / "a.png", tmp_path / "b.csv"
    result = cli("show", "a b", "--format", "table", "-o", str(first), "-o", str(second))
    assert result.code == 0 and first.exists() and second.exists() and "rows attend to columns" in result.out


def test_quiet_leaves_stderr_empty(cli: Cli, tmp_path) -> None:
    assert cli("show", "a b", "-q", "-o", str(tmp_path / "x.json")).err == ""


def test_verbose_says_what_was_checked(cli: Cli, tiny_llama: str) -> None:
    err = cli("show", TEXT, "-m", tiny_llama, "--layer", "1", "-v").err
    assert "2 decoder" in err and "looked into 1, through interface; then the model was stopped" in err
    assert "largest difference from the model's own output" in err


def test_the_strongest_keys_are_listed(cli: Cli, tiny_bert: str) -> None:
    common = ("show", TEXT, "-m", tiny_bert, "--layer", "0", "--head", "1", "--query", "tired", "--json")
    row = cli(*common).json["attention"][0]["weights"][0]
    top = cli(*common, "--top", "3").json["attention"][0]["top"][0]
    assert [entry["key"] for entry in top] == np.argsort(row)[::-1][:3].tolist()


def test_without_a_model_the_trained_decoder_shows_a_head_and_says_what_to_look_at(cli: Cli) -> None:
    result = cli("show", "She walked to the garden, and he walked to the house.")
    said = " ".join(result.out.split())
    assert result.code == 0 and result.err == "" and "untrained" not in said
    assert "tiny-decoder · decoder self-attention layer 1 head" in said
    assert "an induction head: a token that came before attends to what followed it then" in said


def test_a_text_in_which_nothing_comes_again_shows_the_previous_token_head(cli: Cli) -> None:
    document = cli("show", "The animal was tired.", "--json", "-q").json
    assert document["source"]["kind"] == "trained" and document["source"]["name"] == "tiny-decoder"
    assert document["provenance"]["seed"] is None and document["attention"][0]["layer"] == 0
    assert "each token attends to the one before it" in document["notes"][0]


def test_all_heads_of_a_shipped_model_are_shown_where_it_is_named_or_they_are_asked_for(cli: Cli) -> None:
    named = cli("show", "the cat", "-m", "tiny-decoder", "--json", "-q").json["attention"]
    asked = cli("show", "the cat", "--layer", "all", "--json", "-q").json["attention"]
    assert [(m["layer"], m["head"]) for m in named] == [
        (layer, head) for layer in (0, 1) for head in range(4)
    ]
    assert named == asked


def test_a_translation_shows_cross_attention_by_itself(cli: Cli) -> None:
    document = cli("show", "may the first, nineteen ten", "-m", "tiny-translator", "--json", "-q").json
    jsonschema.Draft202012Validator(cli("schema", "show").json).validate(document)
    assert {m["kind"] for m in document["attention"]} == {"cross"}
    assert "".join(token["text"] for token in document["query_tokens"]) == "<s>1910-05-01"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("-m", "tiny-decoder", "--heads", "2"), 2, "--heads needs the scratch model"),
        (("-m", "tiny-decoder", "--variant", "linear"), 2, "--variant needs the scratch model"),
        (("-m", "tiny-decoder", "--dtype", "float16"), 2, "--dtype needs a pretrained model"),
        (("-m", "tiny-encoder", "--device", "cuda"), 2, "--device needs a pretrained model"),
        (("-m", "tiny-encoder", "--pair", "b"), 2, "tiny-encoder takes one text"),
        (("-m", "tiny-decoder", "--generate", "3"), 2, "--generate needs a pretrained model"),
        (("--layer", "2"), 2, "--layer 2: out of range"),
    ],
)
def test_what_a_shipped_model_does_not_take_is_told(
    cli: Cli, arguments: tuple, code: int, words: str
) -> None:
    result = cli("show", "a b", *arguments)
    assert (result.code, result.out) == (code, "") and words in result.err
    assert len(result.err.splitlines()) <= 3


@pytest.mark.parametrize("option", [("--causal",), ("--seed", "3"), ("--pair", "b"),
                                    ("--d-model", "8"), ("--variant", "linear")])  # fmt: skip
def test_an_option_of_the_scratch_model_selects_it(cli: Cli, option: tuple[str, ...]) -> None:
    assert cli("show", "a b", *option, "--json", "-q").json["source"]["kind"] == "scratch"
