"""Some fields of the long form."""

import json

import pytest
from commandline import Cli


def test_fields_are_written_in_the_order_asked_for(cli: Cli) -> None:
    whole = cli("show", "a b", "-m", "tiny-encoder", "--format", "csv").out.splitlines()
    some = cli(
        "show", "a b", "-m", "tiny-encoder", "--format", "tsv", "--fields", "weight, key"
    ).out.splitlines()
    assert some[0] == "weight\tkey" and len(some) == len(whole)
    pairs = [(line.split(",")[7], line.split(",")[4]) for line in whole[1:]]
    assert [(float(weight), key) for weight, key in (line.split("\t") for line in some[1:])] == [
        (float(weight), key) for weight, key in pairs
    ]


def test_a_ranking_has_fields_too(cli: Cli) -> None:
    lines = cli("heads", "a b c d e", "--format", "ndjson", "--fields", "layer,labels").out.splitlines()
    assert all(list(json.loads(line)) == ["layer", "labels"] for line in lines) and len(lines) == 8


def test_csv_tsv_and_a_list_in_a_pipe_have_the_same_fields(cli: Cli) -> None:
    asked = ("show", "a b", "--layer", "0", "--head", "0", "--top", "2")
    tsv, piped = (cli(*asked, *more).out.splitlines() for more in (("--format", "tsv"), ()))
    csv = cli(*asked, "--format", "csv").out.splitlines()
    assert tsv == piped and [line.replace(",", "\t") for line in csv] == tsv


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--format", "csv", "--fields", "wieght"), 'did you mean "weight"?'),
        (("--json", "--fields", "weight"), "--fields is for CSV, TSV and NDJSON"),
    ],
)
def test_a_field_that_is_not_there_is_told(cli: Cli, options: tuple[str, ...], message: str) -> None:
    found = cli("show", "a b", *options)
    assert found.code == 2 and message in found.err and not found.out
