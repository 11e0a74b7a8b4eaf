"""Measures several calls beside each other: each once a round, in shuffled order, until all are known well enough."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from attncli.bench.clock import Clock, Reading, time_call
from attncli.bench.statistics import median_uncertainty

CONTROL = "(control)"
"""The reference once more, under another name: what comes out between the two is noise."""

FEWEST = 5
"""Rounds that everybody runs, unless the time for everything is up."""

FEWEST_IN_HASTE = 3
MOST = 200

SHORTEST = 0.002
"""Seconds that one reading should take at least; a shorter call is repeated within it."""

Call = Callable[[], object]
Readings = dict[str, list[Reading]]


@dataclass(frozen=True, slots=True)
class Stop:
    """When there are rounds enough.

    Args:
        precision: Share by which a median may be uncertain; who is known better leaves.
        until: Time of `time.perf_counter` after which no round is begun, if there were the fewest.
        at_last: The same for everything.
    """

    precision: float
    until: float
    at_last: float = math.inf


def repetitions(seconds: float) -> int:
    """Choose how often to repeat a call within a reading.

    >>> repetitions(0.5), repetitions(0.0004), repetitions(0.0)
    (1, 5, 1000)
    """
    return min(1000, max(1, math.ceil(SHORTEST / seconds))) if seconds > 0 else 1000


def run_rounds(
    calls: Mapping[str, Call],
    repeat: Mapping[str, int],
    keep: tuple[str, ...],
    stop: Stop,
    clock: Clock,
    device: str,
    shuffle: random.Random,
    into: Readings,
    tell: Callable[[int], None] = lambda count: None,
) -> None:
    """Measure until everybody is known well enough, or the time is up.

    Args:
        calls: What to measure.
        repeat: How often each is repeated within a reading.
        keep: Who runs in every round, because the others are compared with it.
        into: Where readings go as they come, so that what was measured outlives an interruption. The first reading of
            each is of the first round, the second of the second, and so on.
        tell: Called with the number of rounds done.
    """
    active = list(calls)
    for count in range(1, MOST + 1):
        shuffle.shuffle(active)
        for name in active:
            into.setdefault(name, []).append(time_call(calls[name], repeat[name], device))
        tell(count)
        if _is_late(count, stop):
            return
        if count >= FEWEST:
            unsure = {name for name in active if _uncertainty(into[name], clock) > stop.precision}
            if not unsure:
                return
            active = [name for name in active if name in unsure or name in keep]


def _is_late(count: int, stop: Stop) -> bool:
    now = time.perf_counter()
    return (now > stop.until and count >= FEWEST) or (now > stop.at_last and count >= FEWEST_IN_HASTE)


def _uncertainty(readings: list[Reading], clock: Clock) -> float:
    return median_uncertainty([reading.on(clock) for reading in readings])
