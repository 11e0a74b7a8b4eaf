from pathlib import Path

import tiny
from commandline import Cli
from safetensors.torch import load_file, save_file

from attncli.models.fingerprint import fingerprint


def test_other_weights_have_another_hash_and_a_copy_the_same(tmp_path: Path) -> None:
    first = tiny.write_bert(tmp_path / "one")
    before = fingerprint(first)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "model.safetensors").write_bytes((first / "model.safetensors").read_bytes())
    assert fingerprint(copy) == before
    tensors = load_file(copy / "model.safetensors")
    save_file({name: tensor + 1e-3 for name, tensor in tensors.items()}, copy / "model.safetensors")
    assert fingerprint(copy) != before
    assert fingerprint(None) is None and fingerprint(tmp_path) is None


def test_an_answer_says_when_it_was_made_and_of_which_weights(cli: Cli, tmp_path, monkeypatch) -> None:
    folder = tiny.write_bert(tmp_path / "bert")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    first, again = (cli("show", "it was", "-m", str(folder), "--json") for _ in range(2))
    assert first.out == again.out and first.json["provenance"]["date"] == "1970-01-02T00:00:00Z"
    assert first.json["source"]["weights"] == fingerprint(folder)


def test_a_ranking_says_of_which_corpus_it_is(cli: Cli, tmp_path) -> None:
    folder, texts = tiny.write_bert(tmp_path / "bert"), tmp_path / "texts.txt"
    hashes = []
    for content in ("it was\ntoo tired\n", "it was\ntoo tired\n", "it was\ntoo tired .\n"):
        texts.write_text(content)
        document = cli("heads", "--file", str(texts), "-m", str(folder), "--json").json
        hashes.append(document["corpus"]["sha256"])
    assert hashes[0] == hashes[1] != hashes[2] and len(hashes[0]) == 64
