"""attncli heads on real models: figures that were worked out elsewhere with numpy from eager weights."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commandline import Cli

pytestmark = pytest.mark.models

Find = Callable[[str], Path]
SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "It was the best of times, it was the worst of times.",
    "Call me Ishmael.",
    "She gave him the book, and he gave her the letter; they never met again.",
]


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(SENTENCES) + "\n")
    return str(path)


def means(document: Any) -> dict[tuple[int, int, str], float]:
    return {
        (head["layer"], head["head"], name): number["mean"]
        for head in document["heads"]
        for name, number in head["metrics"].items()
    }


def eager(folder: Path, kind: str) -> Any:
    """Give for each sentence what is special, what is punctuation, the ids, and all weights in float64."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    for text in SENTENCES:
        made = tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)
        special = made.pop("special_tokens_mask")[0].bool().numpy()
        with torch.inference_mode():
            layers = model(**made, output_attentions=True).attentions
        ids = made["input_ids"][0]
        marks = np.array([not set(tokenizer.decode([i]).strip()) - set(string.punctuation) for i in ids])
        yield (
            special,
            marks & ~special,
            ids.numpy(),
            np.stack([layer[0].double().numpy() for layer in layers]),
        )


def by_numpy(folder: Path, kind: str) -> dict[str, np.ndarray]:
    """Average over all rows of all sentences: ``(layers, heads)`` for each metric."""
    found: dict[str, list[np.ndarray]] = {}
    for special, marks, ids, weights in eager(folder, kind):
        n = len(ids)
        place = np.arange(n)
        rows = place[~special & (place >= (2 if kind == "decoder" else 0))]
        bits = -(weights * np.log2(np.where(weights > 0, weights, 1))).sum(-1)
        centre = (weights * place).sum(-1)
        keys = place + 1 if kind == "decoder" else np.full(n, n)
        values = {
            "entropy": bits[..., rows],
            "normalised_entropy": (bits / np.log2(np.maximum(keys, 2)))[..., rows],
            "effective_keys": 2 ** bits[..., rows],
            "maximum": weights.max(-1)[..., rows],
            "distance": (weights * abs(place[:, None] - place)).sum(-1)[..., rows],
            "span": np.sqrt((weights * (place - centre[..., None]) ** 2).sum(-1))[..., rows],
            "self": weights[..., rows, rows],
            "first_token": weights[..., rows, 0],
            "previous_token": weights[..., rows[rows > 0], rows[rows > 0] - 1],
            "delimiter": weights[..., special].sum(-1)[..., rows],
        }
        same = (ids[:, None] == ids) & (place[:, None] != place) & ~special
        if kind == "decoder":
            same &= place <= place[:, None]
        having = rows[same[rows].any(1)]
        values["duplicate_token"] = (weights * same).sum(-1)[..., having]
        after = np.roll(same, 1, axis=1) & (place > 0) & ~special  # after the same token
        if kind == "decoder":
            after &= place <= place[:, None]
        having = rows[after[rows].any(1)]
        values["induction"] = (weights * after).sum(-1)[..., having]
        seeing = rows[(marks & ((place <= place[:, None]) | (kind == "encoder")))[rows].any(1)]
        values["punctuation"] = weights[..., marks].sum(-1)[..., seeing]
        if kind == "encoder":
            values["next_token"] = weights[..., rows[rows < n - 1], rows[rows < n - 1] + 1]
        share = weights[..., rows, :].sum(-2) / len(rows)
        gathered = 1 + (share * np.log2(np.where(share > 0, share, 1))).sum(-1) / np.log2(n)
        found.setdefault("received", []).append(gathered[..., None])
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return {
        name: np.concatenate(parts, -1).mean(-1)
        for name, parts in found.items()
        if sum(p.shape[-1] for p in parts)
    }


@pytest.mark.parametrize(
    ("name", "kind", "heads"), [("all-minilm-l6-v2", "encoder", 72), ("smollm2-135m", "decoder", 270)]
)
def test_every_metric_of_every_head_is_what_numpy_says(
    cli: Cli, model_folder: Find, corpus: str, name: str, kind: str, heads: int
) -> None:
    folder = model_folder(name)
    found = cli("heads", "--file", corpus, "-m", str(folder), "--null-texts", "0", "--json").json
    got, wanted = means(found), by_numpy(folder, kind)
    assert len(found["heads"]) == heads and len(wanted) == (15 if kind == "encoder" else 14)
    for metric, values in wanted.items():
        if metric == "delimiter" and kind == "decoder":
            continue  # no special tokens
        for (layer, head), value in np.ndenumerate(values):
            assert got[layer, head, metric] == pytest.approx(value, abs=1e-4), (layer, head, metric)


def test_heads_that_are_known_come_out(cli: Cli, model_folder: Find, corpus: str) -> None:
    found = cli("heads", "--file", corpus, "-m", str(model_folder("all-minilm-l6-v2")), "--json").json
    labels = {(head["layer"], head["head"]): head["labels"] for head in found["heads"]}
    assert labels[0, 2] == ["previous_token"] and labels[1, 8] == ["next_token"]
    assert "delimiter" in labels[4, 5] and labels[0, 7] == []
    assert means(found)[0, 2, "previous_token"] == pytest.approx(0.9997, abs=0.0005)


def test_induction_and_duplicate_token_heads_come_out_of_random_tokens(cli: Cli, model_folder: Find) -> None:
    options = ("--probe", "induction", "--probe-texts", "4")
    found = cli("heads", "-m", str(model_folder("smollm2-135m")), *options, "--json").json
    labels = {(head["layer"], head["head"]): head["labels"] for head in found["heads"]}
    assert "induction" in labels[18, 6] and "duplicate_token" in labels[8, 0]
    assert (found["heads"][0]["layer"], found["heads"][0]["head"]) == (18, 6)
    got = means(found)
    assert got[18, 6, "induction"] == pytest.approx(0.91, abs=0.03)
    assert got[8, 0, "duplicate_token"] == pytest.approx(0.75, abs=0.1)


def test_cross_attention_of_a_copy_is_diagonal_in_the_heads_that_are_known(
    cli: Cli, model_folder: Find, tmp_path: Path
) -> None:
    path = tmp_path / "molecule.jsonl"
    path.write_text(json.dumps({"text": "CC(=O)Nc1ccc(O)cc1"}))
    folder = model_folder("annalog-marian")
    found = cli(
        "heads", "--file", str(path), "-m", str(folder), "--pair-field", "text", "--by", "diagonal", "--json"
    ).json
    first = [(head["layer"], head["head"]) for head in found["heads"][:2]]
    assert first == [(1, 1), (1, 3)] and found["heads"][0]["labels"] == ["aligned"]
    weights = _cross_weights(folder, "CC(=O)Nc1ccc(O)cc1")
    got = means(found)
    for layer, matrices in enumerate(weights):
        for head, matrix in enumerate(matrices):
            rows = np.arange(1, matrix.shape[0] - 1)  # without <s> and </s>
            centre = (matrix * np.arange(matrix.shape[1])).sum(-1)[rows]
            assert got[layer, head, "diagonal"] == pytest.approx(matrix[rows, rows].mean(), abs=1e-4)
            assert got[layer, head, "monotonicity"] == pytest.approx(
                np.corrcoef(rows, centre)[0, 1], abs=1e-4
            )


def test_every_metric_of_cross_attention_is_what_numpy_says(
    cli: Cli, model_folder: Find, tmp_path: Path
) -> None:
    text, path = "CC(=O)Nc1ccc(O)cc1", tmp_path / "molecule.jsonl"
    path.write_text(json.dumps({"text": text}))
    folder = model_folder("annalog-marian")
    got = means(cli("heads", "--file", str(path), "-m", str(folder), "--pair-field", "text", "--json").json)
    for layer, matrices in enumerate(_cross_weights(folder, text)):
        weights = matrices[:, 1:-1]  # without the rows of <s> and </s>
        place = np.arange(weights.shape[-1])
        bits = -(weights * np.log2(np.where(weights > 0, weights, 1))).sum(-1)
        centre = (weights * place).sum(-1, keepdims=True)
        share = weights.mean(-2)
        wanted = {
            "entropy": bits.mean(-1),
            "normalised_entropy": bits.mean(-1) / np.log2(len(place)),
            "effective_keys": (2**bits).mean(-1),
            "maximum": weights.max(-1).mean(-1),
            "span": np.sqrt((weights * (place - centre) ** 2).sum(-1)).mean(-1),
            "first_token": weights[..., 0].mean(-1),
            "received": 1 + (share * np.log2(np.where(share > 0, share, 1))).sum(-1) / np.log2(len(place)),
        }
        for name, values in wanted.items():
            for head, value in enumerate(values):
                assert got[layer, head, name] == pytest.approx(value, abs=1e-4), (layer, head, name)


def test_the_head_most_like_another_is_what_numpy_says(cli: Cli, model_folder: Find, tmp_path: Path) -> None:
    path, folder = tmp_path / "one.txt", model_folder("all-minilm-l6-v2")
    path.write_text(SENTENCES[0])
    got = means(cli("heads", "--file", str(path), "-m", str(folder), "--null-texts", "0", "--json").json)
    special, _, _, weights = next(iter(eager(folder, "encoder")))
    roots = np.sqrt(weights[..., ~special, :]).reshape(72, -1)
    overlaps = roots @ roots.T / (~special).sum()
    np.fill_diagonal(overlaps, 0)
    for head, overlap in enumerate(overlaps.max(1)):
        assert got[head // 12, head % 12, "similarity"] == pytest.approx(overlap, abs=1e-4)


def _cross_weights(folder: Path, text: str) -> list[np.ndarray]:
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    source = tokenizer(text, return_tensors="pt")["input_ids"]
    target = tokenizer(text_target=text, return_tensors="pt")["input_ids"]
    assert target[0, 0] == model.config.decoder_start_token_id  # it begins with the start token by itself
    with torch.inference_mode():
        made = model(input_ids=source, decoder_input_ids=target, output_attentions=True)
    return [layer[0].double().numpy() for layer in made.cross_attentions]


def test_no_head_of_a_random_model_of_a_real_shape_gets_a_name(
    cli: Cli, model_folder: Find, corpus: str, tmp_path: Path
) -> None:
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    there = model_folder("all-minilm-l6-v2")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        AutoModel.from_config(AutoConfig.from_pretrained(there)).save_pretrained(tmp_path / "random")
    AutoTokenizer.from_pretrained(there).save_pretrained(tmp_path / "random")
    found = cli("heads", "--file", corpus, "-m", str(tmp_path / "random"), "--json").json
    assert len(found["heads"]) == 72 and [head["labels"] for head in found["heads"] if head["labels"]] == []
