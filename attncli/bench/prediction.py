"""How much time a cell will take, before it is tried, and who must be left out so that the rest fits the budget."""

from __future__ import annotations

from attncli.bench.cost import predicted_flops
from attncli.bench.entrants import Contender
from attncli.bench.results import BenchResults, Cell
from attncli.bench.rounds import FEWEST_IN_HASTE

RUNS = FEWEST_IN_HASTE + 1
"""Calls that a cell takes at least: one to warm up and to measure memory, and one for each round."""


def predict_seconds(contender: Contender, ledger: BenchResults, seq_len: int) -> float:
    """Predict one call by the wall's clock: from the length measured last, in proportion to the operations.

    Before anything was measured it is what the machine's peak would need, which nobody beats.
    """
    flops = predicted_flops(ledger.costs[contender.name], seq_len)
    known = ledger.timed(contender.name)
    if not known:
        return flops / ledger.environment.peak_flops
    last = known[-1]
    # A variant without matrix products is taken to grow with the length.
    growth = flops / last.flops if last.flops else seq_len / last.seq_len
    return _typical_wall(last) * growth


def _typical_wall(cell: Cell) -> float:
    walls = sorted(reading.wall for reading in cell.readings)
    return walls[len(walls) // 2]


def affordable(seconds: dict[str, float], left: float, keep: str) -> dict[str, float]:
    """Return who must be left out, the slowest first, so that a length takes no longer than there is time left.

    Args:
        seconds: Of one call of each.
        keep: Who runs twice a round, and is left out only where it would take too long alone.

    Returns:
        Whom to leave out, with the seconds that it would take.

    >>> affordable({"sdpa": 0.1, "full": 1.0, "linear": 0.01}, 5.0, "sdpa")
    {'full': 5.0}
    >>> affordable({"sdpa": 1.0}, 5.0, "sdpa")
    {'sdpa': 9.0}
    """
    costs = {name: RUNS * each for name, each in seconds.items()}
    if keep in costs:
        costs[keep] += FEWEST_IN_HASTE * seconds[keep]
    left_out: dict[str, float] = {}
    protected = keep if costs.get(keep, 0.0) <= left else None
    for name in sorted(costs, key=lambda name: (name == protected, -costs[name])):
        if sum(costs.values()) <= left:
            break
        left_out[name] = costs.pop(name)
    return left_out


def fair_share(ledger: BenchResults, seq_len: int, left: float) -> float:
    """Return how much of the seconds left may be predicted for one length: as much as for each that comes after it.

    So the slow ones leave early enough for the fast ones to reach the long lengths, which they are made for.
    """
    return max(0.0, left) / sum(length >= seq_len for length in ledger.question.lengths)


def time_for_rounds(ledger: BenchResults, seq_len: int, left: float) -> float:
    """Return how long the rounds of one length may go on, so that the lengths after it can have their fewest.

    Args:
        left: Seconds that are left for everything.
    """
    question = ledger.question
    later = [length for length in question.lengths if length > seq_len]
    needed = sum(
        RUNS * predict_seconds(one, ledger, length)
        for length in later
        for one in question.contenders
        if ledger.timed(one.name)
    )
    return max(0.0, left - needed)
