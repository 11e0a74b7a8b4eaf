from types import SimpleNamespace

import pytest
import torch

from attncli.attention.operation import AttentionOperation
from attncli.capture.cache_positions import first_positions
from attncli.record import AttentionLayer


class Cache:
    """A cache that has seen so many tokens."""

    def __init__(self, seen: int, *, static: bool = False) -> None:
        self.seen, self.layers = seen, [StaticLayer()] if static else []

    def get_seq_length(self, index: int) -> int:
        return self.seen


class StaticLayer:
    pass


def placed(queries: int, keys: int, cache: Cache | None) -> AttentionOperation:
    query, key = torch.zeros(1, 1, queries, 2), torch.zeros(1, 1, keys, 2)
    mask = torch.ones(1, 1, queries, keys, dtype=torch.bool)
    made = AttentionOperation(query, key, key, scale=1.0, mask=mask)
    frame = None if cache is None else SimpleNamespace(args=(), inputs={"past_key_values": cache})
    return first_positions(made, AttentionLayer("decoder", 1, 1, 1), SimpleNamespace(layer_idx=1), frame)


@pytest.mark.parametrize(
    ("queries", "keys", "seen", "first_query", "first_key"),
    [
        (1, 6, 6, 5, 0),  # a step that reads all that there was
        (1, 4, 9, 8, 5),  # a sliding cache that has dropped five keys
        (2, 4, 9, 7, 5),
        (3, 3, 3, 0, 0),
    ],
)
def test_a_step_stands_behind_what_its_cache_has_seen(
    queries: int, keys: int, seen: int, first_query: int, first_key: int
) -> None:
    found = placed(queries, keys, Cache(seen))
    assert (found.first_query, found.first_key) == (first_query, first_key)


@pytest.mark.parametrize("room", [7, 8])
def test_of_a_cache_as_long_as_it_will_ever_be_the_keys_that_are_filled_count(room: int) -> None:
    found = placed(1, room, Cache(6, static=True))
    assert (found.first_query, found.first_key, found.key.shape[2], found.mask.shape[-1]) == (5, 0, 6, 6)


def test_without_a_cache_more_keys_than_queries_end_together() -> None:
    assert placed(2, 5, None).first_query == 3 and placed(5, 5, None).first_query == 0
