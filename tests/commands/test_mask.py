import jsonschema
import numpy as np
import pytest
from commandline import Cli

from attncli import registry

PATTERNS = sorted({*registry.entries("masks"), *registry.entries("variants")})


@pytest.mark.parametrize("name", PATTERNS)
def test_every_mask_is_drawn_and_given_as_data(cli: Cli, name: str, tmp_path) -> None:
    drawn = cli("mask", name, "--seq-len", "5")
    assert drawn.code == 0 and all(fact in drawn.out for fact in ("density", "keys per row", "path"))
    document = cli("mask", name, "--seq-len", "5", "--json").json
    jsonschema.Draft202012Validator(cli("schema", "mask").json).validate(document)
    assert document["attention"][0]["shape"] == [5, 5]
    for ending in ("png", "svg", "npz"):
        assert cli("mask", name, "-n", "5", "-o", str(tmp_path / f"m.{ending}")).code == 0


def test_the_facts_of_a_window_with_a_global_token_can_be_counted_by_hand(cli: Cli) -> None:
    # Row 0 sees 5 keys; rows 1 to 4 see key 0, themselves and their neighbours: 3, 4, 4, 3.
    settings = ("--set", "window=2", "--set", "global-tokens=1")
    document = cli("mask", "sliding-window", "-n", "5", *settings, "--json").json
    found = document["attention"][0]
    assert found["allowed"] == [[1] * 5, [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 0, 1, 1, 1], [1, 0, 0, 1, 1]]
    assert (found["density"], found["path_length"], found["path_rows"]) == (19 / 25, 2, 5)
    assert found["keys_per_row"] == {"min": 3, "median": 4.0, "max": 5}
    assert document["title"].startswith("sliding-window pattern (window=2, global_tokens=1): ")


def test_causality_is_a_choice_where_there_are_two_forms(cli: Cli) -> None:
    settings = ("sliding-window", "-n", "4", "--set", "window=2", "--json")
    both = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    assert cli("mask", *settings).json["attention"][0]["allowed"] == both
    assert cli("mask", *settings, "--no-causal").json["attention"][0]["allowed"] == both
    found = cli("mask", *settings, "--causal").json["attention"][0]
    assert (found["allowed"], found["path_length"]) == (np.tril(both).tolist(), 3)
    padded = cli("mask", "padding", "-n", "3", "--set", "pad=1", "--causal", "--json").json["attention"][0]
    assert padded["allowed"] == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]


def test_a_path_that_never_ends_is_null_and_said(cli: Cli) -> None:
    assert "path length never" in " ".join(cli("mask", "padding", "-n", "5").out.split())
    assert cli("mask", "padding", "-n", "5", "--json").json["attention"][0]["path_length"] is None


def test_a_recurrent_layer_is_told_apart_from_so_many_layers(cli: Cli) -> None:
    shown = " ".join(cli("mask", "recurrent", "-n", "9").out.split())
    assert "path length 8" in shown and "steps in time, not layers" in shown


def test_a_long_pattern_is_a_pooled_picture_with_true_facts(cli: Cli, tmp_path) -> None:
    drawn = cli(
        "mask",
        "sliding-window",
        "-n",
        "6000",
        "--set",
        "window=1500",
        "-f",
        "heatmap",
        "-o",
        str(tmp_path / "m.png"),
    )
    shown = " ".join(drawn.out.split())
    assert drawn.code == 0 and (tmp_path / "m.png").stat().st_size > 10_000
    assert "keys per row min 1500, median 2999, max 2999" in shown and "path length 5" in shown
    assert "a point stands for 12×12 pairs" in shown and "measured from 64 of the 6,000 rows" in shown


def test_a_pooled_picture_has_the_positions_of_its_cells(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from attncli.maps import pattern as _pattern

    monkeypatch.setattr(_pattern, "LARGEST_TEXT", 80)
    monkeypatch.setattr(_pattern, "SIDE", 5)
    shown = cli("mask", "recurrent", "-n", "10").out.splitlines()
    assert [line.split() for line in shown if line[:1].isdigit() or line[:2].isspace()][:6] == [
        ["0", "2", "4", "6", "8"],
        ["0", *"■╌╌╌╌"],
        ["2", *"■■╌╌╌"],
        ["4", *"╌■■╌╌"],
        ["6", *"╌╌■■╌"],
        ["8", *"╌╌╌■■"],
    ]


def test_between_two_sequences_there_is_no_path(cli: Cli) -> None:
    assert (
        "path_length" not in cli("mask", "full", "-n", "2", "--key-len", "3", "--json").json["attention"][0]
    )


def test_a_causal_mask_counts_its_keys(cli: Cli) -> None:
    found = cli("mask", "causal", "--seq-len", "5", "--json").json["attention"][0]
    assert found["allowed"] == np.tri(5, dtype=int).tolist()
    assert (found["density"], found["keys_per_row"]) == (0.6, {"min": 1, "median": 3.0, "max": 5})


def test_with_more_keys_the_queries_are_the_last_positions(cli: Cli) -> None:
    document = cli("mask", "causal", "--seq-len", "2", "--key-len", "4", "--json").json
    assert [token["position"] for token in document["query_tokens"]] == [2, 3]
    assert document["attention"][0]["allowed"] == [[1, 1, 1, 0], [1, 1, 1, 1]]


def test_a_sentence_labels_the_mask(cli: Cli) -> None:
    document = cli("mask", "padding", "the animal was", "--set", "pad=1", "--set", "side=left", "--json").json
    assert [token["text"] for token in document["key_tokens"]] == ["the", "animal", "was"]
    assert document["attention"][0]["allowed"] == [[0, 1, 1]] * 3


def test_rows_without_keys_are_told(cli: Cli) -> None:
    settings = ("--set", "pad=2", "--set", "side=left", "--set", "causal=true")
    assert (
        cli("mask", "padding", "-n", "4", *settings, "--json").json["attention"][0]["rows_without_keys"] == 2
    )


def test_the_mask_that_a_model_really_used_is_shown(cli: Cli, tiny_llama: str, tiny_bert: str) -> None:
    causal = cli("mask", "-m", tiny_llama, "the animal was", "--json").json
    assert len(causal["attention"]) == 1 and causal["attention"][0]["layers"] == [0, 1, 2]
    assert causal["attention"][0]["allowed"] == np.tri(3, dtype=int).tolist()
    full = cli("mask", "-m", tiny_bert, "the animal", "--json").json["attention"][0]
    assert full["keys_per_row"] == {"min": 4, "median": 4.0, "max": 4}


def test_a_models_cross_mask_is_full(cli: Cli, tiny_marian: str) -> None:
    document = cli("mask", "-m", tiny_marian, "the animal was", "--pair", "it was", "--json").json
    assert document["attention"][0]["kind"] == "cross" and document["attention"][0]["shape"] == [2, 3]


def test_a_path_that_takes_too_long_to_measure_is_left_out_and_told(cli: Cli, monkeypatch) -> None:
    monkeypatch.setattr("attncli.attention.patterns.path_length.MOST_WORK", 50_000)
    found = cli("mask", "recurrent", "-n", "30", "--json").json
    assert "path_length" not in found["attention"][0]
    assert "no path length: it is more than 10 layers, and takes too long to measure" in found["notes"]
    assert cli("mask", "recurrent", "-n", "5", "--json").json["attention"][0]["path_length"] == 4


def test_settings_that_would_cover_everything_are_made_small_and_that_is_told(cli: Cli) -> None:
    found = cli("mask", "sliding-window", "-n", "16", "--json").json
    assert found["attention"][0]["density"] < 0.5
    assert "window=3, small enough to be seen here; the default window=256" in found["notes"][0]
    assert cli("mask", "sliding-window", "-n", "16", "--set", "window=256", "--json").json["notes"] == []
