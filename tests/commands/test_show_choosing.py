"""Which heads, keys and spans of a text are shown, held against plain sums over eager attention."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import Cli

from attncli.models.loading import LoadOptions, load
from attncli.models.prepared_text import prepare

TEXT = "the animal was too tired . it did cross . the animal"


def eager(folder: str, text: str = TEXT, pair: str | None = None) -> np.ndarray:
    """Return the weights that the model's own eager attention gives ``(layers, heads, query, key)``."""
    import torch

    loaded = load(folder, LoadOptions(attention="eager"))
    with torch.no_grad():
        made = loaded.model(**prepare(loaded, text, pair).inputs, output_attentions=True).attentions
    return np.stack([layer[0].numpy() for layer in made])


def shown(cli: Cli, folder: str, *options: str, text: str = TEXT) -> Any:
    result = cli("show", text, "-m", folder, "--json", *options)
    assert result.code == 0, result.err
    return result.json


def weights(document: Any) -> np.ndarray:
    return np.array([[[w or 0 for w in row] for row in one["weights"]] for one in document["attention"]])


def summed(values: np.ndarray, rows: list[Any], keys: list[Any]) -> np.ndarray:
    """Return the definition: sums over keys, means over rows."""
    return np.array([[values[list(row)][:, list(key)].sum() / len(row) for key in keys] for row in rows])


def test_heads_by_their_names_come_layer_by_layer(cli: Cli, tiny_llama: str) -> None:
    found = shown(cli, tiny_llama, "--head", "L2H0,L0H3,l2h1")
    assert [(one["layer"], one["head"]) for one in found["attention"]] == [(2, 0), (2, 1), (0, 3)]
    all_heads = eager(tiny_llama)
    assert np.abs(weights(found) - all_heads[[2, 2, 0], [0, 1, 3]]).max() < 1e-5


@pytest.mark.parametrize(("how", "of"), [("mean", np.mean), ("max", np.max)])
def test_named_heads_of_several_layers_become_one(cli: Cli, tiny_llama: str, how: str, of: Any) -> None:
    found = shown(cli, tiny_llama, "--head", f"L2H0,L0H3,L2H1:{how}")
    named = eager(tiny_llama)[[2, 0, 2], [0, 3, 1]]
    assert np.abs(weights(found)[0] - of(named, axis=0)).max() < 1e-5
    assert found["attention"][0]["name"] == f"{how} of L2H0, L0H3, L2H1"


def test_the_largest_of_all_heads(cli: Cli, tiny_llama: str) -> None:
    found = shown(cli, tiny_llama, "--layer", "1-", "--head", "max")
    assert [(one["layer"], one["head"]) for one in found["attention"]] == [(1, "max"), (2, "max")]
    assert np.abs(weights(found) - eager(tiny_llama)[1:].max(axis=1)).max() < 1e-5
    assert "a row need not sum to 1" in found["notes"][-1]
    pooled = shown(cli, tiny_llama, "--layer", "1", "--head", "max", "--pool", "max")
    assert np.abs(weights(pooled)[0] - eager(tiny_llama)[1].max(axis=0)).max() < 1e-5


@pytest.mark.parametrize(("options", "code", "message"), [
    (["--head", "L2H0", "--layer", "1"], 2, "names its layers too"),
    (["--head", "L2H0,3"], 2, "not a list of heads"),
    (["--head", "L2H9"], 2, "--head 9: out of range"),
    (["--head", "L9H0"], 2, "--layer 9: out of range"),
    (["--head", "max", "--pool", "mean"], 2, "--pool max"),
    (["--spans", "sentences"], 2, 'did you mean "sentence"?'),
    (["--spans", "line"], 2, "the text has only one line"),
    (["--spans", "sentence", "--words"], 2, "--spans and --words were both given"),
    (["--spans", "sentence", "--head", "max"], 2, "no sum of largest weights"),
    (["--spans", "no.jsonl"], 1, "no.jsonl"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused(
    cli: Cli, tiny_llama: str, options: list[str], code: int, message: str
) -> None:
    result = cli("show", TEXT.replace("it", "It"), "-m", tiny_llama, *options)
    assert result.code == code and message in result.err and result.err.count("\n") <= 3


def test_words_of_chosen_rows_and_columns(cli: Cli, tiny_bert: str) -> None:
    text, pair = "the animals was too tireds", "it animals"
    found = shown(
        cli, tiny_bert, "--pair", pair, "--words", "--query", "it,animals", "--key", "2,5-6", text=text
    )
    assert [token["text"] for token in found["query_tokens"]] == ["it", "animals", "animals"]
    assert [token["text"] for token in found["key_tokens"]] == ["animals", "too", "tireds"]
    rows, keys = [range(9, 10), range(2, 4), range(10, 12)], [range(2, 4), range(5, 6), range(6, 8)]
    wanted = [summed(head, rows, keys) for layer in eager(tiny_bert, text, pair) for head in layer]
    assert np.abs(weights(found) - np.array(wanted)).max() < 1e-5


@pytest.mark.parametrize("options", [("--exclude-special",), ("--exclude-special", "--exclude-first")])
def test_what_is_left_of_a_row_sums_to_one(cli: Cli, tiny_bert: str, options: tuple[str, ...]) -> None:
    found = shown(cli, tiny_bert, *options)
    every = eager(tiny_bert).reshape(-1, 14, 14)
    left = every * ([0] + [1] * 12 + [0])
    assert np.abs(weights(found) - left / left.sum(axis=-1, keepdims=True)).max() < 1e-5
    share = round(100 * float((every - left).sum(axis=-1).mean()))
    assert f"with {share} % of the weight" in found["notes"][0]


def test_strongest_keys_are_those_that_are_left(cli: Cli, tiny_llama: str) -> None:
    found = shown(cli, tiny_llama, "--layer", "1", "--head", "2", "--exclude-first", "--top", "1")
    left = eager(tiny_llama)[1, 2].copy()
    left[:, 0] = 0
    left = left[1:] / left[1:].sum(axis=-1, keepdims=True)
    rows = found["attention"][0]["top"]
    assert rows[0] == [] and [row[0]["key"] for row in rows[1:]] == left.argmax(axis=-1).tolist()
    assert np.abs(np.array([row[0]["weight"] for row in rows[1:]]) - left.max(axis=-1)).max() < 1e-5


@pytest.mark.parametrize(
    ("heads", "over"),
    [((), ()), (("--head", "mean"), (1,)), (("--head", "mean", "--layer", "mean"), (0, 1))],
)
def test_between_sentences_weights_are_summed_and_rows_averaged(
    cli: Cli, tiny_llama: str, heads: tuple[str, ...], over: tuple[int, ...]
) -> None:
    text = TEXT.replace("it", "It").replace(". the", ". The")
    found = shown(cli, tiny_llama, "--spans", "sentence", *heads, text=text)
    assert [token["text"] for token in found["key_tokens"]] == [
        "the animal was too tired .", "It did cross .", "The animal"
    ]  # fmt: skip
    every = eager(tiny_llama, text).mean(axis=over)
    places = [range(6), range(6, 10), range(10, 12)]
    wanted = [summed(head, places, places) for head in every.reshape(-1, 12, 12)]
    assert np.abs(weights(found) - np.array(wanted)).max() < 1e-5
    assert np.abs(weights(found).sum(axis=-1) - 1).max() < 1e-5


def test_spans_of_a_file_may_overlap_and_the_rest_has_a_column(
    cli: Cli, tiny_bert: str, tmp_path: Path
) -> None:
    lines = [{"name": "start", "start": 0, "end": 14}, {"name": "who", "text": "animal was too"}]
    (tmp_path / "spans.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = shown(cli, tiny_bert, "--spans", str(tmp_path / "spans.jsonl"))
    assert [token["text"] for token in found["key_tokens"]] == ["start", "who", "rest"]
    places: list[Any] = [range(1, 4), range(2, 5), [0, *range(5, 14)]]
    wanted = [summed(head, places, places) for layer in eager(tiny_bert) for head in layer]
    assert np.abs(weights(found) - np.array(wanted)).max() < 1e-5
    assert any("in several spans" in note for note in found["notes"])


def test_the_lines_of_a_file_that_name_nothing_are_told(cli: Cli, tiny_bert: str, tmp_path: Path) -> None:
    (tmp_path / "spans.jsonl").write_text(
        '{"name": "a", "text": "zebra"}\n{"start": 1}\n{"name": "b", "start": 3}\n'
    )
    result = cli("show", TEXT, "-m", tiny_bert, "--spans", str(tmp_path / "spans.jsonl"))
    assert result.code == 1 and 'line 1: the text of "a" is not there' in result.err
    assert "not right either: lines 2, 3" in result.err


def test_the_parts_of_a_pair_and_the_special_tokens_are_segments(cli: Cli, tiny_bert: str) -> None:
    found = shown(cli, tiny_bert, "--pair", "it was", "--spans", "segment", text="the animal")
    assert [token["text"] for token in found["key_tokens"]] == ["text", "pair", "special tokens"]
    places: list[Any] = [range(1, 3), range(4, 6), [0, 3, 6]]
    every = eager(tiny_bert, "the animal", "it was")
    wanted = [summed(head, places, places) for layer in every for head in layer]
    assert np.abs(weights(found) - np.array(wanted)).max() < 1e-5


def test_all_forms_take_spans_and_merged_heads(cli: Cli, tiny_llama: str, tmp_path: Path) -> None:
    files = [str(tmp_path / f"map.{ending}") for ending in ("png", "csv", "md", "json", "ndjson", "npz")]
    options = [part for file in files for part in ("-o", file)]
    for chosen in (["--spans", "line"], ["--head", "L0H1,L2H2:max"], ["--head", "max"]):
        assert cli("show", f"{TEXT}\nit was", "-m", tiny_llama, *chosen, *options).code == 0
        for file in (files[3], files[5]):
            assert cli("render", file, "-f", "table").code == 0


def test_a_saved_run_is_asked_the_same(cli: Cli, tiny_llama: str, tmp_path: Path) -> None:
    saved = str(tmp_path / "run.npz")
    assert cli("show", TEXT, "-m", tiny_llama, "-o", saved).code == 0
    for head in ("L2H0,L0H3,L2H1", "L2H0,L0H3:mean", "L2H0,L0H3,L2H1:max", "max", "1-"):
        again = cli("render", saved, "--head", head, "--json").json
        live = shown(cli, tiny_llama, "--head", head)
        assert np.abs(weights(again) - weights(live)).max() < 1e-6
        assert [one.get("name") for one in again["attention"]] == [
            one.get("name") for one in live["attention"]
        ]
        assert again["title"] == live["title"]
