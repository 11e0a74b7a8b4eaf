"""All metrics of a block, and the fast way for short texts against the metrics themselves."""

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch

from attncli.batch import Axis, Batch
from attncli.heads.metrics import entropy, weight_on_pairs
from attncli.heads.metrics_of_block import Measures, evenly
from attncli.heads.pair_sums import PairSums, suits
from attncli.observers.without_keys import without_keys
from attncli.record import AttentionLayer, Kind, WeightBlock


def a_batch(texts: int, length: int, seed: int, *, left: bool = False) -> Batch:
    dice = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, (texts, length), generator=dice)
    sizes = torch.randint(3, length + 1, (texts, 1), generator=dice)
    place = torch.arange(length).expand(texts, -1)
    present = place >= length - sizes if left else place < sizes
    marks = torch.rand(texts, length, generator=dice)
    axis = Axis(ids.masked_fill(~present, -1), present, (marks < 0.2) & present, (marks > 0.8) & present)
    return Batch(axis, axis, present & ~axis.special)


def a_block(batch: Batch, kind: Kind, seed: int) -> WeightBlock:
    texts, length = batch.rows.shape
    allowed = batch.keys.present[:, None, None].expand(-1, 1, length, -1)
    if kind == "decoder":
        allowed = allowed & torch.ones(length, length, dtype=torch.bool).tril()
    scores = 3 * torch.randn(texts, 4, length, length, generator=torch.Generator().manual_seed(seed))
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1).nan_to_num()
    return WeightBlock(AttentionLayer(kind, 0, 4, 4), (0, 1, 2, 3), range(length), weights, allowed)


def test_what_is_derived_from_a_metric_is_made_from_its_numbers_and_these_once_for_a_block() -> None:
    batch = a_batch(3, 7, 1)
    block = a_block(batch, "decoder", 2)
    with patch.object(entropy, "measure", wraps=entropy.measure) as asked:
        names = ["effective_keys", "entropy", "normalised_entropy"]
        effective, bits, share = Measures.of_kind("decoder").rows(block, batch, names)
    assert asked.call_count == 1
    torch.testing.assert_close(effective, bits.exp2(), equal_nan=True)
    torch.testing.assert_close(share[0, :, 1], bits[0, :, 1])  # of two keys


def test_chance_spreads_each_row_evenly_over_what_it_may_attend_to() -> None:
    even = evenly(a_block(a_batch(2, 5, 5), "decoder", 6))
    assert even.weights[0, 0, 2, :3].tolist() == pytest.approx([1 / 3] * 3)
    assert even.weights[0, 0, 0].tolist() == [1, 0, 0, 0, 0]


def test_what_is_left_without_some_keys_has_the_rows_old_sum() -> None:
    batch = a_batch(2, 6, 8)
    block = a_block(batch, "encoder", 9)
    left, dropped = without_keys(block, batch.keys.special)
    special = batch.keys.special[:, None, None]
    assert float(left.weights.masked_select(special).abs().sum()) == 0
    expected = block.weights.masked_fill(~special, 0).sum(-1)
    torch.testing.assert_close(dropped, expected)
    rows = (dropped < 0.99) & batch.queries.present[:, None]
    torch.testing.assert_close(left.weights.sum(-1)[rows], torch.ones_like(dropped[rows]))


def test_a_row_on_left_out_keys_alone_has_nothing_left() -> None:
    weights = torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]])
    block = WeightBlock(AttentionLayer("encoder", 0, 1, 1), (0,), range(2), weights, None)
    left, dropped = without_keys(block, torch.tensor([[True, False]]))
    assert left.weights[0, 0].tolist() == [[0, 0], [0, 1]] and dropped[0, 0].tolist() == [1, 0.5]


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("formerly", [False, True])
def test_sums_over_pairs_are_those_of_the_metrics_own_rows(kind: Kind, left: bool, formerly: bool) -> None:
    batch = a_batch(3, 7, 1, left=left)
    block = a_block(batch, kind, 2)
    measures = Measures.of_kind(kind)
    other = torch.tensor([0, 2, 2]), torch.tensor([2, 0, 5]), torch.tensor([1, 0, 2])
    former = {"diagonal" if kind == "cross" else "previous_token": other} if formerly else {}
    pairs = PairSums.of(block, batch, measures.of_rows, former)
    assert pairs is not None and suits(block, batch) and (formerly or pairs.fit(block))
    found, counted = pairs.sums(block), batch.rows.unsqueeze(1)
    for name, sums, counts in zip(pairs.names, found, pairs.counts, strict=True):
        own = measures.rows(block, batch, [name])[0].masked_fill(~counted, torch.nan)
        rows = weight_on_pairs(block, former[name]) if name in former else own
        torch.testing.assert_close(sums, rows.nansum(-1).T, rtol=1e-6, atol=1e-6, msg=name)
        assert torch.equal(counts.expand(4, -1).long(), (~rows.isnan()).sum(-1).T)
    assert set(pairs.names) | {"entropy", "normalised_entropy", "effective_keys", "maximum", "span"} == set(
        measures.of_rows
    )


def test_sums_over_pairs_do_not_suit_heads_with_masks_of_their_own_nor_rows_that_a_sink_has_emptied() -> None:
    batch = a_batch(3, 7, 1)
    block = a_block(batch, "encoder", 2)
    pairs = PairSums.of(block, batch, ["self"], {})
    assert pairs is not None and pairs.fit(block)
    assert not pairs.fit(replace(block, weights=block.weights * 0.9))
    assert block.allowed is not None
    assert not suits(replace(block, allowed=block.allowed.expand(-1, 4, -1, -1)), batch)
    assert not suits(replace(block, rows=range(5), weights=block.weights[:, :, :5]), batch)
    assert PairSums.of(block, batch, ["entropy"], {}) is None


def test_the_span_of_a_sharp_head_is_exact_far_from_the_beginning() -> None:
    dice = torch.Generator().manual_seed(7)
    scores = 14 * torch.eye(100).roll(-1, 1) + torch.rand(2, 3, 100, 100, generator=dice)
    block = WeightBlock(AttentionLayer("encoder", 0, 3, 3), (0, 1, 2), range(100), scores.softmax(-1), None)
    block = replace(block, sums=block.weights.sum(-1))
    present = torch.ones(2, 100, dtype=torch.bool)
    axis = Axis(torch.zeros(2, 100, dtype=torch.long), present, ~present, ~present)
    measures = Measures.of_kind("encoder", ["span"])
    place = torch.arange(100, dtype=torch.float64)
    weights = block.weights.double() / block.weights.double().sum(-1, keepdim=True)
    mean = (weights * place).sum(-1, keepdim=True)
    exact = (weights * (place - mean) ** 2).sum(-1).sqrt().float()
    torch.testing.assert_close(
        measures.rows(block, Batch(axis, axis, present))[0], exact, atol=1e-6, rtol=1e-6
    )
