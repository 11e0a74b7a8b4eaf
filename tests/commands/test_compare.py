"""Variants on the queries and keys of a model's head."""

import numpy as np
import pytest
from commandline import Cli

TEXT = "it was on the mat"


def test_full_attention_on_a_heads_queries_and_keys_has_the_weights_of_the_model(
    cli: Cli, tiny_llama: str
) -> None:
    place = ("--layer", "1", "--head", "2")
    shown = cli("show", TEXT, "-m", tiny_llama, *place, "--json").json
    found = cli("compare", TEXT, "-m", tiny_llama, *place, "--variants", "full,sliding-window", "--json").json
    full, window = (np.array(one["weights"]) for one in found["attention"])
    np.testing.assert_allclose(full, shown["attention"][0]["weights"], atol=1e-5)
    assert found["source"]["name"] == tiny_llama and "layer 1 head 2" in found["notes"][0]
    lost = -np.log2([(full[row] * (window[row] > 0)).sum() for row in range(len(full))])
    assert found["attention"][1]["kl_bits"] == pytest.approx(float(lost.mean()), abs=1e-4)


def test_without_a_place_the_most_telling_head_is_taken(cli: Cli, tiny_bert: str) -> None:
    found = cli("compare", TEXT, "-m", tiny_bert, "--variants", "full", "--json").json
    shown = cli("show", TEXT, "-m", tiny_bert).out
    layer, head = shown.partition("layer ")[2].split()[0:3:2]
    assert f"layer {layer} head {head}" in found["notes"][0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-m", "tiny-decoder", "--heads", "2"), "--heads needs the scratch model"),
        (("--layer", "0"), "--layer needs a trained model"),
        (("-m", "tiny-decoder", "--layer", "0"), "layer 0 has a position bias besides queries and keys"),
        (("-m", "tiny-decoder", "--layer", "9"), "--layer 9: out of range"),
        (("-m", "tiny-decoder", "--head", "9"), "--head 9: out of range"),
    ],
)
def test_what_a_head_does_not_have_is_told(cli: Cli, options: tuple[str, ...], message: str) -> None:
    found = cli("compare", TEXT, *options)
    assert found.code == 2 and message in found.err and not found.out
