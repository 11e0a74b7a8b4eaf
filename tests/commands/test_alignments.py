"""Word alignments, held against plain sums over eager attention."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from commandline import Cli

from attncli.commands.schema import schema_text
from attncli.models.loading import LoadOptions, load
from attncli.models.prepared_text import prepare

SOURCE, TARGET = "the animals was too tired", "it was tired ."


def eager(folder: str) -> Any:
    """Return what the model's own eager attention gives."""
    import torch

    loaded = load(folder, LoadOptions(attention="eager"))
    with torch.no_grad():
        return loaded.model(**prepare(loaded, SOURCE, TARGET).inputs, output_attentions=True)


def words_of(weights: np.ndarray, rows: list[list[int]], keys: list[list[int]]) -> np.ndarray:
    return np.array([[weights[row][:, key].sum(axis=1).mean() for key in keys] for row in rows])


def line(weights: np.ndarray) -> str:
    pairs = sorted((int(row.argmax()), number) for number, row in enumerate(weights))
    return " ".join(f"{source}-{target}" for source, target in pairs) + "\n"


def test_the_words_of_a_pair_are_linked_by_an_encoder(cli: Cli, tiny_bert: str) -> None:
    result = cli("show", SOURCE, "--pair", TARGET, "-m", tiny_bert, "--head", "L1H2", "-f", "pharaoh")
    weights = eager(tiny_bert).attentions[1][0, 2].numpy()
    # [CLS] the animal ##s was too tired [SEP] it was tired . [SEP]
    wanted = words_of(weights, [[8], [9], [10], [11]], [[1], [2, 3], [4], [5], [6]])
    assert (result.code, result.out) == (0, line(wanted))


def test_in_cross_attention_a_word_has_the_row_that_writes_it(cli: Cli, tiny_marian: str) -> None:
    options = ["show", SOURCE, "--pair", TARGET, "-m", tiny_marian, "--head", "L1H0"]
    tokens = cli(*options, "--json").json
    result = cli(*options, "-f", "pharaoh")
    weights = eager(tiny_marian).cross_attentions[1][0, 0].numpy()

    def groups(tokens: list[dict[str, Any]], text: str) -> list[list[int]]:
        ends = np.cumsum([len(word) + 1 for word in text.split()])
        found: list[list[int]] = [[] for _ in ends]
        for token in tokens:
            if token["end"] is not None:
                found[int(np.searchsorted(ends, token["end"] - 1, side="right"))].append(token["position"])
        return found

    rows = [[place - 1 for place in word] for word in groups(tokens["query_tokens"], TARGET)]
    rows = [
        row for row in rows if row
    ]  # a tokenizer without an end token: the decoder does not read the last word
    wanted = words_of(weights, rows, groups(tokens["key_tokens"], SOURCE))
    assert (result.code, result.out) == (0, line(wanted))


def test_both_directions_of_one_run_or_of_two_are_joined(cli: Cli, tiny_bert: str, tmp_path: Path) -> None:
    options = ["show", SOURCE, "--pair", TARGET, "-m", tiny_bert, "--head", "L1H2", "-f", "pharaoh"]
    forward = set(cli(*options).out.split())
    both = set(cli(*options, "--join", "intersection").out.split())
    either = set(cli(*options, "--join", "union").out.split())
    assert both <= forward <= either and both != either
    (tmp_path / "back.txt").write_text("0-4 3-0\n")
    joined = cli(*options, "--join", "union", "--reverse", str(tmp_path / "back.txt")).out.split()
    assert set(joined) == forward | {"4-0", "0-3"}


@pytest.mark.parametrize(("options", "message"), [
    (["-f", "pharaoh"], "needs two texts"),
    (["-f", "pharaoh", "--pair", TARGET], "6 heads were asked for"),
    (["-f", "pharaoh", "--pair", TARGET, "--head", "mean", "--layer", "0", "--join", "x"], "--join x: no such way"),
    (["-f", "pharaoh", "--pair", TARGET, "--reverse", "x"], "--reverse needs --join"),
    (["-f", "pharaoh", "--pair", TARGET, "--rows", "1"], "shows whole texts"),
    (["--join", "union"], "are for -f pharaoh"),
])  # fmt: skip
def test_what_is_no_alignment_is_refused(cli: Cli, tiny_bert: str, options: list[str], message: str) -> None:
    result = cli("show", SOURCE, "-m", tiny_bert, *options)
    assert result.code == 2 and message in result.err


def test_a_saved_map_is_written_as_the_strongest_key_of_each_row(
    cli: Cli, tiny_llama: str, tmp_path: Path
) -> None:
    saved = str(tmp_path / "run.json")
    assert cli("show", "the animal was", "-m", tiny_llama, "--head", "L0H0", "-o", saved).code == 0
    weights = [
        [w or 0 for w in row] for row in json.loads(Path(saved).read_text())["attention"][0]["weights"]
    ]
    assert cli("render", saved, "-f", "pharaoh").out == line(np.array(weights))
    assert cli("mask", "causal", "-n", "2", "-f", "pharaoh").out == "0-0 0-1 1-1\n"


@pytest.fixture
def gold(tmp_path: Path) -> str:
    path = tmp_path / "gold.txt"
    path.write_text(f"{SOURCE} ||| {TARGET} ||| 1-0 2-1 4?2\ntired ||| was tired ||| 0-1\n")
    return str(path)


def test_heads_are_ranked_by_their_alignment_error_rate(cli: Cli, tiny_bert: str, gold: str) -> None:
    result = cli("find", "--alignments", gold, "-m", tiny_bert, "--json")
    assert result.code == 0, result.err
    jsonschema.validate(result.json, json.loads(schema_text("find")))
    rates = [head["metrics"]["aer"] for head in result.json["heads"]]
    assert len(rates) == 6 and rates == sorted(rates)
    assert result.json["corpus"]["texts"] == 2 and result.json["searched"]["sure"] == 3
    # The diagonal says 0-0 1-1 2-2 3-3 and 0-0 0-1: one of 6 is right, and that one is sure.
    assert result.json["diagonal"] == {"aer": pytest.approx(1 - 2 / 9), "precision": pytest.approx(1 / 6),
                                       "recall": pytest.approx(1 / 3), "links": 6}  # fmt: skip


def test_the_figures_of_a_head_are_those_of_its_lines(cli: Cli, tiny_bert: str, gold: str) -> None:
    shown = [cli("show", text, "--pair", pair, "-m", tiny_bert, "--head", "L1H2", "-f", "pharaoh").out.split()
             for text, pair in ((SOURCE, TARGET), ("tired", "was tired"))]  # fmt: skip
    found = cli("find", "--alignments", gold, "-m", tiny_bert, "--layer", "1", "--head", "2", "--json").json
    sure, possible = [{"1-0", "2-1"}, {"0-1"}], [{"1-0", "2-1", "4-2"}, {"0-1"}]
    hits = sum(len(set(links) & right) for links, right in zip(shown, sure, strict=True))
    allowed = sum(len(set(links) & right) for links, right in zip(shown, possible, strict=True))
    metrics = found["heads"][0]["metrics"]
    assert metrics["links"] == 6 and metrics["aer"] == pytest.approx(1 - (hits + allowed) / 9)


def test_a_saved_ranking_is_drawn_again_and_bad_lines_are_told(
    cli: Cli, tiny_bert: str, gold: str, tmp_path: Path
) -> None:
    saved = str(tmp_path / "run.json")
    options = ("find", "--alignments", gold, "-m", tiny_bert, "-f", "table")
    first = cli(*options, "-o", saved.replace("run.json", "t.png"))
    assert cli("find", "--alignments", gold, "-m", tiny_bert, "-o", saved).code == 0
    assert cli("render", saved, "-f", "table").out == first.out
    Path(gold).write_text(f"{SOURCE} ||| {' '.join(['it'] * 30)} ||| 0-0\n")
    result = cli(*options)
    assert result.code == 1 and "line 1: the text has" in result.err


@pytest.mark.parametrize("options", [["--from", "it"], ["--pair", "it"], ["--examples", "coreference"]])
def test_gold_alignments_bring_their_own_texts(
    cli: Cli, tiny_bert: str, gold: str, options: list[str]
) -> None:
    result = cli("find", "--alignments", gold, "-m", tiny_bert, *options)
    assert result.code == 2 and "were both given" in result.err
