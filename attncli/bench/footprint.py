"""Memory: what a call will need, and what it really took at its peak, its output included."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from attncli.bench.clock import synchronize
from attncli.memory import available_bytes

SHARE = 0.8
"""Share of the free memory that a cell may be predicted to need."""


def free_bytes(device: str) -> int | None:
    """Return the memory that is free where the work is done; None where nobody says."""
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(device)[0])
    return available_bytes()


def fits(needed: int, free: int | None) -> bool:
    """Return whether a cell may be tried.

    >>> fits(8, 10), fits(9, 10), fits(9, None)
    (True, False, True)
    """
    return free is None or needed <= SHARE * free


def peak_extra_bytes(call: Callable[[], object], device: str) -> int | None:
    """Run a call once and give the peak of the memory that it allocated; None where nobody counts.

    On a GPU its allocator counts. On a CPU each allocation and release of PyTorch's is an event of its profiler.
    """
    if device.startswith("cuda"):
        return _peak_on_cuda(call, device)
    if device != "cpu":
        call()
        synchronize(device)
        return None
    from torch.autograd.profiler import profile

    profiler = profile(use_cpu=True, profile_memory=True, use_kineto=True)
    with _silent_stderr():
        profiler.__enter__()  # type: ignore[no-untyped-call]
    try:
        output = call()  # held until the profiler has stopped
    finally:
        with _silent_stderr():
            profiler.__exit__(None, None, None)  # type: ignore[no-untyped-call]
    del output
    results: Any = profiler.kineto_results
    if results is None:
        return None
    return highest_sum(
        (event.start_ns(), event.nbytes()) for event in results.events() if event.name() == "[memory]"
    )


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Send away what the profiler's library writes to stderr when it starts and stops."""
    if sys.stderr is None:  # closed by the shell: 2>&-
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def highest_sum(changes: Iterable[tuple[int, int]]) -> int:
    """Return the largest running sum of changes in the order of their times.

    >>> highest_sum([(3, -4), (1, 4), (2, 5), (4, 1)])
    9
    """
    total = highest = 0
    for _, change in sorted(changes, key=lambda pair: pair[0]):
        total += change
        highest = max(highest, total)
    return highest


def _peak_on_cuda(call: Callable[[], object], device: str) -> int:
    synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    output = call()
    synchronize(device)
    del output
    return int(torch.cuda.max_memory_allocated(device)) - before
