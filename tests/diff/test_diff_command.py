import json
from pathlib import Path

import numpy as np
import pytest
import tiny
from commandline import Cli

TIRED = "the animal was too tired ."
CROSS = "the animal did cross too tired ."


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    return tiny.write_bert(tmp_path_factory.mktemp("bert"))


def _eager(folder: Path, text: str) -> np.ndarray:
    """Weights of transformers' own eager attention: (layers, heads, rows, keys)."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        given = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
        return torch.stack(model(**given, output_attentions=True).attentions)[:, 0].double().numpy()


def test_two_sentences_are_compared_as_numpy_compares_eager_weights(cli: Cli, bert) -> None:
    document = cli("diff", TIRED, "it animal was too tired .", "-m", str(bert), "--json").json
    rows = [0, 2, 3, 4, 5, 6, 7]  # all but the replaced token
    p, q = _eager(bert, TIRED)[:, :, rows], _eager(bert, "it animal was too tired .")[:, :, rows]
    middle = (p + q) / 2
    bits = ((p * np.log2(p / middle)) + (q * np.log2(q / middle))).sum(axis=-1) / 2
    apart = np.sqrt(bits)
    assert document["corpus"] | {"texts": 1} == document["corpus"]
    assert (document["corpus"]["replaced"], document["corpus"]["aligned"]) == (1, 8)
    for head in document["heads"]:
        want = apart[head["layer"], head["head"]]
        assert head["metrics"]["distance"] == pytest.approx(want.mean(), abs=1e-6)
        assert head["largest_row"]["position"] == rows[int(want.argmax())]
    distances = [head["metrics"]["distance"] for head in document["heads"]]
    assert distances == sorted(distances, reverse=True)


def test_a_model_is_the_same_as_itself_and_fail_over_holds(cli: Cli, bert) -> None:
    same = cli("diff", TIRED, TIRED, "-m", str(bert), "--fail-over", "0")
    assert same.code == 0
    kernels = cli("diff", TIRED, "-m", str(bert), "--attention", "sdpa,eager", "--fail-over", "1e-5")
    assert kernels.code == 0
    changed = cli("diff", TIRED, CROSS, "-m", str(bert), "--fail-over", "1e-5")
    assert changed.code == 3 and "over --fail-over 1e-05" in changed.err and "6 of 6 heads" in changed.err


def test_saved_runs_are_compared_without_a_model(cli: Cli, bert, tmp_path) -> None:
    one, other = str(tmp_path / "a.npz"), str(tmp_path / "b.json")
    cli("show", TIRED, "-m", str(bert), "--layer", "all", "-o", one)
    cli("show", CROSS, "-m", str(bert), "--layer", "all", "-o", other)
    live = cli("diff", TIRED, CROSS, "-m", str(bert), "--json").json["heads"]
    saved = cli("diff", one, other, "--json").json["heads"]
    for ours, theirs in zip(live, saved, strict=True):
        assert ours["metrics"]["distance"] == pytest.approx(theirs["metrics"]["distance"], abs=1e-9)


def test_the_maps_of_the_first_heads_stand_beside_their_difference(cli: Cli, bert) -> None:
    document = cli("diff", TIRED, CROSS, "-m", str(bert), "--maps", "2", "--json").json
    assert [one["name"].rpartition(" ")[2] for one in document["attention"]] == ["A", "B", "difference"] * 2
    a, b, difference = (np.array(one["weights"]) for one in document["attention"][:3])
    assert difference == pytest.approx(b - a, abs=1e-7)


def test_a_corpus_gives_means_standard_errors_and_a_baseline(cli: Cli, bert, tmp_path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("the animal was tired\nit did cross\nthe animal\nit was too tired .\n")
    document = cli(
        "diff", "--file", str(texts), "-m", str(bert), "--dtype", "float32,bfloat16", "--json"
    ).json
    assert document["corpus"] == {"texts": 4, "null_texts": 2}
    metrics = document["heads"][0]["metrics"]
    assert 0 < metrics["distance"] < metrics["baseline"] and metrics["stderr"] > 0
    each = [
        cli("diff", line, "-m", str(bert), "--dtype", "float32,bfloat16", "--json").json["heads"]
        for line in texts.read_text().splitlines()
    ]
    first = document["heads"][0]["layer"], document["heads"][0]["head"]
    values = [
        one["metrics"]["distance"] for heads in each for one in heads if (one["layer"], one["head"]) == first
    ]
    assert metrics["distance"] == pytest.approx(np.mean(values), abs=1e-9)
    assert metrics["stderr"] == pytest.approx(np.std(values, ddof=1) / 2, abs=1e-9)


def test_models_of_other_sizes_are_compared_only_where_asked(cli: Cli, bert, tmp_path) -> None:
    deep = tiny.write_bert(tmp_path / "deep", num_hidden_layers=3)
    refused = cli("diff", TIRED, "-m", str(bert), "--other-model", str(deep))
    assert refused.code == 2 and "2 layers and 3" in refused.err and "--by-depth" in refused.err
    document = cli("diff", TIRED, "-m", str(bert), "--other-model", str(deep), "--by-depth", "--json").json
    assert {(head["layer"], head["other"]["layer"]) for head in document["heads"]} == {(0, 0), (1, 2)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((TIRED,), "nothing to compare the text with"),
        ((TIRED, CROSS, "--by", "distanc"), 'did you mean "distance"?'),
        ((TIRED, "--dtype", "float32,"), "write --dtype A,B"),
        ((TIRED, "--file", "x.txt"), "--file and A were both given"),
        ((TIRED, "--adapter", "on"), "on,off or off,on"),
    ],
)
def test_what_cannot_be_compared_is_refused(cli: Cli, bert, arguments, said: str) -> None:
    found = cli("diff", *arguments, "-m", str(bert))
    assert found.code == 2 and said in found.err


def test_the_document_is_what_its_schema_says(cli: Cli, bert) -> None:
    import jsonschema

    schema = cli("schema", "diff").json
    for more in ((), ("--top", "1"), ("--maps", "1")):
        document = json.loads(cli("diff", TIRED, CROSS, "-m", str(bert), "--json", *more).out)
        jsonschema.Draft202012Validator(schema).validate(document)


def test_a_saved_comparison_is_drawn_again(cli: Cli, bert, tmp_path) -> None:
    path = tmp_path / "diff.json"
    shown = cli("diff", TIRED, CROSS, "-m", str(bert), "-f", "table", "-o", str(path))
    assert cli("render", str(path), "-f", "table").out == shown.out
    maps = tmp_path / "maps.npz"
    drawn = cli("diff", TIRED, CROSS, "-m", str(bert), "--maps", "1", "-f", "heatmap", "-o", str(maps))
    assert cli("render", str(maps), "-f", "heatmap").out == drawn.out
