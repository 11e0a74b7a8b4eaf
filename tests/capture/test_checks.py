import pytest
import torch

from attncli.attention.operation import AttentionOperation
from attncli.capture.checks import SAMPLED_ROWS, Check, _sample
from attncli.errors import CaptureError
from attncli.record import AttentionLayer, WeightBlock

LAYER = AttentionLayer("encoder", 0, 1, 1)


def tile(rows: range, keys: int = 3) -> WeightBlock:
    """A tile of a long text, with its scores."""
    scores = torch.zeros(1, 1, len(rows), keys)
    return WeightBlock(LAYER, (0,), rows, scores.softmax(-1), None, scores=scores)


@pytest.mark.parametrize("start", range(0, 1000, 100))
def test_some_rows_of_the_last_tile_are_always_looked_at(start: int) -> None:
    block, rows = tile(range(start, start + 50)), slice(start, start + 50)
    found = _sample(block, rows, last=True)
    assert found is not None and len(found) == len(set(found)) == SAMPLED_ROWS and max(found) < 50


def test_most_other_tiles_are_not_looked_at_and_short_texts_whole() -> None:
    found = [
        _sample(tile(range(start, start + 50)), slice(start, start + 50), last=False) for start in range(200)
    ]
    assert 5 < sum(places != [] for places in found) < 60
    assert _sample(tile(range(SAMPLED_ROWS)), slice(0, SAMPLED_ROWS), last=False) is None


@pytest.mark.parametrize("start", [40, 80, 120, 160])
def test_an_output_that_is_wrong_in_the_last_tile_alone_is_an_error(start: int) -> None:
    total = start + 40
    query, key, value = torch.zeros(1, 1, total, 2), torch.zeros(1, 1, 3, 2), torch.ones(1, 1, 3, 2)
    output = torch.ones(1, total, 1, 2).transpose(1, 2).clone()
    output[:, :, start:] = 2.0
    check = Check(LAYER, AttentionOperation(query, key, value, scale=1.0), output, "interface")
    check.add(tile(range(start, total)), slice(start, total))
    with pytest.raises(CaptureError, match="recomputed output differs"):
        check.raise_if_wrong(check.report())
