"""attncli find: figures that a hand computation from a saved run confirms, and every mistake told."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from commandline import Cli, Result

TEXT = "The animal didn't cross the street because it was too tired."
TINY = "the animal was too tired . it was"
Groups = Sequence[Sequence[int]]

# Which tokens each word has, written down by hand from what `attncli tokens` prints.
MINILM: Groups = ([1], [2], [3, 4, 5], [6], [7], [8], [9], [10], [11], [12], [13], [14])
SMOLLM2: Groups = ([0], [1], [2, 3], [4], [5], [6], [7], [8], [9], [10], [11], [12])


def by_hand(saved: Path, groups: Groups, query: int, key: int) -> dict[tuple[int, int], tuple]:
    """Give weight and average of each layer and head of a saved run, from its arrays alone."""
    found = {}
    with np.load(saved, allow_pickle=False) as run:
        for name in run.files:
            kind, _, layer = name.partition(".")
            if kind not in ("encoder", "decoder") or not layer.isdigit():
                continue
            for head, weights in zip(run[f"{name}.heads"].tolist(), run[name], strict=True):
                words = np.array([[weights[np.ix_(a, b)].sum(axis=1).mean() for b in groups] for a in groups])
                there = range(len(groups))
                step = key - query
                others = [words[a, a + step] for a in there if a != query and a + step in there]
                found[int(layer), head] = words[query, key], np.mean(others)
    return found


def assert_confirmed(found: list, expected: dict[tuple[int, int], tuple]) -> None:
    assert {(one["layer"], one["head"]) for one in found} == set(expected)
    for one in found:
        weight, average = expected[one["layer"], one["head"]]
        told = [one["metrics"][name] for name in ("weight", "average", "excess", "ratio")]
        np.testing.assert_allclose(told[:3], [weight, average, weight - average], atol=2e-7)
        np.testing.assert_allclose(told[3], weight / average, rtol=1e-4)
    excess = [one["metrics"]["excess"] for one in found]
    assert excess == sorted(excess, reverse=True)


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "groups", "first"),
    [("all-minilm-l6-v2", MINILM, (5, 11, 0.652)), ("smollm2-135m", SMOLLM2, (13, 8, 0.697))],
)
def test_the_heads_that_resolve_it_are_found_with_the_figures_that_a_saved_run_gives(
    cli: Cli, model_folder: Callable, tmp_path: Path, name: str, groups: Groups, first: tuple
) -> None:
    model, saved = str(model_folder(name)), tmp_path / "run.npz"
    assert cli("show", TEXT, "-m", model, "-o", str(saved)).code == 0
    document = cli("find", TEXT, "--from", "it", "--to", "animal", "-m", model, "--json").json
    assert_confirmed(document["heads"], by_hand(saved, groups, query=7, key=1))
    best = document["heads"][0]
    assert (best["layer"], best["head"]) == first[:2]
    assert best["metrics"]["excess"] == pytest.approx(first[2], abs=1e-3)
    assert document["searched"]["distance"] == -6 and document["searched"]["others"] == 5


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "layer", "head", "least"),
    [("all-minilm-l6-v2", 2, 0, 0.7), ("smollm2-135m", 10, 1, 0.9)],
)
def test_the_known_heads_find_the_verb_of_an_object_above_the_best_offset_and_held_out(
    cli: Cli, model_folder: Callable, name: str, layer: int, head: int, least: float
) -> None:
    document = cli("find", "--examples", "verb-object", "-m", str(model_folder(name)), "--json").json
    best, second = document["heads"][:2]
    assert (best["layer"], best["head"]) == (layer, head)
    accuracy = best["metrics"]["accuracy"]
    assert accuracy["mean"] > least and accuracy["low"] > document["offset"]["high"]
    assert accuracy["mean"] > second["metrics"]["accuracy"]["mean"] + 0.1
    held = document["held_out"]
    assert (held["layer"], held["head"]) == (layer, head)
    assert held["scored"]["low"] > held["offset"]["high"]


def test_a_model_of_any_shape_is_confirmed_by_hand_too(cli: Cli, tiny_llama: str, tmp_path: Path) -> None:
    saved = tmp_path / "run.npz"
    cli("show", TINY, "-m", tiny_llama, "-o", str(saved))
    document = cli("find", TINY, "--from", "it", "--to", "animal", "-m", tiny_llama, "--json").json
    assert_confirmed(document["heads"], by_hand(saved, [[place] for place in range(8)], query=6, key=1))


def test_phrases_are_one_word_each_and_distance_is_counted_in_words(cli: Cli, tiny_bert: str) -> None:
    document = cli("find", TINY, "--from", "too tired", "--to", "the animal", "-m", tiny_bert, "--json").json
    asked = document["searched"]
    assert (asked["from"]["tokens"], asked["to"]["tokens"], asked["distance"]) == ([4, 5], [1, 2], -2)
    assert (asked["from"]["start"], asked["from"]["end"], asked["from"]["word"]) == (15, 24, 2)


def find(cli: Cli, model: str, *more: str) -> Result:
    return cli("find", TINY, "--from", "it", "--to", "animal", "-m", model, *more)


def test_the_table_says_how_it_was_computed_and_what_shows_the_best_head(cli: Cli, tiny_bert: str) -> None:
    out = find(cli, tiny_bert, "--width", "80").out
    best = find(cli, tiny_bert, "--json").json["heads"][0]
    flat = " ".join(out.split())
    assert 'heads in which "it" attends to "animal"' in flat and "All 6 heads, by excess" in flat
    assert '"animal" stands 5 words before "it"; excess = weight − average' in flat
    assert "from the 2 other words that have a word there" in flat
    assert f'attncli show "{TINY}" -m {tiny_bert} --layer {best["layer"]}' in flat
    assert f"--head {best['head']} --words" in flat
    assert max(map(len, out.splitlines())) <= 80


def test_a_causal_models_first_token_in_the_average_is_told(cli: Cli, tiny_llama: str) -> None:
    def notes(query: str, key: str) -> str:
        return " ".join(
            cli("find", TINY, "--from", query, "--to", key, "-m", tiny_llama, "--json").json["notes"]
        )

    assert "is the first token, on which many heads" in notes("it", "animal")
    assert "is the first token, on which many heads" not in notes("animal", "the")


def test_the_command_that_is_told_shows_the_weight_that_is_told(cli: Cli, tiny_bert: str) -> None:
    import shlex

    document = find(cli, tiny_bert, "--json").json
    note = next(note for note in document["notes"] if "to see it: " in note)
    arguments = shlex.split(note.partition("to see it: attncli ")[2])
    shown = cli(*arguments, "--json").json
    words = [token["text"] for token in shown["query_tokens"]]
    weight = shown["attention"][0]["weights"][words.index("it")][words.index("animal")]
    assert weight == pytest.approx(document["heads"][0]["metrics"]["weight"], abs=1e-6)


def test_csv_ndjson_and_json_say_the_same_of_all_heads_and_top_cuts_them(cli: Cli, tiny_bert: str) -> None:
    heads = find(cli, tiny_bert, "--json").json["heads"]
    rows = list(csv.DictReader(io.StringIO(find(cli, tiny_bert, "--format", "csv").out)))
    lines = [json.loads(line) for line in find(cli, tiny_bert, "--format", "ndjson").out.splitlines()]
    assert [float(row["excess"]) for row in rows] == [one["metrics"]["excess"] for one in heads]
    assert [line["place"] for line in lines] == [one["metrics"]["place"] for one in heads]
    assert len(rows) == 6 and len(find(cli, tiny_bert, "--json", "--top", "2").json["heads"]) == 2


def test_layers_and_heads_are_picked(cli: Cli, tiny_bert: str) -> None:
    heads = find(cli, tiny_bert, "--layer", "-1", "--head", "2,0", "--json").json["heads"]
    assert {(one["layer"], one["head"]) for one in heads} == {(1, 2), (1, 0)}


@pytest.mark.parametrize("ending", ["png", "svg", "md", "tsv"])
def test_heads_are_drawn_as_a_map_of_layers_and_heads(
    cli: Cli, tiny_bert: str, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"heads.{ending}"
    assert find(cli, tiny_bert, "-o", str(path)).code == 0 and path.stat().st_size > 200
    out = find(cli, tiny_bert, "--format", "heatmap").out
    assert "rows are layers, columns are heads · excess" in out and "\nL1 " in out


def test_verbose_says_what_was_checked(cli: Cli, tiny_bert: str) -> None:
    assert "largest difference from the model's own output" in find(cli, tiny_bert, "-v").err


def test_where_no_other_word_has_one_at_that_distance_heads_go_by_weight(cli: Cli, tiny_bert: str) -> None:
    result = cli("find", "it was", "--from", "was", "--to", "it", "-m", tiny_bert, "--json")
    assert result.json["by"] == "weight" and result.json["heads"][0]["metrics"]["excess"] is None
    assert "there is no average, and heads go by their weight" in result.err
    pulled = cli("find", "it was", "--from", "was", "--to", "it", "-m", tiny_bert, "--width", "80").out
    assert "All 6 heads, by weight" in pulled


def test_across_two_texts_each_word_is_looked_for_in_its_own(cli: Cli, tiny_marian: str) -> None:
    common = ("find", "the animal was", "--pair", "it was tired", "-m", tiny_marian, "--json")
    cross = cli(*common, "--from", "it", "--to", "animal").json
    assert {one["kind"] for one in cross["heads"]} == {"cross"}
    assert (cross["searched"]["to"]["start"], cross["searched"]["from"]["start"]) == (4, 0)
    decoder = cli(*common, "--kind", "decoder", "--from", "was", "--to", "it").json
    assert decoder["searched"]["distance"] == -1
    assert "cannot look ahead" in cli(*common, "--kind", "decoder", "--from", "it", "--to", "was").err


def test_in_a_pair_of_sentences_a_word_of_the_second_is_found(cli: Cli, tiny_bert: str) -> None:
    asked = cli(
        "find", "the animal", "--pair", "it was", "--from", "it", "--to", "animal", "-m", tiny_bert, "--json"
    ).json["searched"]
    assert (asked["from"]["tokens"], asked["to"]["tokens"], asked["distance"]) == ([4, 4], [2, 2], -1)


# Labelled pairs


def pairs_file(folder: Path, *pairs: tuple[str, str, str]) -> str:
    path = folder / "pairs.jsonl"
    lines = []
    for text, query, key in pairs:
        spans = {name: [text.index(word), text.index(word) + len(word)] for name, word in
                 (("from", query), ("to", key))}  # fmt: skip
        lines.append(json.dumps({"text": text, **spans}))
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


FOUR = (
    ("the animal was tired", "tired", "animal"),
    ("it was too tired .", "was", "it"),
    ("the animal was tired", "animal", "was"),
    ("did it cross the animal", "animal", "cross"),
)


def test_accuracy_is_what_the_words_of_show_give(cli: Cli, tiny_bert: str, tmp_path: Path) -> None:
    document = cli("find", "--examples", pairs_file(tmp_path, *FOUR), "-m", tiny_bert, "--json").json
    expected = dict.fromkeys([(layer, head) for layer in range(2) for head in range(3)], 0)
    for text, query, key in FOUR:
        shown = cli("show", text, "-m", tiny_bert, "--words", "--json").json
        words = [token["text"] for token in shown["query_tokens"]]
        for one in shown["attention"]:
            row = np.array(one["weights"][words.index(query)])
            row[[0, words.index(query), -1]] = -1  # [CLS], itself, [SEP]
            expected[one["layer"], one["head"]] += words[row.argmax()] == key
    told = {(o["layer"], o["head"]): o["metrics"]["accuracy"]["hits"] for o in document["heads"]}
    assert told == expected and document["searched"]["pairs"] == 4


def test_pairs_are_compared_with_the_best_offset_and_with_a_half_that_had_no_say(
    cli: Cli, tiny_bert: str, tmp_path: Path
) -> None:
    path = pairs_file(tmp_path, *FOUR)
    document = cli("find", "--examples", path, "-m", tiny_bert, "--json", "--seed", "5").json
    assert (document["offset"]["offset"], document["offset"]["hits"], document["offset"]["rows"]) == (
        -2,
        2,
        4,
    )
    assert document["held_out"]["seed"] == document["provenance"]["seed"] == 5
    assert document["held_out"]["chose"]["rows"] + document["held_out"]["scored"]["rows"] == 4
    assert (document["corpus"]["texts"], document["corpus"]["rows"]) == (3, 4)
    out = cli("find", "--examples", path, "-m", tiny_bert, "--width", "80").out
    assert "best offset, 2 words before" in out and "held out" in out and "95 % interval" in out


def test_pairs_come_from_stdin(cli: Cli, tiny_bert: str, tmp_path: Path) -> None:
    lines = Path(pairs_file(tmp_path, *FOUR)).read_bytes()
    document = cli("find", "--examples", "-", "-m", tiny_bert, "--json", stdin=lines).json
    assert (document["searched"]["examples"], document["searched"]["pairs"]) == ("-", 4)
    bad = cli("find", "--examples", "-", "-m", tiny_bert, stdin=b"[]")
    assert bad.code == 1 and "stdin line 1: not a JSON object" in bad.err


def test_a_causal_model_is_not_asked_about_what_it_cannot_see(
    cli: Cli, tiny_llama: str, tmp_path: Path
) -> None:
    path = pairs_file(tmp_path, *FOUR)
    document = cli("find", "--examples", path, "-m", tiny_llama, "--json").json
    assert (document["searched"]["pairs"], document["searched"]["left_out"]) == (3, 1)
    turned = cli("find", "--examples", path, "-m", tiny_llama, "--json", "--reverse").json
    assert (turned["searched"]["pairs"], turned["searched"]["left_out"]) == (1, 3)
    assert turned["held_out"] is None and turned["searched"]["from"] == "to"
    lone = cli("find", "--examples", pairs_file(tmp_path, FOUR[2]), "-m", tiny_llama)
    assert lone.code == 2 and "none of the 1 pairs has its to before its from" in lone.err


@pytest.mark.parametrize("over", ["text", "pairs"])
@pytest.mark.parametrize("top", [(), ("--top", "1")])
def test_json_validates_against_the_schema(
    cli: Cli, tiny_bert: str, tmp_path: Path, over: str, top: tuple[str, ...]
) -> None:
    words = ("--from", "it", "--to", "animal")
    asked = (TINY, *words) if over == "text" else ("--examples", pairs_file(tmp_path, *FOUR))
    document = cli("find", *asked, "-m", tiny_bert, "--json", *top).json
    jsonschema.Draft202012Validator(cli("schema", "find").json).validate(document)


# Mistakes

LONG = "the animal " * 12


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((TINY,), 2, "--from is missing"),
        ((TINY, "--from", "it"), 2, "--to is missing"),
        ((TINY, "--from", "was", "--to", "it"), 2, '--from was: "was" occurs twice, at characters 11, 30'),
        ((TINY, "--from", "was:3", "--to", "it"), 2, 'write --from was:1 to was:2'),
        ((TINY, "--from", "zebra", "--to", "it"), 2, '--from zebra: there is no "zebra" in the text'),
        ((TINY, "--from", "it", "--to", "it"), 2, "are the same word"),
        ((TINY, "--from", "too tired", "--to", "tired"), 2, "are the same word, or overlap"),
        ((TINY, "--from", "it", "--to", "animal", "--reverse"), 2, "--reverse needs --examples"),
        ((TINY, "--from", "it", "--to", "animal", "--layer", "mean"), 2, "looks at heads one by one"),
        ((TINY, "--from", "it", "--to", "animal", "--layer", "7"), 2, "this model has layers 0 to 1"),
        ((TINY, "--from", "it", "--to", "animal", "--format", "npz"), 2, "not available for this command"),
        ((TINY, "--examples", "coreference"), 2, "--examples and TEXT were both given"),
        (("--examples", "corefrence"), 2, 'did you mean "coreference"?'),
        (("--examples", "/no/such.jsonl"), 1, "/no/such.jsonl: No such file"),
        (("", "--from", "it", "--to", "animal"), 2, "text is empty"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_in_at_most_three_lines(
    cli: Cli, tiny_bert: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    result = cli("find", *arguments, "-m", tiny_bert)
    assert (result.code, result.out) == (code, "") and words in result.err
    assert result.err.startswith("error: ") and len(result.err.splitlines()) <= 3


def test_in_the_untrained_model_there_is_nothing_to_find(cli: Cli) -> None:
    result = cli("find", TINY, "--from", "it", "--to", "animal", "-m", "scratch")
    assert result.code == 2 and "find needs a trained model" in result.err


def test_without_a_model_the_shipped_decoder_is_searched(cli: Cli) -> None:
    found = cli("find", TINY, "--from", "it", "--to", "animal", "--json")
    assert found.json["source"]["name"] == "tiny-decoder" and len(found.json["heads"]) == 8
    assert "-m tiny-decoder --layer" in str(found.json["notes"])
    assert cli("find", "--examples", "coreference", "--top", "1", "--json").json["heads"]


def test_a_causal_model_cannot_look_ahead(cli: Cli, tiny_llama: str) -> None:
    result = cli("find", TINY, "--from", "animal", "--to", "it", "-m", tiny_llama)
    assert result.code == 2 and 'a causal model: "animal" cannot look ahead at "it"' in result.err


def test_lines_that_the_model_cannot_read_are_told_with_their_numbers(
    cli: Cli, tiny_bert: str, tmp_path: Path
) -> None:
    path = pairs_file(tmp_path, FOUR[0], (LONG, "animal", "the"), FOUR[1], (LONG + ".", "animal", "the"))
    result = cli("find", "--examples", path, "-m", tiny_bert)
    assert result.code == 1 and "pairs.jsonl line 2: the text has 26 tokens" in result.err
    assert "not right either: line 4" in result.err
    assert cli("find", "--examples", path, "-m", tiny_bert, "--truncate").code == 0


def test_a_span_that_no_token_stands_for_is_told(cli: Cli, tiny_bert: str, tmp_path: Path) -> None:
    path = pairs_file(tmp_path, FOUR[0], (LONG + "tired", "tired", "the"))
    result = cli("find", "--examples", path, "-m", tiny_bert, "--truncate")
    assert result.code == 1 and 'line 2: its "from" [132, 137] "tired" hits no token' in result.err


def test_a_tokenizer_without_offsets_is_told(cli: Cli, tiny_bert: str, monkeypatch) -> None:
    from dataclasses import replace

    from attncli.models import prepared_text as preparing

    made = preparing.read_tokens

    def blind(*given: object, **named: object) -> tuple:
        return tuple(replace(token, start=None, end=None) for token in made(*given, **named))

    monkeypatch.setattr(preparing, "read_tokens", blind)
    for result in (
        find(cli, tiny_bert),
        cli("find", "--examples", "coreference", "-m", tiny_bert, "--truncate"),
    ):
        assert result.code == 2 and "tokenizer does not say where its tokens stand" in result.err
