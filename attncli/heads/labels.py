"""From sums to what is said of a head: each metric's mean, its null, and the names that a head has earned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from attncli.heads.corpus_sums import EXCLUDED, CorpusSums, LayerSums
from attncli.heads.metrics_of_block import attribute
from attncli.heads.scores import STANDARD_ERRORS, Head, Number, Thresholds, role_metrics
from attncli.heads.similarity import HeadOverlap, nearest


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
