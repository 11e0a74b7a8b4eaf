"""A corpus goes through a model in batches."""

import pytest

from attncli.heads import corpus_run
from attncli.heads.corpus_run import cut_into_batches
from attncli.models.batches import Encoded, Side


def text(ordinal: int, length: int) -> Encoded:
    return Encoded(ordinal, Side((1,) * length, (False,) * length))


def test_neighbours_in_length_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text(0, 9), text(1, 2), text(2, 5), text(3, 2), text(4, 7)]
    cut = [[one.ordinal for one in batch] for batch in cut_into_batches(texts, 2)]
    assert cut == [[1, 3], [2, 4], [0]]
    monkeypatch.setattr(corpus_run, "MOST_PAIRS", 30)
    cut = [[one.ordinal for one in batch] for batch in cut_into_batches(texts, 9)]
    assert cut == [[1, 3], [2], [4], [0]]
