"""A run that was saved is drawn again: the same answer, in any form, without any model."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from commandline import Cli

TEXT = "the animal was too tired ."
RUNS: dict[str, tuple[str, ...]] = {
    "show": ("show", TEXT, "--causal", "--heads", "4", "--layers", "2"),
    "picked": (
        "show",
        TEXT,
        "-m",
        "scratch",
        "--heads",
        "2",
        "--query",
        "tired,2",
        "--key",
        "0-3",
        "--head",
        "mean",
    ),
    "top": ("show", TEXT, "--causal", "--top", "2"),
    "mask": ("mask", "causal", TEXT),
    "compare": ("compare", TEXT, "--variants", "full,linear", "--causal"),
    "pooled": ("show", " ".join([TEXT] * 90), "--heads", "2", "--pool", "mean", "--causal"),
}
FORMS = ["heatmap", "table", "md", "json", "csv", "tsv", "ndjson"]


def without_provenance(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "provenance"}


@pytest.mark.parametrize("ending", ["npz", "json"])
@pytest.mark.parametrize("name", RUNS)
def test_a_saved_run_gives_the_same_json_again(cli: Cli, tmp_path: Path, name: str, ending: str) -> None:
    path = str(tmp_path / f"run.{ending}")
    saved = cli(*RUNS[name], "-q", "-o", path)
    direct, again = cli(*RUNS[name], "-q", "-f", "json").json, cli("render", path, "-q", "-f", "json").json
    assert saved.code == 0 and without_provenance(direct) == without_provenance(again)
    assert again.get("pooled") == direct.get("pooled")
    assert again["provenance"]["argv"][0] == "render"
    assert again["provenance"]["original"]["argv"] == [*RUNS[name], "-q", "-o", path]
    assert again["provenance"]["seed"] == again["provenance"]["original"]["seed"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["show", "picked", "mask", "compare"])
@pytest.mark.parametrize("ending", ["npz", "json"])
def test_every_form_comes_out_as_it_did(cli: Cli, tmp_path: Path, name: str, ending: str, form: str) -> None:
    path = str(tmp_path / f"run.{ending}")
    cli(*RUNS[name], "-q", "-o", path)
    direct, again = cli(*RUNS[name], "-q", "-f", form), cli("render", path, "-q", "-f", form)
    if form == "json":
        assert without_provenance(direct.json) == without_provenance(again.json)
    else:
        assert again.code == 0 and again.out == direct.out and len(again.out) > 40


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "npz"])
def test_files_come_out_as_they_did(cli: Cli, tmp_path: Path, ending: str) -> None:
    first, second, run = (tmp_path / f"{name}.{ending}" for name in ("a", "b", "run"))
    cli(*RUNS["show"], "-q", "-o", str(first), "-o", str(run.with_suffix(".json")))
    assert cli("render", str(run.with_suffix(".json")), "-q", "-o", str(second)).code == 0
    if ending != "npz":
        assert second.read_bytes() == first.read_bytes()
    else:
        pair = [cli("render", str(path), "-q", "--json").json for path in (first, second)]
        assert without_provenance(pair[0]) == without_provenance(pair[1])


def test_a_part_is_what_show_gives_for_that_part(cli: Cli, tmp_path: Path) -> None:
    path, part = str(tmp_path / "run.npz"), ("--layer", "1", "--head", "2", "--query", "was", "--key", "0,2")
    cli(*RUNS["show"], "-q", "-o", path)
    direct, again = (
        cli(*RUNS["show"], *part, "--json", "-q").json,
        cli("render", path, *part, "--json", "-q").json,
    )
    # Computed alone, a row may differ in its last digit from the same row computed among others.
    numbers = [document["attention"][0].pop("weights") for document in (direct, again)]
    np.testing.assert_allclose(*numbers, rtol=1e-6)
    assert without_provenance(direct) == without_provenance(again)
    listed = cli("render", path, "--top", "2", "-q").out
    assert listed == cli(*RUNS["show"], "--top", "2", "-q").out


def test_the_vocabularys_own_forms_are_saved(cli: Cli, tmp_path: Path, tiny_bert: str) -> None:
    path, raw = str(tmp_path / "run.json"), ("--raw-tokens", "-f", "table", "-q")
    cli("show", "the animals", "-m", tiny_bert, "-q", "-o", path)
    assert "##s" in cli("render", path, *raw).out
    assert cli("render", path, *raw).out == cli("show", "the animals", "-m", tiny_bert, *raw).out


def test_a_run_comes_from_a_pipe(cli: Cli, tmp_path: Path) -> None:
    for ending in ("npz", "json"):
        path = tmp_path / f"run.{ending}"
        cli(*RUNS["show"], "-q", "-o", str(path))
        piped = cli("render", "-", "-q", "-f", "csv", stdin=path.read_bytes())
        assert piped.out == cli("render", str(path), "-q", "-f", "csv").out != ""


def test_where_only_the_strongest_keys_were_saved_that_is_said(cli: Cli, tmp_path: Path) -> None:
    path = str(tmp_path / "run.json")
    cli(*RUNS["top"], "-q", "-o", path)
    result = cli("render", path, "-f", "heatmap")
    assert "only the 2 strongest keys of each row were saved" in result.err and "×" in result.out
    assert cli("render", path, "--top", "3").code == 2


@pytest.mark.parametrize("command", ["show", "mask"])
def test_a_drawn_documents_form_is_the_documented_one(cli: Cli, tmp_path: Path, command: str) -> None:
    path = str(tmp_path / "run.npz")
    cli(*RUNS[command], "-q", "-o", path)
    document = cli("render", path, "--json", "-q").json
    jsonschema.Draft202012Validator(cli("schema", command).json).validate(document)


def test_what_cannot_be_drawn_ends_with_one_line_and_its_exit_code(cli: Cli, tmp_path: Path) -> None:
    run, cut = tmp_path / "run.npz", tmp_path / "cut.npz"
    cli(*RUNS["show"], "-q", "-o", str(run))
    cut.write_bytes(run.read_bytes()[:-40])
    (tmp_path / "other.json").write_text(json.dumps({"schema": 9, "command": "show"}))
    for arguments, code, words in (
        ((str(cut),), 1, "truncated or damaged"),
        ((str(tmp_path / "other.json"),), 1, "written by a later attncli"),
        ((str(tmp_path / "none.npz"),), 1, "No such file"),
        ((str(run), "--layer", "5"), 2, "--layer 5: not in the run"),
        ((str(run), "--query", "zebra"), 2, 'no token "zebra"'),
        ((str(run), "-f", "jsn"), 2, 'did you mean "json"?'),
        ((), 2, "missing argument"),
    ):
        result = cli("render", *arguments)
        assert (result.code, result.out) == (code, "") and words in result.err, result
        assert len(result.err.splitlines()) <= 3


def test_drawing_loads_neither_torch_nor_transformers(cli: Cli, tmp_path: Path, benchmark: Path) -> None:
    path, ranking = str(tmp_path / "run.npz"), str(tmp_path / "heads.json")
    cli(*RUNS["show"], "-q", "-o", path)
    cli(*RANKINGS["heads"], "-q", "-o", ranking)
    script = f"""
import itertools
import sys
from attncli.cli.main import main
for form in {FORMS!r}:
    assert main(["render", {path!r}, "-f", form, "-q", "--head", "mean", "--query", "was"]) == 0
    assert not {{"torch", "transformers", "matplotlib", "tokenizers"}} & set(sys.modules), form
for form, file in itertools.product(("table", "json", "csv"), ({str(benchmark)!r}, {ranking!r})):
    assert main(["render", file, "-f", form, "-q"]) == 0
    assert not {{"torch", "transformers", "matplotlib", "tokenizers"}} & set(sys.modules), form
again = ("--by", "entropy", "--where", "label != x", "--layer", "0", "--top", "3")
for form in {FORMS!r}:
    assert main(["render", {ranking!r}, "-f", form, "-q", *again]) == 0
    assert not {{"torch", "transformers", "matplotlib", "tokenizers"}} & set(sys.modules), form
assert main(["render", {ranking!r}, *again, "-o", {str(tmp_path / "c.png")!r}]) == 0
assert main(["render", {path!r}, "-o", {str(tmp_path / "a.png")!r}]) == 0
assert main(["render", {str(benchmark)!r}, "-o", {str(tmp_path / "b.svg")!r}]) == 0
assert not {{"torch", "transformers"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_pooled_run_is_drawn_as_it_was_and_only_as_a_whole(cli: Cli, tmp_path: Path) -> None:
    path = str(tmp_path / "run.npz")
    cli(*RUNS["pooled"], "-q", "-o", path)
    assert cli("render", path).out == cli(*RUNS["pooled"]).out != ""
    part = cli(*RUNS["pooled"], "--head", "1", "-f", "csv", "-q").out
    assert cli("render", path, "--head", "1", "-f", "csv", "-q").out == part
    assert "--query: this run is pooled" in cli("render", path, "--query", "0").err
    assert "--key: this run is pooled" in cli("render", path, "--key", "0").err
    cli(*RUNS["pooled"], "--pool", "max", "-q", "-o", path)
    assert "needs all weights" in cli("render", path, "--head", "mean").err


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from attncli.cli.main import main

    path = tmp_path_factory.mktemp("bench") / "bench.json"
    common = ("--variants", "sdpa,full", "--max-time", "0.2", "--budget", "20", "-q")
    assert main(["bench", "-n", "32,64,128", *common, "-o", str(path)]) == 0
    return path


@pytest.mark.parametrize("form", ["table", "md", "csv", "tsv", "json", "ndjson"])
def test_a_benchmark_is_drawn_again_in_every_form(cli: Cli, benchmark: Path, form: str) -> None:
    document = json.loads(benchmark.read_text())
    result = cli("render", str(benchmark), "-f", form, "-q")
    assert result.code == 0 and result.err == ""
    if form == "json":
        assert without_provenance(result.json) == without_provenance(document)
        assert result.json["provenance"]["original"]["argv"][0] == "bench"
    elif form == "csv":
        assert [line.split(",")[0] for line in result.out.splitlines()[1:]] == ["sdpa", "full"] * 3
    else:
        assert "sdpa" in result.out and "128" in result.out


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_benchmarks_curves_are_drawn_again(cli: Cli, benchmark: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"curves.{ending}"
    assert cli("render", str(benchmark), "-o", str(path)).code == 0 and path.stat().st_size > 2000


def test_a_benchmark_has_no_heads_to_pick(cli: Cli, benchmark: Path) -> None:
    assert "--head cannot be used with a saved benchmark" in cli("render", str(benchmark), "--head", "1").err
    assert "--top cannot be used with a saved benchmark" in cli("render", str(benchmark), "--top", "1").err
    assert (
        "--by cannot be used with a saved benchmark" in cli("render", str(benchmark), "--by", "entropy").err
    )
    assert cli("render", str(benchmark), "-o", "x.npz").code == 2


RANKINGS = {
    "heads": ("heads", TEXT, "--model", "tiny-decoder", "--null-texts", "0"),
    "some": ("heads", TEXT, "--model", "scratch", "--by", "entropy", "--where", "layer < 1", "--top", "3"),
    "find": ("find", TEXT, "--from", "tired", "--to", "animal", "--model", "tiny-encoder", "--top", "2"),
}


@pytest.mark.parametrize("name", RANKINGS)
def test_a_ranking_of_heads_comes_out_as_it_did_in_every_form(cli: Cli, tmp_path: Path, name: str) -> None:
    endings = ["csv", "tsv", "ndjson", "md", "png", "svg", "pdf"]
    first, second = ([tmp_path / f"{run}.{ending}" for ending in endings] for run in "ab")
    path = tmp_path / "run.json"
    outputs = [part for file in (path, *first) for part in ("-o", str(file))]
    assert cli(*RANKINGS[name], "-q", *outputs).code == 0
    assert cli("render", str(path), "-q", *[p for file in second for p in ("-o", str(file))]).code == 0
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(first, second, strict=True))
    again = cli("render", str(path), "-q", "--json").json
    assert without_provenance(again) == without_provenance(json.loads(path.read_text()))
    assert again["provenance"]["original"]["argv"][0] == RANKINGS[name][0]
    for form in ("table", "heatmap"):
        direct = cli(*RANKINGS[name], "-q", "-f", form).out
        assert cli("render", str(path), "-q", "-f", form).out == direct and len(direct) > 40
