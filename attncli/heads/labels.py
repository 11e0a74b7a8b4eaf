"""From sums to what is said of a head: each metric's mean, its null, and the names that a head has earned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from attncli import registry
from attncli.errors import UsageError, did_you_mean
from attncli.heads.corpus_sums import EXCLUDED, CorpusSums, LayerSums
from attncli.heads.metrics_of_block import attribute
from attncli.heads.scores import STANDARD_ERRORS, THRESHOLD, Head, Number, role_metrics
from attncli.heads.similarity import HeadOverlap, nearest


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


def heads_of(tallies: CorpusSums, overlap: HeadOverlap | None, thresholds: Thresholds) -> list[Head]:
    """Return everything of every head, by layer and head."""
    found = [
        _head(tallies, by_layer, place, thresholds)
        for _, by_layer in sorted(tallies.by_layer.items())
        for place in range(len(by_layer.heads))
    ]
    overlaps = None if overlap is None else overlap.overlaps()
    if overlap is None or overlaps is None or len(overlaps) < 2:
        return found
    like = {head: (overlap.found[other], share)
            for head, (other, share) in zip(overlap.found, nearest(overlaps), strict=True)}  # fmt: skip
    return [_with_nearest(head, *like[head.layer, head.head], int(overlap.rows)) for head in found]


def _with_nearest(head: Head, other: tuple[int, int], share: float, rows: int) -> Head:
    number = Number(share, math.nan, math.nan, math.nan, math.nan, rows)
    return replace(head, numbers={**head.numbers, "similarity": number}, nearest=other)


def _head(tallies: CorpusSums, sums: LayerSums, place: int, thresholds: Thresholds) -> Head:
    means, errors, rows = sums.found.means, sums.found.standard_errors, sums.found.rows
    chance, shuffled = sums.chance.means, sums.shuffled.means
    numbers = {}
    for metric, name in enumerate(tallies.measures.names):
        if rows[metric, place] == 0:
            continue
        even, other = float(chance[metric, place]), float(shuffled[metric, place])
        numbers[name] = Number(
            float(means[metric, place]),
            float(errors[metric, place]),
            null_of(name, even, other),
            even,
            other,
            int(rows[metric, place]),
        )
    head = sums.heads[place]
    excluded = float(means[-1, place]) if tallies.names[-1] == EXCLUDED else None
    labels = _labels(numbers, thresholds)
    layer = sums.layer
    return Head(layer.kind, layer.index, head, layer.kv_head(head), numbers, labels, None, excluded)


def null_of(name: str, chance: float, shuffled: float) -> float:
    """Return what a metric is held against: see `attncli.heads.metrics`.

    >>> null_of("previous_token", 0.04, 0.05), null_of("entropy", 4.0, 2.5), null_of("delimiter", 0.08, math.nan)
    (0.05, 2.5, 0.08)
    """
    null = attribute(name, "null")
    if null == "shuffled":
        return shuffled
    if null == "chance" or math.isnan(shuffled):
        return chance
    return max(chance, shuffled)


def _labels(numbers: Mapping[str, Number], thresholds: Thresholds) -> tuple[str, ...]:
    earned = []
    for name in role_metrics(numbers):
        number = numbers[name]
        sure = math.isnan(number.stderr) or number.excess > STANDARD_ERRORS * number.stderr
        if number.excess > thresholds.of(name) and sure:
            earned.append((number.excess, str(attribute(name, "label"))))
    return tuple(label for _, label in sorted(earned, key=lambda pair: -pair[0]))
