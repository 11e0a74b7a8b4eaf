"""What is known of one head: its numbers, each beside its null, and its names. Without torch, for saved ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attncli import registry
from attncli.errors import UsageError, did_you_mean
from attncli.record import Kind

THRESHOLD = 0.4
"""How far above its null a head's weight must be to give it a name."""

STANDARD_ERRORS = 3.0
"""And by how many standard errors."""

ROLE = "role"
"""The number that heads are ranked by where nothing else is asked: how far the strongest role is above its null."""

CHANGES = {
    "change": "change since the older run",
    "z": "change in standard errors",
    "p": "chance of so large a change, corrected for the number of heads (Holm)",
}
"""Numbers that heads have besides their metrics where an older run is compared."""


@dataclass(frozen=True, slots=True)
class Number:
    """One metric of one head.

    Args:
        mean: Over all rows where it is defined; NaN where it is defined nowhere.
        stderr: Standard error over texts; NaN with fewer than two.
        null: What it is held against; NaN where there is nothing.
        chance: What rows that spread their weight evenly have.
        shuffled: What other tokens in the same places have; NaN where they were not run, or are no null.
        rows: In how many rows it is defined, or in how many texts.
    """

    mean: float
    stderr: float
    null: float
    chance: float
    shuffled: float
    rows: int

    @property
    def excess(self) -> float:
        """How far it is above its null."""
        return self.mean - self.null


@dataclass(frozen=True, slots=True)
class Head:
    """What is said of one head.

    Args:
        labels: The names it has earned, the strongest role first.
        nearest: Layer and head of the head that is most like it.
        excluded: Share of its weight that was left out with the special tokens; None where none were.
    """

    kind: Kind
    layer: int
    head: int
    kv_head: int
    numbers: Mapping[str, Number]
    labels: tuple[str, ...] = ()
    nearest: tuple[int, int] | None = None
    excluded: float | None = None

    @property
    def role(self) -> tuple[str, float]:
        """The metric that is furthest above its null, of those that give names, and by how much."""
        found = [(name, self.numbers[name].excess) for name in role_metrics(self.numbers)]
        known = [(name, excess) for name, excess in found if not math.isnan(excess)]
        return max(known, key=lambda pair: pair[1], default=("", math.nan))

    def value(self, name: str) -> float:
        """Return the number that a metric, or ``role``, has here; NaN where it has none."""
        if name == ROLE:
            return self.role[1]
        return self.numbers[name].mean if name in self.numbers else math.nan


def role_metrics(names: Mapping[str, object]) -> list[str]:
    """Name the metrics that give heads names."""
    metrics = registry.entries("metrics")
    return [name for name in names if name in metrics and metrics[name].attributes.get("label")]


@dataclass(frozen=True)
class Thresholds:
    """How far above its null each metric must be to give a head a name."""

    by_metric: Mapping[str, float] = field(default_factory=dict)

    def of(self, name: str) -> float:
        """Return the threshold of a metric."""
        return self.by_metric.get(name, THRESHOLD)

    def changed(self) -> str:
        """Return which are not the usual one."""
        return ", ".join(f"{name} {value:g}" for name, value in self.by_metric.items())


def parse_thresholds(assignments: Sequence[str]) -> Thresholds:
    """Read ``previous_token=0.3``.

    Raises:
        UsageError: No such metric, one that gives no name, or no number from 0 to 1.
    """
    known = role_metrics(registry.entries("metrics"))
    found = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise UsageError(f"--threshold {assignment}: expected metric=number", f"such as {known[0]}=0.3")
        if name not in known:
            raise UsageError(
                f"--threshold {assignment}: no name hangs on {name!r}", did_you_mean(name, known)
            )
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value <= 1:
            raise UsageError(f"--threshold {assignment}: must be a number from 0 to 1")
        found[name] = value
    return Thresholds(found)
