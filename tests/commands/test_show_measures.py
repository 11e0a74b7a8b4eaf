"""``show --measure``: what a head carries, as shares or raw, in every form; refused where it would not be exact."""

import json
from pathlib import Path

import numpy as np
import pytest
from commandline import Cli

TEXT = "the animal was too tired"


def test_shares_of_what_is_carried_are_shown_with_the_first_tokens_part(cli: Cli, tiny_llama: str) -> None:
    result = cli("show", TEXT, "-m", tiny_llama, "--layer", "1", "--head", "2", "--measure", "norm")
    out = " ".join(result.out.split())
    assert (result.code, "norm ‖α·v·W_O‖, shares of each row’s sum" in out) == (0, True)
    assert "numbers are shares between 0 and 1" in out
    assert 'the first token, "the", has ' in out and " % of what is carried (norm;" in out


@pytest.mark.parametrize(("raw", "unit"), [((), "share"), (("--raw",), "size")])
def test_a_saved_measure_is_drawn_again_as_it_was(
    cli: Cli, tiny_llama: str, tmp_path: Path, raw: tuple[str, ...], unit: str
) -> None:
    saved = [str(tmp_path / name) for name in ("run.json", "run.npz", "run.html", "run.png")]
    outputs = [part for name in saved for part in ("-o", name)]
    result = cli("show", TEXT, "-m", tiny_llama, "--layer", "1", "--measure", "norm", *raw, *outputs, "-q")
    assert (result.code, result.err) == (0, "")
    document = json.loads(Path(saved[0]).read_text())
    assert (document["unit"], document["measure"]) == (unit, "norm")
    for name in saved[:2]:
        again = json.loads(cli("render", name, "--json").out)
        assert (again["unit"], again["measure"]) == (unit, "norm")
        np.testing.assert_allclose(
            [one["weights"] for one in again["attention"]],
            [one["weights"] for one in document["attention"]],
            rtol=1e-6,
        )


def test_a_contribution_is_of_a_whole_layer(cli: Cli, tiny_llama: str) -> None:
    document = json.loads(
        cli("show", TEXT, "-m", tiny_llama, "--measure", "contribution", "--top", "2", "--json").out
    )
    assert [(one["layer"], one["head"]) for one in document["attention"]] == [(0, None), (1, None), (2, None)]
    assert all(row[0]["key"] == place for place, row in enumerate(document["attention"][0]["top"]))


def test_a_prompt_carries_as_much_where_the_model_goes_on_writing(cli: Cli, tmp_path: Path) -> None:
    import tiny
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    tiny.write_model(tmp_path, LlamaForCausalLM(LlamaConfig(vocab_size=len(tiny.WORDS), **sizes)))
    shown = ("-m", str(tmp_path), "--layer", "1", "--measure", "norm", "--raw", "--json")
    written = json.loads(cli("show", TEXT, *shown, "--generate", "3").out)
    once = json.loads(cli("show", TEXT, *shown).out)
    every, prompt = (np.array(one["attention"][0]["weights"]) for one in (written, once))
    np.testing.assert_allclose(every[:5, :5], prompt, rtol=1e-4, atol=1e-6)
    assert every.shape[0] > 5 and (every[5:] > 0).any(axis=1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--measure", "nrom"), "--measure nrom: no such measure"),
        (("--raw",), "--raw needs --measure"),
        (("--measure", "contribution", "--head", "1"), "is of a whole layer"),
        (("--measure", "contribution", "--generate", "2"), "--measure and --generate were both given"),
    ],
)
def test_what_does_not_go_together_is_told(
    cli: Cli, tiny_llama: str, options: tuple[str, ...], message: str
) -> None:
    result = cli("show", TEXT, "-m", tiny_llama, *options)
    assert result.out == "" and message in result.err and result.err.count("\n") <= 3


def test_the_residual_of_cross_attention_is_no_keys(cli: Cli, tiny_marian: str) -> None:
    options = ("--pair", "it was", "--kind", "cross", "--measure", "contribution")
    result = cli("show", TEXT, "-m", tiny_marian, *options)
    assert result.code == 2 and "belongs to none of the keys" in result.err


def test_find_ranks_heads_by_what_they_carry(cli: Cli, tiny_llama: str) -> None:
    words = ("--from", "tired", "--to", "animal", "-m", tiny_llama, "--json")
    weights, carried = (
        json.loads(cli("find", TEXT, *words, *more).out) for more in ((), ("--measure", "norm"))
    )
    first = carried["heads"][0]
    shown = ("show", TEXT, "-m", tiny_llama, "--layer", str(first["layer"]), "--head", str(first["head"]))
    share = json.loads(cli(*shown, "--measure", "norm", "--json").out)["attention"][0]["weights"][4][1]
    assert (carried["measure"], "measure" in weights) == ("norm", False)
    assert first["metrics"]["weight"] == pytest.approx(share, rel=1e-5)
    assert carried["heads"] != weights["heads"]
