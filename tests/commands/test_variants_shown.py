"""Every variant is shown and compared without a second registration."""

import numpy as np
import pytest
from commandline import Cli

from attncli import registry

TEXT = "the animal did not cross the street because it was too tired"
VARIANTS = registry.entries("variants")


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_shows_its_effective_weights(cli: Cli, name: str) -> None:
    document = cli("show", TEXT, "--variant", name, "--heads", "2", "--json", "-q").json
    weights = np.array([found["weights"] for found in document["attention"]])
    assert weights.shape == (2, 12, 12) and document["source"]["family"] == name
    assert document["unit"] == ("signed" if VARIANTS[name].attributes["signed"] else "weight")
    if not VARIANTS[name].attributes["signed"]:
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-4)
    if VARIANTS[name].attributes["causal"] == "only":
        assert not np.triu(weights, 1).any()


def test_a_causal_variant_says_that_it_is_held_against_causal_attention(cli: Cli) -> None:
    note = "a causal variant is held against causal full attention"
    assert note in cli("compare", TEXT, "--variants", "full,retention", "--json", "-q").json["notes"]
    one = cli("compare", TEXT, "--variants", "full", "--json", "-q").json
    assert note not in one["notes"] and one["title"].startswith("1 variant on")


def test_the_settings_that_were_used_are_said_and_may_be_set(cli: Cli) -> None:
    shown = cli("show", TEXT, "--variant", "sliding-window", "--json").json
    assert "window=3" in shown["notes"][1]
    narrow = cli("show", TEXT, "--variant", "sliding-window", "--set", "window=2", "--causal", "--json").json
    weights = np.array(narrow["attention"][0]["weights"])
    assert (weights > 0).sum(axis=1).tolist() == [1] + [2] * 11


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--variant", "slidingwindow"), 'did you mean "sliding-window"?'),
        (("--variant", "sliding-window", "--set", "windw=3"), 'did you mean "window"?'),
        (("--variant", "sliding-window", "--set", "window=0"), "must be at least 1"),
        (("--variant", "bigbird", "--causal"), "no causal form"),
        (("--variant", "dsa", "--set", "top_k=99"), "at most the 12 keys"),
        (("--variant", "retention", "--d-model", "10", "--heads", "2"), "even head_dim"),
        (("--set", "window=3"), "--set needs --variant"),
        (("--variant", "linear", "-m", "./x"), "--variant needs the scratch model"),
    ],
)
def test_what_does_not_fit_is_told(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    result = cli("show", TEXT, *arguments)
    assert (result.code, result.out) == (2, "") and words in result.err and len(result.err.splitlines()) <= 2


def test_all_variants_are_compared_with_full_attention(cli: Cli) -> None:
    document = cli("compare", TEXT, "--json").json
    found = {item["name"]: item for item in document["attention"]}
    assert {name.removesuffix(" (causal)") for name in found} == set(VARIANTS)
    for name, item in found.items():
        exact = VARIANTS[name.removesuffix(" (causal)")].attributes["exact"]
        assert (item["relative_error"] < 1e-9) == exact, name
        assert item["kl_bits"] is None or (item["kl_bits"] < 1e-9) == exact, name


def test_causal_variants_are_compared_with_causal_full_attention(cli: Cli) -> None:
    both = ("--variants", "full,sparse-strided", "--set", "sparse-strided.stride=99", "--json")
    for causal in ((), ("--causal",)):
        found = cli("compare", TEXT, *both, *causal).json["attention"]
        assert found[1]["relative_error"] < 1e-9  # a window wider than the text leaves nothing out
        assert found[1]["name"] == "sparse-strided" + ("" if causal else " (causal)")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--variants", "full,liner"), 'did you mean "linear"?'),
        (("--set", "window=3"), "expected variant.parameter=value"),
        (("--variants", "full", "--set", "linear.chunk=3"), "linear is not compared"),
        (("--variants", "bigbird", "--causal"), "no causal form"),
        (("--head", "4"), "there are heads 0 to 3"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_told(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    result = cli("compare", TEXT, *arguments)
    assert (result.code, result.out) == (2, "") and words in result.err


def test_what_0_stands_for_is_told(cli: Cli) -> None:
    assert (
        "dsa with top_k=0 (a quarter of the keys), index_heads=4"
        in cli("show", "a b c d", "--variant", "dsa").out
    )
    compared = cli("compare", "a b c d", "--json").json["notes"]
    assert any("top_k=0 (a quarter of the keys)" in note for note in compared)
