"""What a benchmark finds: one cell for each contender and length, and the ledger that collects them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from attncli.bench.clock import Clock, Reading
from attncli.bench.cost import Costs
from attncli.bench.entrants import Contender
from attncli.bench.environment import Environment
from attncli.bench.inputs import Workload
from attncli.bench.statistics import Interval, interquartile_range, median

Status = Literal["ok", "too large", "too slow", "wrong", "unsupported", "failed"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One contender at one length.

    Args:
        readings: In the order of the rounds; none where it was not timed.
        ratio: Median of its times divided by the reference's of the same rounds.
        ratio_interval: 95 %, by resampling rounds.
        noise: Whether the ratio cannot be told from 1.
        peak_bytes: Largest memory allocated during a call, output included, inputs not.
        predicted_bytes: What was predicted, inputs included.
        flops: Operations of a call.
        reason: Why it was not timed.
    """

    variant: str
    seq_len: int
    status: Status = "ok"
    clock: Clock = "wall"
    readings: tuple[Reading, ...] = ()
    ratio: float | None = None
    ratio_interval: Interval | None = None
    noise: bool = False
    peak_bytes: int | None = None
    predicted_bytes: int | None = None
    flops: int | None = None
    max_abs_error: float | None = None
    reason: str = ""

    @property
    def seconds(self) -> list[float]:
        """The times by the clock that is compared by."""
        return [reading.on(self.clock) for reading in self.readings]

    @property
    def median(self) -> float | None:
        """The typical time in seconds."""
        return median(self.seconds) if self.readings else None

    @property
    def iqr(self) -> float | None:
        """The spread of the middle half, in seconds."""
        return interquartile_range(self.seconds) if self.readings else None

    @property
    def flops_per_second(self) -> float | None:
        """What it achieved."""
        return self.flops / self.median if self.flops and self.median else None


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """What is to be measured.

    Args:
        contenders: The reference first.
        precision: Share by which a median may be uncertain.
        max_time: Seconds of rounds at one length.
        budget: Seconds for everything after the start.
    """

    workload: Workload
    lengths: tuple[int, ...]
    contenders: tuple[Contender, ...]
    clock: Clock
    precision: float = 0.03
    max_time: float = 15.0
    budget: float = 120.0

    @property
    def reference(self) -> Contender:
        """The variant that the others are compared with."""
        return self.contenders[0]


@dataclass(slots=True)
class BenchResults:
    """What was found so far; it can be read at any time, after an interruption too.

    Args:
        noise_floors: By length, how far apart the reference was measured from itself, as a share.
        controls: By length, the interval of that ratio.
        overheads: By contender, the seconds that next to nothing takes.
        costs: By contender, what it costs at the two longest lengths that were measured.
        timed_seconds: Spent inside of readings, by the wall's clock.
        elapsed_seconds: Spent altogether.
    """

    question: BenchRequest
    environment: Environment
    cells: list[Cell] = field(default_factory=list)
    noise_floors: dict[int, float] = field(default_factory=dict)
    controls: dict[int, Interval | None] = field(default_factory=dict)
    overheads: dict[str, float] = field(default_factory=dict)
    costs: dict[str, Costs] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    about: dict[str, str] = field(default_factory=dict)
    timed_seconds: float = 0.0
    elapsed_seconds: float = 0.0
    complete: bool = False

    def timed(self, variant: str) -> list[Cell]:
        """Return a contender's cells that have times, by rising length."""
        return [cell for cell in self.cells if cell.variant == variant and cell.readings]

    def cell(self, variant: str, seq_len: int) -> Cell | None:
        """Return one cell, if it has times."""
        return next((cell for cell in self.timed(variant) if cell.seq_len == seq_len), None)
