"""What a user of explain sees, by option and by form."""

import jsonschema
import pytest
import tiny
from commandline import Cli

TEXT = "the animal was too tired ."


def test_a_row_of_the_scratch_model_is_told_in_eight_steps(cli: Cli) -> None:
    result = cli("explain", TEXT, "-m", "scratch", "--query", "tired", "--causal", "--heads", "2")
    assert (result.code, result.err) == (0, "") and "\x1b" not in result.out
    assert "· row 4 “tired”" in result.out and "\n8. Output projection\n" in result.out
    assert "1 of 6 keys is hidden" in result.out


def test_a_bias_among_the_measured_scores_is_said(cli: Cli) -> None:
    told = "here with the bias of the next step"
    layers = [" ".join(cli("explain", TEXT, "--layer", layer, "--head", "2").out.split()) for layer in "01"]
    assert [told in text for text in layers] == [True, False]


def test_json_follows_its_schema(cli: Cli, tiny_llama: str) -> None:
    arguments = (
        "explain",
        TEXT,
        "-m",
        tiny_llama,
        "--layer",
        "-1",
        "--head",
        "-2",
        "--query",
        "was",
        "--json",
    )
    document = cli(*arguments).json
    jsonschema.Draft202012Validator(cli("schema", "explain").json).validate(document)
    assert (document["site"]["layer"], document["site"]["head"], document["site"]["kv_head"]) == (2, 2, 1)
    assert document["query_token"]["text"] == "was" and document["query_before_position"] is not None


def test_the_row_and_the_head_are_chosen_and_that_is_said(cli: Cli, tiny_bert: str) -> None:
    result = cli("explain", TEXT, "-m", tiny_bert, "--width", "300")
    assert "note: the row is the last word, “tired”: --query names another" in result.out
    pieces = cli("explain", "he was untranslatable .").out
    assert "note: the row is the last word's last piece, “" in pieces
    assert "of 6 heads the one that gives a single word farther away the most weight" in result.out
    assert "note: layer" not in cli("explain", TEXT, "-m", tiny_bert, "--layer", "1", "--head", "0").out


def test_a_word_in_pieces_or_in_several_places_is_one_row_and_that_is_said(cli: Cli, tiny_bert: str) -> None:
    result = cli("explain", "the animals was the animal", "-m", tiny_bert, "--query", "the", "--width", "200")
    assert "--query the is row 1; it also stands at 5" in result.out
    result = cli("explain", "the animals was", "-m", tiny_bert, "--query", "animals", "--width", "200")
    assert "--query animals is row 3, the last of its 2 pieces" in result.out


def test_cross_attention_is_explained(cli: Cli, tiny_marian: str) -> None:
    result = cli("explain", "the animal was", "-m", tiny_marian, "--pair", "it was", "--json")
    assert result.json["site"]["kind"] == "cross" and len(result.json["keys"][0]["input"]) == 24


@pytest.mark.parametrize(
    ("form", "start"), [("mermaid", "flowchart TD\n"), ("diagram", "scratch (untrained)")]
)
def test_the_diagram_comes_as_text_or_mermaid(cli: Cli, form: str, start: str) -> None:
    common = ("explain", TEXT, "-m", "scratch", "-q")
    assert cli(*common, "--diagram").out == cli(*common, "-f", "diagram").out
    assert cli(*common, "--diagram", "-f", form).out.startswith(start)


def test_topics_stand_in_the_texts_place(cli: Cli) -> None:
    assert cli("explain", "order", "--json", "-q").json["topic"] == "order"
    assert cli("explain", "scaling", "--json", "-q").json["topic"] == "scaling"


@pytest.mark.parametrize("more", [("--query", "0"), ("--layer", "0"), ("--diagram",)])
def test_a_text_that_is_a_topics_name_can_be_explained(cli: Cli, more: tuple[str, ...]) -> None:
    assert cli("explain", "scaling", "--json", "--seed", "0", *more).json["topic"] == "steps"
    assert cli("explain", "--json", "--seed", "0", "--", "scaling").json["topic"] == "steps"
    assert cli("explain", "--json", "--seed", "0", stdin=b"order").json["topic"] == "steps"


def test_scaling_is_drawn(cli: Cli, tmp_path) -> None:
    path = tmp_path / "scaling.svg"
    assert cli("explain", "scaling", "-q", "-o", str(path)).code == 0
    assert "entropy of weights (bits)" in path.read_text()


@pytest.mark.parametrize("ending", ["txt", "md", "mmd", "json", "csv", "tsv", "ndjson"])
def test_a_file_is_written_by_its_ending(cli: Cli, tmp_path, ending: str) -> None:
    path = tmp_path / f"steps.{ending}"
    assert (cli("explain", "a b", "-m", "scratch", "-o", str(path)).code, path.stat().st_size > 50) == (
        0,
        True,
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--layer", "0-2"), 2, "--layer 0-2: explain takes one layer"),
        (("--head", "all"), 2, "--head all: explain takes one head"),
        (("--layer", "1"), 2, "--layer 1: out of range"),
        (("--head", "1"), 2, "--head 1: out of range"),
        (("--head", "1", "--layer", "0"), 2, "--head 1: out of range"),
        (("--query", "zebra"), 2, 'no token "zebra"'),
        (("--variant", "linear"), 2, "leave --variant out"),
        (("-o", "x.npz"), 2, "this command cannot write .npz files"),
        (("--format", "heatmap"), 2, "not available for this command"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_clear_line(cli: Cli, arguments: tuple[str, ...], code: int, message: str) -> None:
    result = cli("explain", "a b", "-m", "scratch", *arguments)
    assert (result.code, result.out) == (code, "") and result.err.splitlines()[0].startswith("error: ")
    assert message in result.err and len(result.err.splitlines()) <= 3


def test_a_family_beside_the_interface_is_refused(cli: Cli, tmp_path) -> None:
    result = cli("explain", TEXT, "-m", str(tiny.write_bloom(tmp_path)))
    assert (result.code, result.out) == (1, "")
    assert "its queries and keys are not to be seen" in result.err
