"""A saved ranking of heads is ranked again: as `attncli heads` would have ranked them, without the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from commandline import Cli

TEXTS = "the cat saw the dog\nthe dog saw the cat and the cat ran\na bird sang\n"
RUN = ("heads", "--model", "tiny-decoder", "--null-texts", "2", "-q")
FORMS = ["table", "heatmap", "md", "csv", "tsv", "ndjson"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from attncli.cli.main import main

    path = tmp_path_factory.mktemp("heads")
    corpus, saved = path / "corpus.txt", path / "all.json"
    corpus.write_text(TEXTS)
    assert main([*RUN, "--file", str(corpus), "-o", str(saved)]) == 0
    top = ("--by", "previous_token", "--top", "3")
    assert main([*RUN, "--file", str(corpus), *top, "-o", str(path / "top.json")]) == 0
    newer = ("--exclude-special", "--compare-to", str(saved))
    assert main([*RUN, "--file", str(corpus), *newer, "-o", str(path / "newer.json")]) == 0
    return path


def without(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in ("provenance", *keys)}


def places(document: dict[str, Any]) -> list[tuple[int, int]]:
    return [(head["layer"], head["head"]) for head in document["heads"]]


@pytest.mark.parametrize(
    "wish",
    [
        ("--by", "entropy"),
        ("--by", "previous-token", "--ascending"),
        ("--by", "similarity", "--top", "2"),
        ("--by", "duplicate_token", "--where", "layer == 0 or entropy > 1.5", "--top", "3"),
        ("--where", "label != induction and head != 1"),
    ],
)
def test_it_is_what_heads_gives_in_every_form(cli: Cli, folder: Path, wish: tuple[str, ...]) -> None:
    source, saved = ("--file", str(folder / "corpus.txt")), str(folder / "all.json")
    direct, again = cli(*RUN, *source, *wish, "--json").json, cli("render", saved, *wish, "--json").json
    assert without(again) == without(direct) and direct["heads"]
    jsonschema.Draft202012Validator(cli("schema", "heads").json).validate(again)
    made, drawn = folder / "made.json", folder / "drawn.json"
    for path, command in ((made, (*RUN, *source)), (drawn, ("render", saved, "-q"))):
        files = [part for ending in ("png", "svg") for part in ("-o", str(path.with_suffix(f".{ending}")))]
        assert cli(*command, *wish, "-o", str(path), *files).code == 0
    for ending in (".png", ".svg"):
        assert made.with_suffix(ending).read_bytes() == drawn.with_suffix(ending).read_bytes()
    for form in FORMS:
        again_out = cli("render", saved, *wish, "-q", "-f", form).out
        assert again_out == cli("render", str(made), "-q", "-f", form).out and len(again_out) > 20


def test_what_was_ranked_again_is_saved_and_drawn_as_it_was(cli: Cli, folder: Path) -> None:
    wish, path = ("--by", "span", "--layer", "1", "--top", "2"), folder / "again.json"
    first = cli("render", str(folder / "all.json"), *wish, "-q", "-o", str(path), "-f", "heatmap")
    assert cli("render", str(path), "-q", "-f", "heatmap").out == first.out != ""


def test_layers_and_heads_are_narrowed_with_all_that_is_said_of_them(cli: Cli, folder: Path) -> None:
    run = cli("render", str(folder / "newer.json"), "--json").json
    part = cli("render", str(folder / "newer.json"), "--layer", "-1", "--head", "0-1", "--json").json
    assert places(part) == [place for place in places(run) if place[0] == 1 and place[1] < 2]
    assert part["measured"]["layers"] == [1] and part["measured"]["heads"] == [0, 1]
    count = len(run["heads"])
    assert "· 2 decoder heads by" in part["title"]
    assert part["notes"][-1] == f"2 of {count} decoder heads: --layer -1 --head 0-1"
    assert {(change["layer"], change["head"]) for change in part["changes"]} == {(1, 0), (1, 1)}
    table = cli("render", str(folder / "newer.json"), "--layer", "1", "-f", "md").out
    assert "L1H0" in table and "L0H" not in table.partition("note")[0].replace("of L0", "")
    assert f"of {count // 2} heads are called something else" in table
    assert all({place["layer"] for place in group} == {1} for group in part["clusters"])


def test_where_only_the_first_heads_were_saved_that_is_said(cli: Cli, folder: Path) -> None:
    saved, count = str(folder / "top.json"), len(json.loads((folder / "all.json").read_text())["heads"])
    words = "only the first 3 heads by previous token were saved"
    for wish in (("--by", "entropy"), ("--ascending",), ("--where", "layer < 2"), ("--layer", "0-1")):
        document = cli("render", saved, *wish, "--json").json
        assert f"3 of {count} decoder heads by" in document["title"] and words in document["notes"], wish
    shorter = cli("render", saved, "--top", "2", "--json").json
    assert f"2 of {count} decoder heads by previous token" in shorter["title"]
    assert words not in shorter["notes"] and shorter["top"] == 2


def test_of_a_condition_on_a_condition_both_are_kept(cli: Cli, folder: Path) -> None:
    path = folder / "where.json"
    cli("render", str(folder / "all.json"), "--where", "layer == 1 or head == 0", "-q", "-o", str(path))
    twice = cli("render", str(path), "--where", "head < 2", "--by", "entropy", "--json").json
    assert twice["where"] == "(layer == 1 or head == 0) and (head < 2)"
    once = cli(
        "render", str(folder / "all.json"), "--where", twice["where"], "--by", "entropy", "--json"
    ).json
    assert without(twice) == without(once) and set(places(twice)) == {(0, 0), (1, 0), (1, 1)}


def test_notes_follow_the_metric(cli: Cli, folder: Path) -> None:
    saved = str(folder / "all.json")
    before = json.loads((folder / "all.json").read_text())["notes"]
    after = cli("render", saved, "--by", "induction", "--json").json["notes"]
    assert sum(note.startswith("baseline: ") for note in after) == 1
    assert any(note.startswith("induction is undefined in ") for note in after)
    assert set(after) - set(before) == {n for n in after if n.startswith(("baseline: ", "induction is"))}


def test_a_ranking_comes_from_a_pipe(cli: Cli, folder: Path) -> None:
    content = (folder / "all.json").read_bytes()
    piped = cli("render", "-", "--by", "entropy", "-f", "csv", stdin=content).out
    assert piped == cli("render", str(folder / "all.json"), "--by", "entropy", "-f", "csv").out != ""


def test_a_picture_of_some_heads_says_what_the_hatched_ones_are(cli: Cli, folder: Path) -> None:
    saved, picture = str(folder / "all.json"), folder / "top.svg"
    assert cli("render", saved, "--top", "2", "-q", "-o", str(picture)).code == 0
    assert "hatched: not among those shown" in picture.read_text()
    assert "not among those shown" in cli("render", saved, "--top", "2", "-f", "heatmap").out
    assert "not among" not in cli("render", saved, "-f", "heatmap").out


def test_what_cannot_apply_is_refused_in_one_line(cli: Cli, folder: Path) -> None:
    saved, run, found = str(folder / "all.json"), str(folder / "run.npz"), str(folder / "find.json")
    cli("show", "the cat", "-q", "-o", run)
    cli("find", "the cat ran", "--from", "ran", "--to", "cat", "--model", "tiny-encoder", "-q", "-o", found)
    for arguments, words, hint in (
        ((saved, "--by", "entropi"), "--by entropi: not in the run", 'did you mean "entropy"?'),
        ((saved, "--by", "diagonal"), "--by diagonal: not in the run", "choose from: role, "),
        ((saved, "--where", "diagonal > 1"), 'no metric "diagonal"', "choose from: "),
        ((saved, "--where", "span >"), "--where: invalid syntax", "such as"),
        ((saved, "--layer", "9"), "--layer 9: not in the run", "saved layers: 0-1"),
        ((saved, "--head", "mean"), "--head mean: each head is measured by itself", "write all, or a list"),
        (
            (saved, "--query", "it"),
            "--query cannot be used with a saved ranking of heads",
            "a ranking has no tokens",
        ),
        (
            (run, "--by", "entropy"),
            "--by cannot be used with a saved run of show, mask or compare",
            "attncli heads",
        ),
        (
            (run, "--where", "layer < 1"),
            "--where cannot be used with a saved run of show, mask or compare",
            "attncli heads",
        ),
        (
            (run, "--ascending"),
            "--ascending cannot be used with a saved run of show, mask or compare",
            "attncli heads",
        ),
        ((found, "--by", "weight"), "--by cannot be used with a saved run of find", "leave it out"),
    ):
        result = cli("render", *arguments)
        assert (result.code, result.out) == (2, ""), result
        assert words in result.err.splitlines()[0] and hint in result.err and result.err.count("\n") == 2
