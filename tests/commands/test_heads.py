"""attncli heads as users run it: ranking, bad lines, going on after an interruption, comparing, wrong options."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from commandline import Cli

from attncli.documents.schema import json_schema
from attncli.heads import corpus_run as _corpus_run

TEXTS = [
    "the animal was too tired .",
    "it was tired",
    "the animals did cross . it was the animal .",
    "was it",
    "too tired too tired too tired .",
    "the the the animal",
    "did it cross .",
]


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return str(path)


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_corpus_run, "LOOK_AHEAD", 3)


def schema() -> Any:
    return json_schema("heads")


def numbers(document: Any) -> dict[tuple[int, int, str, str], float | None]:
    return {
        (head["layer"], head["head"], name, part): value
        for head in document["heads"]
        for name, number in head["metrics"].items()
        for part, value in number.items()
    }


def test_the_document_follows_its_schema_and_is_ranked(cli: Cli, corpus: str, tiny_bert: str) -> None:
    found = cli("heads", "--file", corpus, "-m", tiny_bert, "--by", "entropy", "--json")
    assert found.code == 0, found.err
    jsonschema.validate(found.json, schema())
    means = [head["metrics"]["entropy"]["mean"] for head in found.json["heads"]]
    assert means == sorted(means, reverse=True) and len(means) == 6
    assert found.json["corpus"]["texts"] == 7 and found.json["complete"] and found.json["by"] == "entropy"
    assert found.json["corpus"]["rule"] == "content tokens"


def test_a_table_in_a_terminal_has_every_head_and_says_which_rows_count(
    cli: Cli, corpus: str, tiny_llama: str
) -> None:
    found = cli("heads", "--file", corpus, "-m", tiny_llama, "--by", "previous-token", "--width", "80")
    lines = found.out.splitlines()
    assert lines[0].endswith("12 decoder heads by previous token · 7 texts")
    assert sum(line.startswith("L") for line in lines) == 12
    assert "note: rows: content tokens from position 2 on" in found.out and max(map(len, lines)) <= 80


@pytest.mark.parametrize("form", ["heatmap", "csv", "tsv", "ndjson", "md", "svg"])
def test_every_form_can_be_had(cli: Cli, tiny_bert: str, form: str) -> None:
    found = cli("heads", TEXTS[0], "-m", tiny_bert, "-f", form)
    assert found.code == 0 and found.out
    if form == "csv":
        assert (
            found.out.splitlines()[0].startswith("kind,layer,head,labels,role,")
            and found.out.count("\n") == 7
        )


def test_where_and_top_choose_heads(cli: Cli, corpus: str, tiny_bert: str) -> None:
    options = ("--by", "self", "--ascending", "--where", "layer == 1 and head != 0", "--top", "1")
    found = cli("heads", "--file", corpus, "-m", tiny_bert, *options, "--json").json
    (head,) = found["heads"]
    assert head["layer"] == 1 and head["head"] != 0 and found["where"] == "layer == 1 and head != 0"
    assert "1 of 6 encoder heads by self" in found["title"]


def test_a_pipe_is_a_corpus_and_an_argument_one_text(cli: Cli, tiny_bert: str) -> None:
    piped = cli("heads", "-m", tiny_bert, "--json", stdin=b"it was\nthe animal\n").json
    alone = cli("heads", "it was\nthe animal", "-m", tiny_bert, "--json").json
    assert [piped["corpus"]["texts"], alone["corpus"]["texts"]] == [2, 1]


def test_a_named_pipe_is_a_corpus(cli: Cli, tiny_bert: str, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("it was\nthe animal\n",))
    writer.start()
    found = cli("heads", "--file", str(path), "-m", tiny_bert, "--json")
    writer.join()
    assert found.json["corpus"]["texts"] == 2


def test_bad_lines_are_told_of_with_their_numbers_and_the_rest_is_done(
    cli: Cli, tmp_path: Path, tiny_bert: str
) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(b"it was\n\nthe \xff\n" + b"the " * 20 + b"\nthe animal\n")
    found = cli("heads", "--file", str(path), "-m", tiny_bert, "--json")
    assert found.code == 1 and found.json["corpus"]["texts"] == 2 and found.json["corpus"]["bad_lines"] == 3
    told = [line.partition("bad.txt ")[2] for line in found.err.splitlines() if "bad.txt line" in line]
    assert told == [
        "line 2: empty",
        "line 3: not UTF-8: byte 0xff at offset 4",
        "line 4: 22 tokens; the model reads at most 16",
    ]
    assert "error: 3 lines could not be used" in found.err
    skipped = cli("heads", "--file", str(path), "-m", tiny_bert, "--json", "--skip-errors")
    assert skipped.code == 0 and skipped.json["heads"] == found.json["heads"]


def test_json_lines_have_fields(cli: Cli, tmp_path: Path, tiny_bert: str, tiny_marian: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"text": "it was", "target": "the animal"}\n{"target": "x"}\n')
    assert cli("heads", "--file", str(path), "-m", tiny_bert, "--json").json["corpus"]["texts"] == 1
    crossed = cli(
        "heads", "--file", str(path), "-m", tiny_marian, "--pair-field", "target", "--json", "--skip-errors"
    )
    assert crossed.code == 0 and {head["kind"] for head in crossed.json["heads"]} == {"cross"}
    jsonschema.validate(crossed.json, schema())


@pytest.mark.parametrize(("content", "code"), [(b"", 2), (b"\n\n", 1)])
def test_a_corpus_without_texts_is_an_error(
    cli: Cli, tmp_path: Path, tiny_bert: str, content: bytes, code: int
) -> None:
    path = tmp_path / "none.txt"
    path.write_bytes(content)
    found = cli("heads", "--file", str(path), "-m", tiny_bert)
    assert found.code == code and not found.out and "error: " in found.err


def test_the_scratch_model_is_measured_too(cli: Cli, corpus: str) -> None:
    found = cli("heads", "--file", corpus, "--layers", "2", "--heads", "2", "--causal", "--json")
    assert found.code == 0 and len(found.json["heads"]) == 4 and found.json["corpus"]["null_texts"] == 7
    assert all(not head["labels"] for head in found.json["heads"])
    jsonschema.validate(found.json, schema())


def test_random_tokens_need_no_text(cli: Cli, tiny_llama: str) -> None:
    found = cli("heads", "-m", tiny_llama, "--probe", "induction", "--probe-length", "5", "--json").json
    assert found["corpus"] | {"tokens": 80, "rows": 32} == found["corpus"] and found["by"] == "induction"
    number = found["heads"][0]["metrics"]["induction"]
    assert number["rows"] == 32 and number["null"] == max(number["chance"], number["shuffled"])


class Stop:
    """Presses Ctrl-C after so many passes, or sends another signal."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, passes: int, number: signal.Signals = signal.SIGINT
    ) -> None:
        self.left, take = passes, _corpus_run.CorpusState.take

        def stopping(ledger: Any, source: Any, unit: Any) -> int:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), number)
            return take(ledger, source, unit)

        monkeypatch.setattr(_corpus_run.CorpusState, "take", stopping)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch


@pytest.mark.parametrize("passes", [1, 2, 4, 6])
def test_ctrl_c_keeps_what_is_done_and_resume_goes_on_to_the_same_numbers(
    cli: Cli, corpus: str, tiny_bert: str, tmp_path: Path, small_windows: None, passes: int
) -> None:
    common = ("heads", "--file", corpus, "-m", tiny_bert, "--batch-size", "2", "--null-texts", "4")
    in_one_go = cli(*common, "--json").json
    saved = str(tmp_path / "run.json")
    with pytest.MonkeyPatch.context() as patch:
        Stop(patch, passes)
        stopped = cli(*common, "-o", saved)
    assert stopped.code == 130 and f"--resume {saved}" in stopped.err
    document = json.loads(Path(saved).read_text())
    jsonschema.validate(document, schema())
    assert not document["complete"] and document["corpus"]["texts"] < 7
    found = cli(*common, "--resume", saved, "--json").json
    assert numbers(found) == numbers(in_one_go) and found["corpus"] == in_one_go["corpus"]
    assert found["clusters"] == in_one_go["clusters"] and found["complete"]


def test_sigterm_keeps_what_is_done_too(
    cli: Cli, corpus: str, tiny_bert: str, tmp_path: Path, small_windows: None
) -> None:
    saved = str(tmp_path / "run.json")
    before = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        Stop(patch, 3, signal.SIGTERM)
        stopped = cli("heads", "--file", corpus, "-m", tiny_bert, "--batch-size", "2", "-o", saved)
    assert stopped.code == 130 and not json.loads(Path(saved).read_text())["complete"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_texts_cut_before_an_interruption_are_counted(
    cli: Cli, tiny_bert: str, tmp_path: Path, small_windows: None
) -> None:
    corpus = tmp_path / "long.txt"
    corpus.write_text("\n".join(["the animal was too tired . " * 200, *TEXTS, "it was tired . " * 300]))
    saved = str(tmp_path / "run.json")
    common = ("heads", "--file", str(corpus), "-m", tiny_bert, "--truncate", "--batch-size", "1")
    with pytest.MonkeyPatch.context() as patch:
        Stop(patch, 11)
        assert cli(*common, "-o", saved).code == 130
    assert "1 text was cut to the model's length" in json.loads(Path(saved).read_text())["notes"]
    assert "2 texts were cut to the model's length" in cli(*common, "--resume", saved, "--json").json["notes"]


def test_resume_asks_for_the_same_question_and_corpus(
    cli: Cli,
    corpus: str,
    tiny_bert: str,
    tmp_path: Path,
    small_windows: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saved = str(tmp_path / "run.json")
    common = ("heads", "--file", corpus, "-m", tiny_bert, "--batch-size", "2", "--null-texts", "0")
    with pytest.MonkeyPatch.context() as patch:
        Stop(patch, 3)
        assert cli(*common, "-o", saved).code == 130
    other = cli(*common, "--batch-size", "3", "--resume", saved)
    assert other.code == 2 and "--resume: that run had --batch-size 2, this one 3" in other.err
    Path(corpus).write_text("\n".join(["it was", *TEXTS[1:]]))
    changed = cli(*common, "--resume", saved)
    assert changed.code == 1 and "the corpus has changed" in changed.err


def test_a_finished_run_cannot_be_gone_on_with(cli: Cli, corpus: str, tiny_bert: str, tmp_path: Path) -> None:
    saved = str(tmp_path / "run.json")
    assert cli("heads", "--file", corpus, "-m", tiny_bert, "-o", saved).code == 0
    found = cli("heads", "--file", corpus, "-m", tiny_bert, "--resume", saved)
    assert found.code == 1 and "that run was finished" in found.err


def test_a_damaged_run_is_refused(
    cli: Cli, corpus: str, tiny_bert: str, tmp_path: Path, small_windows: None
) -> None:
    saved = tmp_path / "run.json"
    with pytest.MonkeyPatch.context() as patch:
        Stop(patch, 3)
        cli("heads", "--file", corpus, "-m", tiny_bert, "-o", str(saved))
    document = json.loads(saved.read_text())
    document["progress"]["layers"][0]["sums"][0] = [1.0]
    saved.write_text(json.dumps(document))
    found = cli("heads", "--file", corpus, "-m", tiny_bert, "--resume", str(saved))
    assert found.code == 1 and "is damaged" in found.err


def test_a_run_is_held_against_an_older_one(cli: Cli, corpus: str, tiny_bert: str, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    assert cli("heads", "--file", corpus, "-m", tiny_bert, "-o", str(old)).code == 0
    same = cli(
        "heads", "--file", corpus, "-m", tiny_bert, "--compare-to", str(old), "--by", "self", "--json"
    ).json
    jsonschema.validate(same, schema())
    assert len(same["changes"]) == 6 and all(change["difference"] == 0 for change in same["changes"])
    document = json.loads(old.read_text())
    head = next(head for head in document["heads"] if (head["layer"], head["head"]) == (1, 2))
    head["metrics"]["self"]["mean"] += 0.5
    head["labels"] = ["self"]
    old.write_text(json.dumps(document))
    found = cli(
        "heads", "--file", corpus, "-m", tiny_bert, "--compare-to", str(old), "--by", "self", "--width", "200"
    )
    assert "1 of 6 heads are called something else" in found.out
    row = next(line for line in found.out.splitlines() if line.startswith("L1H2  self") and "-0.500" in line)
    assert "self → –" in row
    z = -0.5 / math.hypot(*[head["metrics"]["self"]["stderr"]] * 2)
    assert f"{z:.1f}" in row


def test_csv_has_what_changed_beside_each_head(cli: Cli, corpus: str, tiny_bert: str, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    cli("heads", "--file", corpus, "-m", tiny_bert, "-o", str(old))
    document = json.loads(old.read_text())
    document["heads"] = [head for head in document["heads"] if (head["layer"], head["head"]) != (0, 0)]
    old.write_text(json.dumps(document))
    options = ("--compare-to", str(old), "--by", "self", "--batch-size", "1", "-f", "csv")
    rows = list(csv.DictReader(io.StringIO(cli("heads", "--file", corpus, "-m", tiny_bert, *options).out)))
    for row in rows:
        if (row["layer"], row["head"]) == ("0", "0"):
            assert row["changed_metric"] == row["before"] == row["z"] == ""
        else:
            assert row["changed_metric"] == "self"
            assert float(row["self"]) - float(row["before"]) == pytest.approx(float(row["difference"]))


def test_a_run_with_no_head_in_common_is_refused(cli: Cli, tiny_bert: str, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    assert cli("heads", "it was", "-m", "tiny-decoder", "-o", str(old)).code == 0
    found = cli("heads", "it was", "-m", tiny_bert, "--compare-to", str(old))
    assert found.code == 2 and "none of its heads are this model's encoder heads" in found.err


def test_nothing_changed_is_said(cli: Cli, tiny_bert: str, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    cli("heads", "it was tired", "-m", tiny_bert, "-o", str(old))
    found = cli("heads", "it was tired", "-m", tiny_bert, "--compare-to", str(old), "--width", "200")
    assert "0 of 6 heads are called something else, and no number has changed" in found.out


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (("--by", "previus-token"), "--by previus-token: unknown metric", 'did you mean "previous_token"?'),
        (("--by", "diagonal"), "--by diagonal: it has no meaning for encoder attention", "choose from: "),
        (("--where", "entrpy > 1"), 'no metric "entrpy"', 'did you mean "entropy"?'),
        (("--threshold", "self"), "--threshold self: expected metric=number", "such as"),
        (("--threshold", "self=2"), "must be a number from 0 to 1", None),
        (("--threshold", "entropy=0.2"), "no name hangs on 'entropy'", None),
        (("--head", "mean"), "--head mean: each head is measured by itself", None),
        (("--layer", "abc"), "not a layer selection", "(0,2,5-7), -1 or all\n"),
        (("--head", "9"), "--head 9: out of range", None),
        (("--probe", "induction"), "a probe makes its own texts", None),
        (("--field", "text"), "they are for a corpus of JSON lines", None),
        (("--kind", "cross"), "there is no cross-attention here", "of an encoder–decoder, --pair TEXT"),
        (("--file", "x.txt"), "TEXT and --file were both given", None),
    ],
)
def test_a_wrong_option_is_told_before_anything_runs(
    cli: Cli, tiny_bert: str, options: tuple[str, ...], message: str, hint: str | None
) -> None:
    found = cli("heads", "it was", "-m", tiny_bert, *options)
    assert found.code == 2 and message in found.err and (hint or "") in found.err and not found.out


def test_a_shipped_model_is_probed_named_or_not(cli: Cli) -> None:
    for model in ((), ("-m", "tiny-decoder")):
        found = cli("heads", "--probe", "induction", "--probe-texts", "2", *model, "--json").json
        assert found["heads"][0]["labels"] == ["induction"] and found["settings"]["model"] == "tiny-decoder"
    assert cli("heads", "--probe", "induction", "-m", "scratch").code == 2


def test_groups_are_shown_where_they_are_asked_for(cli: Cli) -> None:
    asked = ("heads", "My mother told my sister, and my sister told my father.", "-m", "tiny-decoder")
    plain, grouped = (cli(*asked, "--width", "80", *more).out for more in ((), ("--groups",)))
    assert "heads that do the same" not in plain and len(plain.splitlines()) <= 20
    assert ("heads that do the same" in grouped) == bool(cli(*asked, "--json").json["clusters"])


def test_an_unknown_probe_is_told(cli: Cli, tiny_bert: str) -> None:
    found = cli("heads", "-m", tiny_bert, "--probe", "indction")
    assert found.code == 2 and "unknown probe" in found.err and 'did you mean "induction"?' in found.err


def test_no_corpus_or_an_unreadable_one_is_told(cli: Cli, tiny_bert: str, tmp_path: Path) -> None:
    missing = cli("heads", "--file", str(tmp_path / "none.txt"), "-m", tiny_bert)
    folder = cli("heads", "--file", str(tmp_path), "-m", tiny_bert)
    assert missing.code == folder.code == 1
    assert "No such file" in missing.err and "Is a directory" in folder.err
    assert cli("heads", "-m", tiny_bert, "--compare-to", str(tmp_path / "none.json"), "x").code == 1


def test_thresholds_can_be_changed_and_are_told(cli: Cli, corpus: str, tiny_bert: str) -> None:
    found = cli("heads", "--file", corpus, "-m", tiny_bert, "--threshold", "self=0.0", "--json")
    assert found.json["thresholds"] == {"default": 0.4, "self": 0.0}
    for head in found.json["heads"]:
        number = head["metrics"]["self"]
        above = number["mean"] - number["null"] > max(0.0, 3 * number["stderr"])
        assert ("self" in head["labels"]) == above


def test_left_out_special_tokens_are_told(cli: Cli, corpus: str, tiny_bert: str) -> None:
    found = cli("heads", "--file", corpus, "-m", tiny_bert, "--exclude-special", "--json").json
    assert all("delimiter" not in head["metrics"] and 0 < head["excluded"] < 1 for head in found["heads"])
    assert any("special tokens left out as keys" in note for note in found["notes"])
    jsonschema.validate(found, schema())


@pytest.mark.parametrize(
    ("model", "label", "metric"),
    [("tiny-decoder", "induction", "induction"), ("tiny-encoder", "previous_token", "previous_token")],
)
def test_the_shipped_models_are_measured_and_earn_their_names(
    cli: Cli, model: str, label: str, metric: str
) -> None:
    text = "My mother told my sister, and my sister told my father. My father told my mother what my sister told him."
    found = cli("heads", text, "-m", model, "--by", metric, "--json", "-q").json["heads"]
    assert label in " ".join(found[0]["labels"])
    assert found[0]["metrics"][metric]["mean"] > found[0]["metrics"][metric]["null"] + 0.3


def test_a_translator_s_cross_heads_are_measured(cli: Cli) -> None:
    found = cli("heads", "the fourth of july, seventeen ten", "-m", "tiny-translator", "--json", "-q").json[
        "heads"
    ]
    assert {head["kind"] for head in found} == {"cross"} and len(found) == 8


def test_what_is_told_of_the_texts_is_not_of_the_shuffled_ones(cli: Cli) -> None:
    line = ("the fourth of july, seventeen seventy-six", "-m", "tiny-translator", "-f", "json")
    told = [note for note in cli("heads", *line).err.splitlines() if "wrote" in note]
    assert told == [note for note in cli("show", *line).err.splitlines() if "wrote" in note] != []


def test_a_trained_model_reads_a_corpus_whose_shuffled_texts_are_the_same_tokens(
    cli: Cli, tmp_path: Path
) -> None:
    file = tmp_path / "corpus.txt"
    file.write_text(
        "She told my sister, and my sister told her mother.\nUnbelievably, it rained; it rained.\n"
    )
    found = json.loads(cli("heads", "--file", str(file), "-m", "tiny-decoder", "--json").out)
    assert found["corpus"]["null_texts"] == found["corpus"]["texts"] == 2
    assert found["heads"][0]["metrics"]["previous_token"]["mean"] > 0.5
    dates = tmp_path / "dates.txt"
    dates.write_text("the fourth of july, seventeen seventy-six\nmay first, nineteen ten\n")
    crossed = json.loads(cli("heads", "--file", str(dates), "-m", "tiny-translator", "--json").out)
    assert {head["kind"] for head in crossed["heads"]} == {"cross"}
