"""Texts of a corpus that a model does not run on: they are named, and the rest is done."""

import json
from pathlib import Path

import pytest
import tiny
from commandline import Cli
from safetensors.torch import load_file, save_file

from attncli.heads import corpus_run as _corpus_run

TEXTS = [
    "the animal was tired",
    "it was",
    "did it cross .",
    "the animal .",
    "was it too tired .",
    "it was too tired",
]


@pytest.fixture
def fragile(tmp_path: Path) -> str:
    """A BERT that gives no numbers for texts with the word "cross"."""
    folder = tiny.write_bert(tmp_path / "fragile")
    tensors = load_file(folder / "model.safetensors")
    tensors["embeddings.word_embeddings.weight"][tiny.WORDS.index("cross")] = float("nan")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)


def write(path: Path, texts: list[str]) -> str:
    path.write_text("\n".join(texts) + "\n")
    return str(path)


def test_a_text_that_fails_is_named_and_the_rest_is_done(cli: Cli, fragile: str, tmp_path: Path) -> None:
    corpus = write(tmp_path / "c.txt", TEXTS)
    found = cli("heads", "--file", corpus, "-m", fragile, "--json")
    assert found.code == 1 and "c.txt line 3: " in found.err and "1 line could not be used" in found.err
    assert (found.json["corpus"]["texts"], found.json["corpus"]["bad_lines"]) == (5, 1)
    skipped = cli("heads", "--file", corpus, "-m", fragile, "--json", "--skip-errors")
    assert skipped.code == 0 and skipped.json["heads"] == found.json["heads"]
    without = write(tmp_path / "w.txt", [*TEXTS[:2], *TEXTS[3:]])
    expected = cli("heads", "--file", without, "-m", fragile, "--json", "--null-texts", "0").json
    again = cli("heads", "--file", corpus, "-m", fragile, "--json", "--null-texts", "0").json
    for one, other in zip(again["heads"], expected["heads"], strict=True):
        assert one["metrics"]["entropy"]["mean"] == pytest.approx(
            other["metrics"]["entropy"]["mean"], abs=1e-5
        )


def test_one_text_that_fails_is_an_error(cli: Cli, fragile: str) -> None:
    found = cli("heads", "did it cross .", "-m", fragile)
    assert (found.code, found.out) == (1, "") and "line" not in found.err


def test_a_model_that_runs_on_none_of_the_first_texts_is_an_error(
    cli: Cli, fragile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = write(tmp_path / "c.txt", ["did it cross ."] * 4 + ["it was too tired too tired"])
    assert "4 lines could not be used" in cli("heads", "--file", corpus, "-m", fragile).err
    monkeypatch.setattr(_corpus_run, "PATIENCE", 3)
    found = cli("heads", "--file", corpus, "-m", fragile, "--batch-size", "1")
    assert (found.code, found.out) == (1, "") and "line " not in found.err


def test_a_token_without_a_row_is_named_with_its_line(cli: Cli, tmp_path: Path) -> None:
    folder = tiny.write_bert(tmp_path / "bert")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    new = {"id": len(tiny.WORDS), "content": "<new>", "special": False, "normalized": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    tokenizer["added_tokens"].append(new | flags)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    found = cli(
        "heads", "--file", write(tmp_path / "c.txt", ["it was", "the <new>", "the animal"]), "-m", str(folder)
    )
    assert found.code == 1 and 'line 2: the model\'s embedding has no row for the token "<new>"' in found.err
    shown = cli("show", "the <new>", "-m", str(folder))
    assert shown.code == 4 and 'no row for the token "<new>": its id is 14 of 14' in shown.err


def test_a_text_that_the_tokenizer_cannot_read_is_named_with_its_line(cli: Cli, tmp_path: Path) -> None:
    folder = tiny.write_llama(tmp_path / "llama")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["unk_token"] = "<gone>"
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "TokenizersBackend", "pad_token": "[PAD]"}'
    )
    texts = ["it was tired", "the zebra", "the animal was"]
    found = cli("heads", "--file", write(tmp_path / "c.txt", texts), "-m", str(folder))
    assert found.code == 1 and "c.txt line 2: " in found.err and "cannot read this text" in found.err
    for command in ("show", "tokens"):
        shown = cli(command, "the zebra", "-m", str(folder))
        assert shown.code == 4 and "its tokenizer cannot read this text: " in shown.err
