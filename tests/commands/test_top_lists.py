"""The strongest keys of each row, without the other weights: the same answer in little memory."""

from pathlib import Path

import numpy as np
import pytest
import tiny
from commandline import Cli

TEXT = "the animals was too tired . it did cross the animal ."
LONG = " ".join(["the animal was too tired ."] * 100)
PARTS: tuple[tuple[str, ...], ...] = (
    (),
    ("--layer", "1", "--head", "2,0"),
    ("--query", "tired,0,2"),
    ("--rows", "3-5"),
    ("--head", "mean"),
    ("--words",),
    ("--key", "0-4"),
)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: " ".join(part) or "all")
def test_lists_are_those_of_the_full_weights(
    cli: Cli, tiny_llama: str, tmp_path: Path, part: tuple[str, ...]
) -> None:
    common = ("show", TEXT, "-m", tiny_llama, "--top", "3", "--json", *part)
    # An archive holds all weights, so beside one all are kept.
    alone, beside = cli(*common).json, cli(*common, "-o", str(tmp_path / "all.npz")).json
    assert alone.pop("provenance") != beside.pop("provenance") and alone == beside


@pytest.mark.parametrize("form", ["table", "md", "csv", "tsv", "ndjson"])
def test_every_form_lists_the_same(cli: Cli, tiny_bert: str, tmp_path: Path, form: str) -> None:
    common = ("show", TEXT, "-m", tiny_bert, "--top", "3", "-f", form)
    alone, beside = cli(*common), cli(*common, "-o", str(tmp_path / "all.npz"))
    assert alone.code == 0 and alone.out == beside.out and len(alone.out) > 100


def test_more_keys_than_there_are_and_signed_weights(cli: Cli, tmp_path: Path) -> None:
    for options in (("--top", "9"), ("--variant", "retention", "--top", "2", "--causal")):
        common = ("show", "a b c a", "-f", "csv", *options)
        assert cli(*common).out == cli(*common, "-o", str(tmp_path / "all.npz")).out != ""


def test_a_long_text_needs_no_room_for_all_its_weights(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.memory.available_bytes", lambda: 100_000)
    refused = cli("show", LONG, "--causal", "-f", "csv")
    assert refused.code == 5 and "--top K" in refused.err
    listed = cli("show", LONG, "--causal", "-f", "csv", "--top", "2")
    assert listed.code == 0 and len(listed.out.splitlines()) == 1 + 1 + 2 * 599


def test_a_long_list_is_drawn_again_as_a_list_and_filled_where_a_picture_wants_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "top.json")
    cli("show", LONG, "--causal", "--top", "2", "-o", path, "-q")
    direct = cli("show", LONG, "--causal", "--top", "2", "-f", "csv", "-q").out
    assert cli("render", path, "-f", "csv", "-q").out == direct
    part = cli("render", path, "--query", "300-301", "-f", "csv", "-q").out.splitlines()
    assert part[1:] == [line for line in direct.splitlines() if line.split(",")[3] in ("300", "301")]
    assert cli("render", path, "-o", str(tmp_path / "x.npz"), "-q").code == 0
    with np.load(tmp_path / "x.npz", allow_pickle=False) as saved:
        assert np.isnan(saved["decoder.0"]).sum() == 600 * 601 / 2 - (2 * 599 + 1)
    monkeypatch.setattr("attncli.memory.available_bytes", lambda: 1000)
    assert cli("render", path, "-f", "csv", "-q").code == 0
    result = cli("render", path, "-f", "heatmap", "-q")
    assert result.code == 5 and "a map of 600×600: 1.72 MiB needed" in result.err


def test_a_list_of_more_than_ten_million_numbers_is_refused_too(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attncli.cli.output.LARGEST_TEXT", 1000)
    result = cli("show", LONG, "-m", "scratch", "--top", "2", "-f", "csv")
    assert result.code == 5 and "1 map of 600×2: 1,200 numbers" in result.err
    assert "--top" not in result.err


def test_windows_of_a_long_text_are_listed(cli: Cli, tmp_path: Path) -> None:
    folder = str(tiny.write_llama(tmp_path, max_position_embeddings=7))
    common = ("show", TEXT, "-m", folder, "--stride", "3", "--top", "2", "-f", "csv")
    assert cli(*common).out == cli(*common, "-o", str(tmp_path / "all.npz")).out != ""
