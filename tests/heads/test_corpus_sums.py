"""Averages of heads over batches of texts: the numbers of numpy over eager weights, however the texts are batched."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
import torch

from attncli.batch import Shuffled
from attncli.capture import blocks as emission
from attncli.heads import corpus_sums as head_tallies
from attncli.heads.corpus_sums import CorpusSums, former_neighbours
from attncli.heads.labels import heads_of
from attncli.heads.metrics_of_block import Measures
from attncli.heads.scores import Thresholds
from attncli.heads.similarity import HeadOverlap
from attncli.inputs.corpus import Line, cut_into_batches
from attncli.models.batches import BatchedModel, Encoded, RowRule
from attncli.models.loading import Loaded, LoadOptions, load
from attncli.observers.selection import Selection, parse_selection
from attncli.observers.without_keys import without_keys
from attncli.record import AttentionLayer, Kind, WeightBlock

TEXTS = [
    "the animal was too tired .",
    "it was tired",
    "the animals did cross . it was the animal .",
    "was it ?",
    "too tired too tired too tired .",
]


@functools.cache
def loaded(folder: str, attention: str | None = None) -> Loaded:
    return load(folder, LoadOptions(attention=attention))


def tallies_of(
    model: BatchedModel, most: int = 2, texts: list[str] = TEXTS, *, kind: Kind | None = None, heads: str = "all",
    shuffle: bool = False, exclude: bool = False, pairs: bool = False,
) -> CorpusSums:  # fmt: skip
    """Run texts in batches of so many, and once more shuffled."""
    kind = kind or model.kinds[0]
    kept = CorpusSums(
        kind,
        Measures.of_kind(kind),
        Selection("layer"),
        parse_selection(heads, "head"),
        model.depth(kind),
        exclude,
    )
    for part in cut_into_batches(encoded(model, texts, pairs), most):
        for seed in (None, 3) if shuffle else (None,):
            feed = model.feed(part, seed)
            shuffled = None if feed.shuffled is None else feed.shuffled[kind]
            kept.begin(feed.batches[kind], null=seed is not None, shuffled=shuffled)
            model.run(feed, [kept])
            kept.commit()
    return kept


def encoded(model: BatchedModel, texts: list[str], pairs: bool = False) -> list[Encoded]:
    lines = [(Line(i, text), text if pairs else None) for i, text in enumerate(texts)]
    return [one for one in model.encode(lines, 0) if isinstance(one, Encoded)]


def means(kept: CorpusSums) -> np.ndarray:
    return np.stack([layer.found.means for layer in kept.by_layer.values()])


def by_hand(weights: np.ndarray, ids: list[int], special: list[bool], marks: list[bool], rows: list[int],
            causal: bool) -> dict[str, list[float]]:  # fmt: skip
    """Measure one text's weights of one head, row by row, from the definitions."""
    found: dict[str, list[float]] = {}
    for i in rows:
        seen = range(i + 1) if causal else range(len(ids))
        row = weights[i]
        entropy = -sum(w * math.log2(w) for w in row if w > 0)
        mean = sum(row[j] * j for j in seen)
        same = [j for j in seen if ids[j] == ids[i] and j != i and not special[j]]
        after = [j for j in seen if j > 0 and j - 1 != i and ids[j - 1] == ids[i] and not special[j - 1]
                 and not special[j]]  # fmt: skip
        values: dict[str, Any] = {
            "entropy": entropy,
            "normalised_entropy": entropy / math.log2(len(seen)) if len(seen) > 1 else None,
            "effective_keys": 2**entropy,
            "maximum": row.max(),
            "distance": sum(row[j] * abs(i - j) for j in seen),
            "span": math.sqrt(sum(row[j] * (j - mean) ** 2 for j in seen)),
            "self": row[i],
            "previous_token": row[i - 1] if i else None,
            "next_token": row[i + 1] if i + 1 in seen else None,
            "first_token": row[0],
            "delimiter": _sum(row, [j for j in seen if special[j]]),
            "punctuation": _sum(row, [j for j in seen if marks[j]]),
            "duplicate_token": _sum(row, same),
            "induction": _sum(row, after),
        }
        for name, value in values.items():
            found.setdefault(name, []).extend([] if value is None else [float(value)])
    return found


def _sum(row: np.ndarray, places: list[int]) -> float | None:
    return float(sum(row[j] for j in places)) if places else None


def received_by_hand(weights: np.ndarray, rows: list[int]) -> float:
    share = weights[rows].sum(0) / weights[rows].sum()
    return 1 + sum(p * math.log2(p) for p in share if p > 0) / math.log2(len(share))


def expected(folder: str, texts: list[str], kind: Kind) -> dict[tuple[int, int, str], float]:
    """Average each metric of each head over all rows, from the eager weights of one text after another."""
    eager, causal = loaded(folder, "eager"), kind == "decoder"
    all_values: dict[tuple[int, int, str], list[float]] = {}
    for text in texts:
        made = eager.tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)
        special = made.pop("special_tokens_mask")[0].bool().tolist()
        ids = made["input_ids"][0].tolist()
        pieces = eager.tokenizer.convert_ids_to_tokens(ids)
        marks = [piece.strip("Ġ") in (".", "?", ",") for piece in pieces]
        rows = [i for i in range(len(ids)) if not special[i] and i >= (2 if causal else 0)]
        with torch.inference_mode():
            layers = eager.model(**made, output_attentions=True).attentions
        for layer, weights in enumerate(layers):
            for head, matrix in enumerate(weights[0].double().numpy()):
                for name, values in by_hand(matrix, ids, special, marks, rows, causal).items():
                    all_values.setdefault((layer, head, name), []).extend(values)
                if rows:
                    all_values.setdefault((layer, head, "received"), []).append(
                        received_by_hand(matrix, rows)
                    )
    return {key: float(np.mean(values)) for key, values in all_values.items() if values}


def compare(kept: CorpusSums, wanted: dict[tuple[int, int, str], float], tolerance: float) -> int:
    """Hold every number against numpy's; give how many there were."""
    heads = heads_of(kept, None, Thresholds())
    found = {(h.layer, h.head, name): number.mean for h in heads for name, number in h.numbers.items()}
    names = {name for _, _, name in wanted if name in kept.names}
    assert {key: value for key, value in found.items() if key[2] in names} == pytest.approx(
        {key: value for key, value in wanted.items() if key[2] in names}, abs=tolerance
    )
    assert names == set(kept.names)
    return len(found)


def test_every_metric_of_a_small_encoder_is_what_numpy_says(tiny_bert: str) -> None:
    kept = tallies_of(BatchedModel(loaded(tiny_bert)))
    assert compare(kept, expected(tiny_bert, TEXTS, "encoder"), 1e-5) > 2 * 3 * 12


def test_every_metric_of_a_small_decoder_is_what_numpy_says(tiny_llama: str) -> None:
    kept = tallies_of(BatchedModel(loaded(tiny_llama)))
    found = expected(tiny_llama, TEXTS, "decoder")
    tokens = set(kept.names) - {name for _, _, name in found}
    assert tokens == {"delimiter"}  # it has no special tokens, and no number for them
    kept.by_layer = dict(kept.by_layer)
    heads = heads_of(kept, None, Thresholds())
    got = {(h.layer, h.head, name): number.mean for h in heads for name, number in h.numbers.items()}
    assert got == pytest.approx(
        {key: value for key, value in found.items() if key[2] != "next_token"}, abs=1e-5
    )


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_llama"])
def test_no_number_depends_on_batch_order_padding_or_block(
    model: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = loaded(request.getfixturevalue(model))
    whole = tallies_of(BatchedModel(it), 5, shuffle=True)
    ways = [
        tallies_of(BatchedModel(it), 1, shuffle=True),
        tallies_of(BatchedModel(it, padding="left"), 3, shuffle=True),
    ]
    monkeypatch.setattr(emission, "BLOCK_BYTES", 300)
    monkeypatch.setattr(emission.BlockFeed, "__init__", _small_blocks(emission.BlockFeed.__init__))
    ways.append(tallies_of(BatchedModel(it), 2, shuffle=True))
    for way in ways:
        for layer, other in zip(whole.by_layer.values(), way.by_layer.values(), strict=True):
            for one, two in zip(layer.parts(), other.parts(), strict=True):
                np.testing.assert_array_equal(one.rows, two.rows)
                np.testing.assert_allclose(one.sums, two.sums, atol=2e-5, rtol=1e-5)


def _small_blocks(init: Any) -> Any:
    def smaller(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        self.block_bytes = 300

    return smaller


def test_texts_in_another_order_give_the_same(tiny_bert: str) -> None:
    there, back = (tallies_of(BatchedModel(loaded(tiny_bert)), 2, texts) for texts in (TEXTS, TEXTS[::-1]))
    np.testing.assert_allclose(means(there), means(back), atol=1e-6)


def test_heads_that_were_not_asked_for_are_not_there(tiny_llama: str) -> None:
    every, some = (
        tallies_of(BatchedModel(loaded(tiny_llama))),
        tallies_of(BatchedModel(loaded(tiny_llama)), heads="1,3"),
    )
    np.testing.assert_allclose(means(some), means(every)[:, :, [1, 3]], atol=1e-6)


def test_rows_can_begin_later(tiny_bert: str) -> None:
    kept = tallies_of(BatchedModel(loaded(tiny_bert), RowRule(first=3)), texts=TEXTS[:1])
    assert kept.by_layer[0].found.rows[kept.names.index("entropy"), 0] == 4  # positions 3 to 6; 7 is [SEP]


def test_chance_is_what_even_weights_have(tiny_bert: str) -> None:
    kept = tallies_of(BatchedModel(loaded(tiny_bert)), 1, TEXTS[1:2])  # [CLS] it was tired [SEP]
    chance = dict(zip(kept.names, kept.by_layer[1].chance.means[:, 0], strict=True))
    assert [chance["previous_token"], chance["delimiter"], chance["normalised_entropy"]] == pytest.approx(
        [0.2, 0.4, 1.0], abs=1e-6
    )


def test_without_special_tokens_the_rest_sums_to_1_and_what_was_left_out_is_told(tiny_bert: str) -> None:
    model = BatchedModel(loaded(tiny_bert))
    plain, left = tallies_of(model), tallies_of(model, exclude=True)
    heads = heads_of(left, None, Thresholds())
    names = plain.names
    delimiter = plain.by_layer[1].found.means[names.index("delimiter")]
    assert [head.excluded for head in heads if head.layer == 1] == pytest.approx(delimiter.tolist(), abs=1e-6)
    assert "delimiter" not in heads[0].numbers
    assert heads[0].numbers["self"].mean > plain.by_layer[0].found.means[names.index("self"), 0]


def test_a_row_nearly_all_on_special_tokens_keeps_its_digits() -> None:
    weights = torch.tensor([[[[1 - 3e-5, 1e-5, 2e-5]]]])
    block = WeightBlock(AttentionLayer("encoder", 0, 1, 1), (0,), range(1), weights, None)
    left, dropped = without_keys(block, torch.tensor([[True, False, False]]))
    assert left.weights[0, 0, 0].tolist() == pytest.approx([0, 1 / 3, 2 / 3], rel=1e-6)
    assert float(dropped) == pytest.approx(1 - 3e-5)


def test_two_words_that_were_neighbours_are_found_again_after_shuffling(tiny_bert: str) -> None:
    model = BatchedModel(loaded(tiny_bert))
    feed = model.feed(encoded(model, TEXTS[:1]), 5)
    batch, shuffled = feed.batches["encoder"], feed.shuffled["encoder"]
    ids = feed.inputs["input_ids"][0]
    for _, row, key in zip(*(part.tolist() for part in former_neighbours(batch, shuffled, -1)), strict=True):
        true_row, true_key = int(shuffled.queries[0, row]), int(shuffled.keys[0, key])
        assert true_key == true_row - 1
        assert [int(ids[row]), int(ids[key])] == batch.queries.ids[0, [true_row, true_key]].tolist()


def test_unshuffled_neighbours_stand_where_they_stood(tiny_bert: str) -> None:
    model = BatchedModel(loaded(tiny_bert))
    batch = model.feed(encoded(model, TEXTS[:1])).batches["encoder"]
    same = torch.arange(batch.rows.shape[1])[None]
    _, rows, keys = former_neighbours(batch, Shuffled(same, same), 1)
    assert (keys - rows == 1).all() and rows.tolist() == [1, 2, 3, 4, 5, 6]


def test_cross_attention_is_measured_between_two_texts(tiny_marian: str) -> None:
    texts = ["the animal was", "too tired it was"]
    kept = tallies_of(
        BatchedModel(loaded(tiny_marian), paired=True), 2, texts, kind="cross", shuffle=True, pairs=True
    )
    assert {"diagonal", "monotonicity"} <= set(kept.names) and "self" not in kept.names
    eager = loaded(tiny_marian, "eager")
    diagonal: list[float] = []
    for text in texts:
        ids = eager.tokenizer(text, return_tensors="pt")["input_ids"]
        decoder = torch.cat([torch.zeros(1, 1, dtype=torch.long), ids[:, :-1]], 1)
        with torch.inference_mode():
            made = eager.model(input_ids=ids, decoder_input_ids=decoder, output_attentions=True)
        diagonal += made.cross_attentions[1][0, 0].diagonal()[1:].tolist()
    assert kept.by_layer[1].found.means[kept.names.index("diagonal"), 0] == pytest.approx(
        np.mean(diagonal), abs=1e-6
    )


@pytest.mark.parametrize(("model", "spread"), [("tiny_bert", 1), ("tiny_llama", 1)])
def test_no_head_of_a_random_model_gets_a_name(
    model: str, spread: float, request: pytest.FixtureRequest
) -> None:
    kept = tallies_of(BatchedModel(loaded(request.getfixturevalue(model))), shuffle=True)
    assert [head.labels for head in heads_of(kept, None, Thresholds()) if head.labels] == []


def test_a_pass_that_was_broken_off_does_not_count(tiny_bert: str) -> None:
    model = BatchedModel(loaded(tiny_bert))
    kept = tallies_of(model)
    before = means(kept)
    feed = model.feed(encoded(model, TEXTS[:2]))
    kept.begin(feed.batches["encoder"])
    model.run(feed, [kept])
    kept.begin(feed.batches["encoder"])
    kept.commit()
    assert np.array_equal(means(kept), before, equal_nan=True)


def test_overlap_is_1_with_itself(tiny_llama: str) -> None:
    model = BatchedModel(loaded(tiny_llama))
    kept = HeadOverlap("decoder", Selection("layer"), Selection("head"), 3)
    for part in cut_into_batches(encoded(model, TEXTS), 2):
        feed = model.feed(part)
        kept.begin(feed.batches["decoder"])
        model.run(feed, [kept])
        kept.commit()
    np.testing.assert_allclose(np.diag(kept.overlaps()), 1, atol=1e-5)


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_llama"])
@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("heads", ["all", "1,0"])
def test_sums_over_pairs_change_no_number(
    family: str, exclude: bool, heads: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = BatchedModel(loaded(request.getfixturevalue(family)))
    fast = tallies_of(model, shuffle=True, exclude=exclude, heads=heads)
    made: list[object] = []
    monkeypatch.setattr(head_tallies, "suits", lambda *given: made.append(given))
    plain = tallies_of(model, shuffle=True, exclude=exclude, heads=heads)
    assert made
    for one, other in zip(fast.by_layer.values(), plain.by_layer.values(), strict=True):
        for ours, theirs in zip(one.parts(), other.parts(), strict=True):
            np.testing.assert_array_equal(ours.sums[:2], theirs.sums[:2])
            np.testing.assert_allclose(ours.sums, theirs.sums, rtol=2e-6, atol=2e-6)
