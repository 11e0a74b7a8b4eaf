"""Times one call: by the clock on the wall, by the processor's time, and on a GPU by its own events."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch

Clock = Literal["cpu", "wall", "cuda"]


@dataclass(frozen=True, slots=True)
class Reading:
    """The seconds that one call took.

    Args:
        wall: With everything that came between.
        cpu: That this process spent, all its threads together.
        cuda: Between two events of the GPU; None elsewhere.
    """

    wall: float
    cpu: float
    cuda: float | None = None

    def on(self, clock: Clock) -> float:
        """Return the seconds by one clock."""
        if clock == "cuda":
            assert self.cuda is not None
            return self.cuda
        return self.cpu if clock == "cpu" else self.wall


def choose_clock(device: str, threads: int) -> Clock:
    """Choose the clock to compare by.

    With one thread a processor's time leaves out what other programs take; with several it adds up their waiting for
    each other, so that only the wall's clock tells what one waits for.

    >>> choose_clock("cpu", 1), choose_clock("cpu", 4), choose_clock("cuda:0", 1)
    ('cpu', 'wall', 'cuda')
    """
    if device.startswith("cuda"):
        return "cuda"
    return "cpu" if device == "cpu" and threads == 1 else "wall"


def time_call(call: Callable[[], object], number: int, device: str) -> Reading:
    """Run a call several times in a row and give the seconds of one."""
    if device.startswith("cuda"):
        return _time_on_cuda(call, number, device)
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(number):
        call()
    synchronize(device)
    return Reading((time.perf_counter() - wall) / number, (time.process_time() - cpu) / number)


def _time_on_cuda(call: Callable[[], object], number: int, device: str) -> Reading:
    start, end = (
        torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        for _ in range(2)
    )
    synchronize(device)
    wall, cpu = time.perf_counter(), time.process_time()
    with torch.cuda.device(device):
        start.record()
        for _ in range(number):
            call()
        end.record()
    synchronize(device)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Reading(wall / number, cpu / number, start.elapsed_time(end) / 1000 / number)


def synchronize(device: str) -> None:
    """Wait until a device has done what it was told."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    elif device.startswith("mps"):
        torch.mps.synchronize()


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect garbage now, and not while something is timed."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
