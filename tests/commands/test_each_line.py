"""A text a line: show, mask and tokens over a file, going on after an interruption, a file for each text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from commandline import Cli, Result

from attncli.cli.options import OutputOptions
from attncli.cli.output import plan
from attncli.documents.schema import json_schema
from attncli.inputs.corpus import Line, Pair
from attncli.maps import each_line as _each_line
from attncli.maps.each_line import EachLine
from attncli.maps.options import ShowOptions
from attncli.maps.show import MapRequest, Question
from attncli.models.loading import load
from attncli.models.opening import Opened
from attncli.models.text_batches import TextReader
from attncli.observers.selection import Selection

TEXTS = [
    "the animal was too tired .",
    "it was tired",
    "the animals did cross . it was the animal .",
    "was it",
    "too tired too tired too tired .",
]


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    return written(tmp_path / "texts.txt", *TEXTS)


def written(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def records(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def answer(record: Any) -> Any:
    """Return what the command without --each-line says too."""
    return {
        key: value for key, value in record.items() if key not in ("line", "id", "text", "pair", "provenance")
    }


def weights(record: Any) -> Any:
    return np.array([entry["weights"] for entry in record["attention"]])


@pytest.mark.parametrize(
    "options",
    [("show", "--layer", "1", "--head", "2"), ("show", "--head", "0", "--top", "2"), ("mask",), ("tokens",)],
)
def test_a_record_is_what_the_command_says_of_that_text_alone(
    cli: Cli, corpus: str, tiny_llama: str, options: tuple[str, ...]
) -> None:
    batch = () if options == ("tokens",) else ("--batch-size", "1")
    found = cli(*options, "--each-line", "--file", corpus, "-m", tiny_llama, *batch)
    assert found.code == 0
    schema = json_schema(options[0])
    for text, record in zip(TEXTS, records(found.out), strict=True):
        jsonschema.validate(record, schema)
        assert answer(record) == answer(cli(*options, text, "-m", tiny_llama, "--json").json)


@pytest.mark.parametrize("size", ["2", "32"])
def test_texts_of_a_batch_have_the_weights_that_they_have_alone(
    cli: Cli, corpus: str, tiny_bert: str, size: str
) -> None:
    found = records(cli("show", "--each-line", "--file", corpus, "-m", tiny_bert, "--batch-size", size).out)
    assert [record["line"] for record in found] == [1, 2, 3, 4, 5]
    for text, record in zip(TEXTS, found, strict=True):
        alone = cli("show", text, "-m", tiny_bert, "--json").json
        np.testing.assert_allclose(weights(record), weights(alone), atol=1e-6)
        assert record["key_tokens"] == alone["key_tokens"] and record["notes"] == alone["notes"]


def test_pairs_of_texts_are_read_from_two_fields(cli: Cli, tmp_path: Path, tiny_marian: str) -> None:
    pairs = [("it was tired", "the animal"), ("it did", "was it too tired")]
    lines = (json.dumps({"id": number, "text": a, "to": b}) for number, (a, b) in enumerate(pairs))
    corpus = written(tmp_path / "pairs.jsonl", *lines)
    options = ("-m", tiny_marian, "--kind", "cross")
    found = records(cli("show", "--each-line", "--file", corpus, "--pair-field", "to", *options).out)
    for number, (text, pair) in enumerate(pairs):
        alone = cli("show", text, "--pair", pair, "--json", *options).json
        np.testing.assert_allclose(weights(found[number]), weights(alone), atol=1e-6)
        assert (found[number]["id"], found[number]["pair"]) == (number, pair)


def test_lines_that_cannot_be_used_are_named_and_the_rest_is_done(
    cli: Cli, tmp_path: Path, tiny_bert: str
) -> None:
    corpus = written(tmp_path / "texts.txt", "it was", "", "too " * 40, "was it")
    found = cli("show", "--each-line", "--file", corpus, "-m", tiny_bert)
    assert [record["line"] for record in records(found.out)] == [1, 4]
    assert "texts.txt line 2: empty" in found.err
    assert "texts.txt line 3: the text has 42 tokens" in found.err
    assert found.code == 1 and "2 lines could not be used" in found.err
    assert cli("show", "--each-line", "--file", corpus, "-m", tiny_bert, "--skip-errors").code == 0


def test_a_text_without_the_token_that_is_asked_for_is_named(cli: Cli, corpus: str, tiny_bert: str) -> None:
    found = cli("show", "--each-line", "--file", corpus, "-m", tiny_bert, "--query", "animal")
    assert [record["line"] for record in records(found.out)] == [1, 3]
    assert 'line 2: no token "animal" in the text' in found.err


@pytest.mark.parametrize(
    "wrong",
    [("--layer", "9"), ("--head", "9"), ("--kind", "cross"), ("--words", "--pool", "max")],
)
def test_what_is_wrong_for_every_text_is_said_once(
    cli: Cli, corpus: str, tiny_bert: str, wrong: tuple[str, ...]
) -> None:
    found = cli("show", "--each-line", "--file", corpus, "-m", tiny_bert, *wrong)
    assert found.code == 2 and found.out == "" and "line 1" not in found.err


def test_a_run_that_was_cut_short_is_gone_on_with(
    cli: Cli, corpus: str, tmp_path: Path, tiny_bert: str
) -> None:
    out = tmp_path / "out.ndjson"
    command = ("show", "--each-line", "--file", corpus, "-m", tiny_bert, "--top", "2", "-o", str(out))
    assert cli(*command, "--resume").code == 0  # there is none yet
    whole = out.read_bytes()
    second = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    out.write_bytes(whole[: second + 40])
    assert cli(*command, "--resume").code == 0
    assert list(map(answer, records(out.read_text()))) == list(map(answer, records(whole.decode())))
    assert out.read_bytes()[:second] == whole[:second]
    assert cli(*command, "--resume").code == 0 and len(records(out.read_text())) == 5


def test_another_corpus_or_question_is_not_gone_on_with(
    cli: Cli, corpus: str, tmp_path: Path, tiny_bert: str
) -> None:
    out = tmp_path / "out.ndjson"
    command = ("show", "--each-line", "-m", tiny_bert, "-o", str(out), "--resume", "--file")
    cli(*command, corpus)
    before = out.read_bytes()
    other = written(tmp_path / "other.txt", *TEXTS[:4], "was was")
    assert "line 5 has changed" in cli(*command, other).err
    assert "that run read 5 lines, here are 2" in cli(*command, written(Path(other), *TEXTS[:2])).err
    longer = written(Path(other), *TEXTS, "it was")
    assert "this one [[" in cli(*command, longer, "--head", "0").err
    assert out.read_bytes() == before


def test_each_text_has_a_file_named_after_its_id(cli: Cli, tmp_path: Path, tiny_bert: str) -> None:
    ids = ["a/b", "a_b", "../x", "A_B", 7, None]
    lines = (json.dumps({"id": one, "text": "it was tired"}) for one in ids)
    corpus = written(tmp_path / "texts.jsonl", *lines)
    folder = tmp_path / "maps"
    folder.mkdir()
    pattern, kept = str(folder / "{id}.csv"), str(folder / "line-{line}.npz")
    found = cli("show", "--each-line", "--file", corpus, "-m", tiny_bert, "-o", pattern, "-o", kept)
    assert found.code == 0 and found.out == "" and "wrote " in found.err
    names = {path.name for path in folder.glob("*.csv")}
    assert names == {"a_b.csv", "a_b-2.csv", "x.csv", "A_B-3.csv", "7.csv", "6.csv"}
    assert len(list(folder.glob("line-*.npz"))) == 6


def test_wishes_that_do_not_go_with_many_texts_are_refused(
    cli: Cli, corpus: str, tmp_path: Path, tiny_bert: str
) -> None:
    def run(*options: str) -> Result:
        return cli("show", "--each-line", "-m", tiny_bert, *options)

    wrong = {
        ("it was",): "--each-line and TEXT",
        ("--file", corpus, "-o", str(tmp_path / "a.png")): "one file for all texts",
        ("--file", corpus, "-o", str(tmp_path / "{id}" / "a.png")): "{id}",
        ("--file", corpus, "--resume"): "--resume needs -o FILE.ndjson",
        ("--file", corpus, "-f", "csv"): "no csv form on stdout",
        ("--file", corpus, "--pair", "it"): "--each-line and --pair",
    }
    for options, said in wrong.items():
        found = run(*options)
        assert found.code in (1, 2) and said in found.err and not found.out


def test_a_pipe_is_read_and_an_empty_one_is_told(cli: Cli, tiny_bert: str) -> None:
    found = cli("show", "--each-line", "-m", tiny_bert, "--top", "1", stdin=b"it was\nwas it\n")
    assert [record["text"] for record in records(found.out)] == ["it was", "was it"]
    empty = cli("tokens", "--each-line", stdin=b"")
    assert empty.code == 1 and "the corpus is empty" in empty.err


def test_the_default_model_shows_one_head_of_each_text(cli: Cli) -> None:
    found = records(cli("show", "--each-line", stdin=b"It fell, and it fell.\nTo be, or not to be.\n").out)
    assert [len(record["attention"]) for record in found] == [1, 1]
    assert found[0]["source"]["name"] == "tiny-decoder"


def test_numbers_that_change_with_padding_are_not_shown(
    cli: Cli, corpus: str, tiny_bert: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_each_line, "_same", lambda left, right, itemsize: False)
    found = cli("show", "--each-line", "--file", corpus, "-m", tiny_bert, "--head", "0")
    assert "padding changes this model's weights" in found.err
    record = records(found.out)[3]
    assert answer(record) == answer(cli("show", TEXTS[3], "-m", tiny_bert, "--head", "0", "--json").json)


def test_a_text_is_answered_before_the_next_one_is_read(tiny_bert: str) -> None:
    read: list[int] = []

    def pairs() -> Iterator[Pair]:
        for number in range(1, 4):
            read.append(number)
            yield Line(number, "it was"), None

    def ask(source: Opened) -> tuple[Question, int]:
        request = MapRequest(source, "encoder", Selection("layer"), Selection("head"), ShowOptions())
        return request.question(plan(OutputOptions("json"), "MatrixGrid")), 6

    reader = TextReader(load(tiny_bert))
    answers = EachLine(reader.open, ask, 1, reader).answers(pairs())
    next(answers)
    assert read == [1]
