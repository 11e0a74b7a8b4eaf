"""The fast way for short texts against the metrics themselves."""

import pytest
import torch

from attncli.analysis import dense
from attncli.analysis.measures import Measures, evenly, without_keys
from attncli.record import Axis, Batch, Kind, Site, WeightBlock


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
    return WeightBlock(Site(kind, 0, 4, 4), (0, 1, 2, 3), range(length), weights, allowed)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("even", [False, True])
def test_the_fast_way_gives_the_metrics_own_numbers(kind: Kind, left: bool, even: bool) -> None:
    batch = a_batch(3, 7, 1, left=left)
    block = a_block(batch, kind, 2)
    block = evenly(block) if even else block
    measures = Measures.of_kind(kind)
    assert dense.suits(block, batch) and set(dense._WAYS) >= set(measures.of_rows)
    fast, plain = measures.rows(block, batch), measures.rows_plainly(block, batch)
    for name, one, other in zip(measures.of_rows, fast, plain, strict=True):
        torch.testing.assert_close(one, other, atol=2e-6, rtol=2e-5, equal_nan=True, msg=name)


def test_without_a_mask_every_key_counts() -> None:
    batch = a_batch(2, 5, 3)
    axis = Axis(batch.keys.ids, torch.ones_like(batch.rows), batch.keys.special, batch.keys.punctuation)
    batch = Batch(axis, axis, batch.rows)
    weights = torch.rand(2, 3, 5, 5, generator=torch.Generator().manual_seed(4))
    block = WeightBlock(
        Site("encoder", 0, 3, 3), (0, 1, 2), range(5), weights / weights.sum(-1, keepdim=True), None
    )
    measures = Measures.of_kind("encoder")
    torch.testing.assert_close(
        measures.rows(block, batch), measures.rows_plainly(block, batch), atol=2e-6, rtol=2e-5, equal_nan=True
    )


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
    block = WeightBlock(Site("encoder", 0, 1, 1), (0,), range(2), weights, None)
    left, dropped = without_keys(block, torch.tensor([[True, False]]))
    assert left.weights[0, 0].tolist() == [[0, 0], [0, 1]] and dropped[0, 0].tolist() == [1, 0.5]
