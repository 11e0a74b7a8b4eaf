"""Random tokens, repeated."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from attncli.errors import ReadError, UsageError
from attncli.heads.probes import Vocabulary, random_repeated, repeated_from_ids
from attncli.heads.single_texts import ShippedModel
from attncli.models.batches import BatchedModel, RowRule
from attncli.models.loading import Loaded, load


@functools.cache
def loaded(folder: str) -> Loaded:
    return load(folder)


def test_half_a_sequence_is_repeated_or_followed_by_other_tokens(tiny_llama: str) -> None:
    probe = random_repeated(Vocabulary.of(loaded(tiny_llama)), 5, 3, seed=1)
    model = BatchedModel(loaded(tiny_llama), probe.rule)
    (repeated, is_null), (parted, stands_for_chance) = probe.feeds(model, 8)
    assert (is_null, stands_for_chance) == (False, True)
    ids, other = repeated.inputs["input_ids"], parted.inputs["input_ids"]
    assert ids.shape == (3, 10) and (ids[:, :5] == ids[:, 5:]).all() and (other[:, :5] == ids[:, :5]).all()
    assert all(len(set(row)) == 10 for row in other.tolist())
    batch = parted.batches["decoder"]
    assert batch is repeated.batches["decoder"] and batch.rows[0].nonzero().flatten().tolist() == [5, 6, 7, 8]


def test_an_encoder_gets_its_special_tokens_around(tiny_bert: str) -> None:
    probe = random_repeated(Vocabulary.of(loaded(tiny_bert)), 4, 2, seed=1)
    assert (probe.before, probe.after) == ((2,), (3,))
    feed, _ = probe.feeds(BatchedModel(loaded(tiny_bert), probe.rule), 8)[0]
    batch = feed.batches["encoder"]
    assert batch.rows[0].nonzero().flatten().tolist() == [
        5,
        6,
        7,
    ]  # [CLS] and four before them; 8 is the last
    assert not {0, 1, 2, 3} & set(feed.inputs["input_ids"][0, 1:-1].tolist())


def test_a_seed_draws_the_same_tokens(tiny_llama: str) -> None:
    one, same, other = (
        random_repeated(Vocabulary.of(loaded(tiny_llama)), 5, 2, seed).first for seed in (1, 1, 2)
    )
    assert one == same != other


def test_ids_from_a_file_may_hold_both_halves_or_one(tiny_llama: str, tmp_path: Path) -> None:
    file = tmp_path / "ids.json"
    for rows in ([[4, 5, 6], [7, 8, 9]], [[4, 5, 6, 4, 5, 6], [7, 8, 9, 7, 8, 9]]):
        file.write_text(json.dumps(rows))
        probe = repeated_from_ids(Vocabulary.of(loaded(tiny_llama)), str(file), 0)
        assert probe.first == ((4, 5, 6), (7, 8, 9))
        assert all(not set(one) & set(two) for one, two in zip(probe.first, probe.other, strict=True))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[[1, 2], [3]]", "different lengths"),
        ("[[1], [3]]", "one token each"),
        ("[]", "no lists of token ids"),
        ("[[1, -2]]", "no lists of token ids"),
        ("[[true, false]]", "no lists of token ids"),
        ("[[1.5, 2]]", "no lists of token ids"),
        ("{", "no JSON"),
    ],
)
def test_what_is_wrong_with_a_file_of_ids_is_told(
    tiny_llama: str, tmp_path: Path, content: str, message: str
) -> None:
    file = tmp_path / "ids.json"
    file.write_text(content)
    with pytest.raises(ReadError, match=message):
        repeated_from_ids(Vocabulary.of(loaded(tiny_llama)), str(file), 0)


def test_ids_of_another_model_are_refused(tiny_llama: str, tmp_path: Path) -> None:
    file = tmp_path / "ids.json"
    file.write_text("[[4, 900]]")
    with pytest.raises(UsageError, match="token id 900, and the model has 14 tokens"):
        repeated_from_ids(Vocabulary.of(loaded(tiny_llama)), str(file), 0)


def test_a_probe_longer_than_vocabulary_or_model_is_refused(tiny_llama: str, tiny_bert: str) -> None:
    with pytest.raises(UsageError, match="the vocabulary has 12 tokens to draw 14 from"):
        random_repeated(Vocabulary.of(loaded(tiny_llama)), 7, 1, 0)
    with pytest.raises(ReadError, match="No such file"):
        repeated_from_ids(Vocabulary.of(loaded(tiny_bert)), "none.json", 0)


@pytest.mark.parametrize(("name", "kind"), [("tiny-decoder", "decoder"), ("tiny-translator", "encoder")])
def test_a_shipped_model_is_probed_too(name: str, kind: str) -> None:
    model = ShippedModel(name, RowRule())
    probe = random_repeated(Vocabulary.of_shipped(model), 5, 2, seed=1)
    model.rule = probe.rule
    feeds = probe.feeds(model, 1)
    assert [null for _, null in feeds] == [False, True] * 2
    ids, rows = feeds[0][0].inputs["input_ids"][0].tolist(), feeds[0][0].batches[model.kinds[0]].rows[0]
    start = len(probe.before)
    assert ids[start : start + 5] == ids[start + 5 : start + 10] and model.kinds == (kind,)
    assert rows.nonzero().flatten().tolist() == list(range(start + 5, start + 9))
    assert len(model.run(feeds[0][0], []).queries[model.kinds[0]]) == len(ids)
