"""Working one step ahead changes when things are made, and nothing else."""

import threading
from collections.abc import Iterator

import pytest
import torch

from attncli.attention.operation import AttentionOperation
from attncli.capture.blocks import BlockFeed
from attncli.capture.prefetch import one_ahead
from attncli.observers.selection import Selection
from attncli.observers.weights import FullWeights
from attncli.record import AttentionLayer


def test_items_are_made_in_another_thread_at_most_one_ahead() -> None:
    made: list[tuple[int, str]] = []

    def items() -> Iterator[int]:
        for number in range(4):
            made.append((number, threading.current_thread().name))
            yield number

    for used in one_ahead(items()):
        assert len(made) <= used + 2
    assert [number for number, _ in made] == [0, 1, 2, 3]
    assert all(name.startswith("tiles") for _, name in made)


def test_an_error_on_the_way_comes_out_and_the_threads_are_given_back(two_threads: None) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        list(one_ahead(items()))
    assert torch.get_num_threads() == 2


def test_giving_up_half_way_gives_the_threads_back(two_threads: None) -> None:
    some = one_ahead(iter(range(9)))
    assert next(some) == 0
    some.close()  # type: ignore[attr-defined]
    assert torch.get_num_threads() == 2


def test_weights_are_the_same_with_one_thread_and_with_two(two_threads: None) -> None:
    query, key = torch.randn(1, 4, 700, 8), torch.randn(1, 2, 700, 8)
    operation = AttentionOperation(query, key, key, scale=0.5, causal_offset=0)
    found = []
    for threads in (2, 1):
        torch.set_num_threads(threads)
        kept = FullWeights("decoder", Selection("layer"), Selection("head"), 1, 700, 700)
        with torch.inference_mode():
            emitter = BlockFeed([kept], block_bytes=2**20)
            emitter.emit(AttentionLayer("decoder", 0, 4, 2), operation, None, "interface")
        found.append(torch.stack([torch.from_numpy(matrix.values) for matrix in kept.matrices()]))
    assert torch.equal(found[0], found[1])


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
