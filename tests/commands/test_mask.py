import jsonschema
import numpy as np
import pytest

from attncli import registry
from conftest import Cli


@pytest.mark.parametrize("name", registry.entries("masks"))
def test_every_mask_is_drawn_and_given_as_data(cli: Cli, name: str, tmp_path) -> None:
    drawn = cli("mask", name, "--seq-len", "5")
    assert drawn.code == 0 and "density" in drawn.out and "keys per row" in drawn.out
    document = cli("mask", name, "--seq-len", "5", "--json").json
    jsonschema.Draft202012Validator(cli("schema", "mask").json).validate(document)
    assert document["attention"][0]["shape"] == [5, 5]
    for ending in ("png", "svg", "npz"):
        assert cli("mask", name, "-n", "5", "-o", str(tmp_path / f"m.{ending}")).code == 0


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
