"""Texts put into batches: what the model is given, and what is said of each token."""

from __future__ import annotations

import functools

import pytest
import torch

from attncli.batch import Batch
from attncli.inputs.corpus import BadLine, Line
from attncli.models.batches import BatchedModel, Encoded, RowRule
from attncli.models.loading import Loaded, load

TEXTS = ["the animal was tired .", "it", "it was too tired"]


@functools.cache
def loaded(folder: str) -> Loaded:
    return load(folder)


def lines(texts: list[str], other: str | None = None) -> list[tuple[Line, str | None]]:
    return [(Line(number, text), other) for number, text in enumerate(texts, 1)]


def fed(model: BatchedModel, shuffle: int | None = None) -> tuple[dict[str, torch.Tensor], Batch]:
    feed = model.feed([one for one in model.encode(lines(TEXTS), 0) if isinstance(one, Encoded)], shuffle)
    return dict(feed.inputs), feed.batches[model.kinds[0]]


@pytest.mark.parametrize("padding", ["right", "left"])
def test_shorter_texts_are_padded_and_padding_is_no_token(tiny_bert: str, padding: str) -> None:
    inputs, batch = fed(BatchedModel(loaded(tiny_bert), padding=padding))  # type: ignore[arg-type]
    assert inputs["input_ids"].shape == (3, 7) and batch.keys is batch.queries
    assert batch.keys.present.sum(1).tolist() == [7, 3, 6] == inputs["attention_mask"].sum(1).tolist()
    assert batch.keys.starts == ((0, 0, 0) if padding == "right" else (0, 4, 1))
    assert batch.keys.special.sum(1).tolist() == [2, 2, 2]
    assert batch.keys.punctuation.nonzero().tolist() == [[0, 5]]
    assert batch.rows.sum(1).tolist() == [5, 1, 4]


def test_rows_can_begin_later_and_end_earlier(tiny_llama: str) -> None:
    _, batch = fed(BatchedModel(loaded(tiny_llama)))
    assert batch.rows.sum(1).tolist() == [3, 0, 2]  # a decoder's first two rows see one and two keys
    _, batch = fed(BatchedModel(loaded(tiny_llama), RowRule(first=1, last=1)))
    assert batch.rows.nonzero().tolist() == [[0, 1], [0, 2], [0, 3], [2, 1], [2, 2]]


def test_shuffling_moves_what_is_between_the_special_tokens_the_same_way_each_time(tiny_bert: str) -> None:
    model = BatchedModel(loaded(tiny_bert))
    plain, moved, again = (fed(model, seed)[0]["input_ids"] for seed in (None, 3, 3))
    assert torch.equal(moved, again) and not torch.equal(moved, plain)
    for row, length in enumerate((7, 3, 6)):
        assert sorted(moved[row].tolist()) == sorted(plain[row].tolist())
        assert moved[row, 0] == plain[row, 0] and moved[row, length - 1] == plain[row, length - 1]


def test_what_is_shuffled_is_told_of_as_it_was(tiny_bert: str) -> None:
    model = BatchedModel(loaded(tiny_bert))
    texts = [one for one in model.encode(lines(TEXTS), 0) if isinstance(one, Encoded)]
    feed = model.feed(texts, 3)
    batch, shuffled = feed.batches["encoder"], feed.shuffled["encoder"]  # type: ignore[index]
    assert torch.equal(batch.keys.ids.gather(1, shuffled.keys).clamp(min=0), feed.inputs["input_ids"])


def test_a_text_is_shuffled_alike_in_whatever_batch(tiny_llama: str) -> None:
    model = BatchedModel(loaded(tiny_llama))
    texts = [one for one in model.encode(lines(TEXTS), 0) if isinstance(one, Encoded)]
    alone = model.feed(texts[2:], 3).inputs["input_ids"][0]
    assert torch.equal(alone, model.feed(texts, 3).inputs["input_ids"][2, : len(alone)])


def test_a_text_that_is_too_long_or_has_no_tokens_is_told_and_the_rest_is_read(
    tiny_bert: str, tiny_llama: str
) -> None:
    model = BatchedModel(loaded(tiny_bert))
    found = model.encode(lines(["the " * 20, "it"]), 7)
    assert found[0] == BadLine(1, "22 tokens; the model reads at most 16")
    assert isinstance(found[1], Encoded) and found[1].ordinal == 7
    assert BatchedModel(loaded(tiny_llama)).encode(lines(["   "]), 0) == [
        BadLine(1, "no tokens for this model")
    ]


def test_long_texts_can_be_cut(tiny_bert: str) -> None:
    model = BatchedModel(loaded(tiny_bert), truncate=True)
    (found,) = model.encode(lines(["the " * 20]), 0)
    assert isinstance(found, Encoded) and found.length == 16 and model.cut == 1


def test_an_encoder_decoder_reads_pairs_and_its_decoder_begins_with_the_start_token(tiny_marian: str) -> None:
    model = BatchedModel(loaded(tiny_marian), paired=True)
    assert model.kinds == ("encoder", "decoder", "cross")
    feed = model.feed([one for one in model.encode(lines(TEXTS, "too tired"), 0) if isinstance(one, Encoded)])
    assert feed.inputs["decoder_input_ids"][0, 0] == 0 and feed.batches["decoder"].queries.special[0, 0]
    cross = feed.batches["cross"]
    assert cross.queries is feed.batches["decoder"].queries and cross.keys is feed.batches["encoder"].keys
    assert BatchedModel(loaded(tiny_marian)).kinds == ("encoder",)
