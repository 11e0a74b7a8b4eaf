"""What follows from the cells of a ledger: exponents, crossovers, and warnings with their remedies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attncli.bench.environment import system_load
from attncli.bench.fit import Crossover, Fit, find_crossover, fit_power
from attncli.bench.results import BenchResults, Cell
from attncli.bench.statistics import Interval, drift, paired_ratio, paired_ratio_interval

NOISY = 0.10
"""An interquartile range, or a drift, above this share of the median is told."""

WAITED = 0.15
"""So is a share of the time in which a single thread was not let run."""


@dataclass(frozen=True, slots=True)
class Overtaking:
    """From which length one contender is faster than another."""

    variant: str
    other: str
    crossover: Crossover


def fits(ledger: BenchResults) -> dict[str, Fit]:
    """Fit a power law to each contender's times, where there are enough."""
    found = {}
    for contender in ledger.question.contenders:
        cells = ledger.timed(contender.name)
        times = [cell.median for cell in cells if cell.median is not None]
        overhead = ledger.overheads.get(contender.name, 0.0)
        fit = fit_power([cell.seq_len for cell in cells], times, overhead)
        if fit is not None:
            found[contender.name] = fit
    return found


def crossovers(ledger: BenchResults) -> list[Overtaking]:
    """Find who overtakes the reference, and who overtakes plain full attention."""
    contenders = ledger.question.contenders
    others = [ledger.question.reference.name]
    others += [one.name for one in contenders[1:] if one.name == "full"]
    found = []
    for other in others:
        for contender in contenders:
            crossover = None if contender.name == other else _crossover(ledger, contender.name, other)
            if crossover is not None:
                found.append(Overtaking(contender.name, other, crossover))
    return sorted(found, key=lambda one: (others.index(one.other), one.crossover.seq_len))


def _crossover(ledger: BenchResults, variant: str, other: str) -> Crossover | None:
    pairs = [(cell, ledger.cell(other, cell.seq_len)) for cell in ledger.timed(variant)]
    both = [(one.seq_len, one.seconds, two.seconds) for one, two in pairs if two is not None]
    ratios = [paired_ratio(one, two) for _, one, two in both]
    intervals: list[Interval | None] = [paired_ratio_interval(one, two) for _, one, two in both]
    return find_crossover([seq_len for seq_len, _, _ in both], ratios, intervals)


def warnings(ledger: BenchResults) -> Iterator[str]:
    """Yield what makes the times doubtful, and what would help."""
    yield from _load_warning(ledger)
    timed = [cell for cell in ledger.cells if cell.readings]
    noisy = [cell for cell in timed if _spread(cell) > NOISY]
    if noisy:
        worst = max(noisy, key=_spread)
        yield (
            f"the middle half of the times spreads over more than {NOISY:.0%} in {len(noisy)} of {len(timed)} cells "
            f"(worst {_spread(worst):.0%}, {worst.variant} at {worst.seq_len}): give it more --max-time, "
            "or a quieter machine"
        )
    yield from _drift_warning(ledger)
    waited = _waited(timed) if ledger.question.clock == "cpu" else 0.0
    if waited > WAITED:
        yield f"other programs held the processor for {waited:.0%} of the time; CPU time leaves that out"


def _load_warning(ledger: BenchResults) -> Iterator[str]:
    environment = ledger.environment
    if environment.load is not None and environment.load > environment.cores / 2:
        yield (
            f"the load was {environment.load:.1f} on {environment.cores} cores before the start "
            f"(now {system_load() or 0:.1f}): end other programs, and compare ratios rather than times"
        )


def _drift_warning(ledger: BenchResults) -> Iterator[str]:
    for cell in ledger.timed(ledger.question.reference.name):
        moved = drift(cell.seconds)
        if abs(moved) > NOISY:
            faster = "slower" if moved > 0 else "faster"
            yield (
                f"at {cell.seq_len} the machine became {abs(moved):.0%} {faster} from the first to the last third "
                "of the rounds: ratios hold, since they are taken within a round; times do not"
            )


def _spread(cell: Cell) -> float:
    return cell.iqr / cell.median if cell.iqr is not None and cell.median else 0.0


def _waited(cells: list[Cell]) -> float:
    wall = sum(reading.wall for cell in cells for reading in cell.readings)
    cpu = sum(reading.cpu for cell in cells for reading in cell.readings)
    return max(0.0, 1 - cpu / wall) if wall > 0 else 0.0
