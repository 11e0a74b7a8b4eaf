"""The models that come with attncli: what they do, and that their cards say the truth."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from attncli.errors import ModelError, UsageError
from attncli.models import shipped
from attncli.models.folders import missing_model, resolve_model_folder
from attncli.models.tokens import load_tokenizer
from attncli.models.trained import LONGEST, TrainedSource, load_transformer
from attncli.observers.selection import parse_selection
from attncli.observers.weights import FullWeights
from attncli.record import Kind
from training import dates, figures
from training.translator import Task

DATE = "the twenty-third of May, nineteen eighty-four"


def maps(source: TrainedSource, kind: Kind) -> np.ndarray:
    queries, keys = source.axes(kind)
    every = parse_selection("all", "layer"), parse_selection("all", "head")
    kept = FullWeights(kind, *every, source.depth(kind), len(queries), len(keys))
    source.run([kept])
    return np.stack([matrix.values for matrix in kept.matrices()])


def test_three_models_are_shipped() -> None:
    assert shipped.shipped_models() == ("tiny-decoder", "tiny-encoder", "tiny-translator")
    assert shipped.DEFAULT in shipped.shipped_models()


@pytest.mark.parametrize("name", shipped.shipped_models())
def test_a_card_says_what_it_was_made_of_and_how_good_it_is(name: str) -> None:
    folder = shipped.MODELS / name
    document = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert document["training"]["command"] == f"python -m training {name}" in page
    assert document["name"] == name and document["training"]["seed"] == 0
    for text in document["data"]:
        assert text["licence"] in ("public domain", "made up") and text["name"] in page
        assert text["licence"] == "made up" or text["sha256"] in page
    for figure, value in document["held_out"]["figures"].items():
        assert f"| {figure} | {value:.3f} |" in page
    steps = (folder / "curve.csv").read_text().splitlines()
    assert steps[0] == "step,loss_nats" and int(steps[-1].split(",")[0]) == document["training"]["steps"]


@pytest.mark.parametrize("name", shipped.shipped_models())
def test_figures_measured_again_are_those_of_the_card(name: str) -> None:
    folder, card = shipped.MODELS / name, shipped.card(name)
    model, tokenizer = load_transformer(folder, card), load_tokenizer(folder)
    if name == "tiny-translator":
        found, roles = figures.measure_translator(model, Task(tokenizer))
    else:
        passages = figures.passages(tokenizer, (folder / "held-out.txt").read_text().splitlines())
        if name == "tiny-decoder":
            found, roles = figures.measure_decoder(model, passages, ordinary=1)
        else:
            gap = tokenizer.token_to_id("<mask>")
            found, roles = figures.measure_encoder(
                model, passages, gap, card.document["held_out"]["frequent"]
            )
    assert found == pytest.approx(card.held_out, abs=2e-3)
    best = {(role.kind, role.layer, role.head, role.role): role.score for role in roles}
    for role in card.roles:
        assert best[role.kind, role.layer, role.head, role.role] == pytest.approx(role.score, abs=2e-3)


def test_the_figures_are_what_was_promised() -> None:
    decoder, encoder, translator = (shipped.card(name).held_out for name in shipped.shipped_models())
    assert decoder["previous_token"] >= 0.6 > 3 * decoder["previous_token_null"]
    assert decoder["induction"] >= 0.4 > 3 * decoder["induction_null"]
    assert encoder["gap_accuracy"] > 2 * encoder["gap_accuracy_of_the_most_frequent_piece"]
    assert translator["alignment"] >= 0.95 and translator["exact_dates"] >= 0.95


def test_a_translator_writes_by_itself_what_it_would_be_given() -> None:
    alone, given = (
        TrainedSource("tiny-translator", DATE),
        TrainedSource("tiny-translator", DATE, "1984-05-23"),
    )
    assert alone.run([]).notes == ('tiny-translator wrote "1984-05-23" itself',)
    assert [token.text for token in given.axes("cross")[0]] == ["<s>", "19", "84", "-", "05", "-", "23"]
    assert [token.position for token in given.axes("cross")[0]] == list(range(7))
    np.testing.assert_array_equal(maps(alone, "cross"), maps(given, "cross"))


def test_cross_attention_rests_on_the_words_that_say_what_is_written_next() -> None:
    source = TrainedSource("tiny-translator", DATE)
    best = shipped.card("tiny-translator").roles[0]
    found = maps(source, "cross")[4 * best.layer + best.head].argmax(axis=-1)
    words = [source.tokens[key].text for key in found]
    assert (words[0], words[3]) == ("nineteen", "May")
    assert words[1] in ("eighty", "four") and words[5] in ("twenty", "third")


def test_an_induction_head_finds_what_followed_the_last_time() -> None:
    source = TrainedSource("tiny-decoder", "She walked to the garden, and he walked to the house.")
    role = next(role for role in shipped.card("tiny-decoder").roles if role.role == "induction")
    weights = maps(source, "decoder")[4 * role.layer + role.head]
    after = figures.follows_the_same(source.ids[0], 1).numpy()
    rows = after.any(axis=-1)
    assert (weights * after).sum(axis=-1)[rows].mean() > 0.3


@pytest.mark.parametrize(("name", "kinds"), [
    ("tiny-decoder", ("decoder",)), ("tiny-encoder", ("encoder",)),
    ("tiny-translator", ("encoder", "decoder", "cross")),
])  # fmt: skip
def test_every_check_holds_in_every_layer(name: str, kinds: tuple[Kind, ...]) -> None:
    source = TrainedSource(name, "may the second nineteen ten")
    assert source.kinds == kinds
    for kind in kinds:
        np.testing.assert_allclose(maps(source, kind).sum(axis=-1), 1.0, atol=1e-5)


def test_a_site_s_module_is_found_in_the_network_by_its_name() -> None:
    source = TrainedSource("tiny-translator", DATE)
    for layer in source.run([]).attention_layers:
        assert source.network.get_submodule(layer.module).heads == layer.heads == 4


def test_what_a_translator_does_not_know_is_said() -> None:
    assert "does not know: hello" in " ".join(
        TrainedSource("tiny-translator", "hello may hello first").run([]).notes
    )


@pytest.mark.parametrize("text", ["", "<s>"])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is empty"):
        TrainedSource("tiny-decoder", text)


def test_a_pair_is_for_the_translator_alone() -> None:
    with pytest.raises(UsageError, match="takes one text"):
        TrainedSource("tiny-decoder", "a", "b")


def test_a_text_that_is_too_long_is_refused_or_cut() -> None:
    text = "May " * (LONGEST + 9)
    with pytest.raises(UsageError, match="tokens, and tiny-translator takes 4,096"):
        TrainedSource("tiny-translator", text, "1900")
    source = TrainedSource("tiny-translator", text, "1900", truncate=True)
    assert len(source.tokens) == LONGEST and "was cut to 4,096 of its 4,105 tokens" in source.notes[0]


def test_a_folder_of_the_same_name_is_meant_by_its_path_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny-decoder").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve_model_folder("tiny-decoder") == shipped.MODELS / "tiny-decoder"
    assert resolve_model_folder("./tiny-decoder") == Path("tiny-decoder")


def test_a_mistyped_name_is_guessed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert missing_model("tiny-decodr").hint == 'did you mean "tiny-decoder"?'
    assert "can be downloaded" in (missing_model("org/quite-else").hint or "")
    with pytest.raises(ModelError):
        raise missing_model("x")


def test_the_held_out_dates_are_not_those_of_the_training() -> None:
    chance = dates.random.Random(figures.DATES_SEED)
    drawn = ["".join(dates.draw(chance, held_out=True).written) for _ in range(50)]
    assert all(dates.is_held_out(dates.datetime.date.fromisoformat(one)) for one in drawn)


def test_the_callers_random_state_is_left_alone() -> None:
    torch.manual_seed(11)
    before = torch.get_rng_state()
    TrainedSource("tiny-decoder", "a b").run([])
    assert torch.equal(torch.get_rng_state(), before)


def test_the_default_model_imports_neither_transformers_nor_what_compiles() -> None:
    script = (
        "import sys\nfrom attncli.cli.main import main\nassert main(['show', 'a b', '-q']) == 0\n"
        "print(*[name for name in sys.modules if name in ('transformers', 'sympy', 'torch._dynamo', 'matplotlib')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""
