"""From two sides to the distance of each head, for one text or summed over many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from attncli.diff.alignment import Alignment, align, by_position
from attncli.diff.distance import Distance, distance
from attncli.diff.sides import Head, Seen
from attncli.errors import UsageError


@dataclass(frozen=True)
class Pairing:
    """Which rows, keys and heads of two sides belong together.

    Args:
        heads: For each head of the first side, those of the second that may be its counterpart.
    """

    rows: Alignment
    keys: Alignment
    heads: Mapping[Head, tuple[Head, ...]]


@dataclass(frozen=True, slots=True)
class HeadDistance:
    """One head of the first side and its counterpart.

    Args:
        other: Layer and head on the second side.
        distance: Of one text.
    """

    head: Head
    other: Head
    distance: Distance


def pairing(first: Seen, second: Seen, *, by_depth: bool = False) -> Pairing:
    """Find what belongs together.

    Args:
        by_depth: Whether layers go together by their relative depth, and a head with any of those of that layer.

    Raises:
        UsageError: The sides have nothing in common, or differ in what has to be asked for.
    """
    if first.kind != second.kind:
        raise UsageError(
            f"{first.kind} attention cannot be compared with {second.kind} attention", "use --kind"
        )
    rows, keys = align(first.queries, second.queries), align(first.keys, second.keys)
    if all(rows.replaced) or all(keys.replaced):
        raise UsageError("the two sides have no token in common", "for two tokenizers, try --words")
    if by_depth:
        return Pairing(rows, keys, _by_depth(first, second))
    if first.depth != second.depth or first.maps.keys() != second.maps.keys():
        what = f"{first.depth} layers and {second.depth}" if first.depth != second.depth else "other heads"
        raise UsageError(f"the two sides have {what}, so heads do not correspond", "--by-depth compares them")
    return Pairing(rows, keys, {head: (head,) for head in first.maps})


def _by_depth(first: Seen, second: Seen) -> dict[Head, tuple[Head, ...]]:
    """Match layers by relative depth: 0 is the first layer and 1 the last."""
    layers = sorted({layer for layer, _ in second.maps})
    deepest, their_deepest = max(first.depth - 1, 1), max(second.depth - 1, 1)
    found = {}
    for head in first.maps:
        depth = head[0] / deepest
        layer = min(layers, key=lambda one: (abs(one / their_deepest - depth), one))
        found[head] = tuple(other for other in second.maps if other[0] == layer)
    return found


def compare(first: Seen, second: Seen, pairs: Pairing) -> list[HeadDistance]:
    """Compare each head with its counterpart, of several with the closest."""
    found = []
    for head, others in pairs.heads.items():
        each = [
            HeadDistance(head, other, distance(first.maps[head], second.maps[other], pairs.rows, pairs.keys))
            for other in others
        ]
        found.append(min(each, key=lambda one: _or_infinite(one.distance.distance)))
    return found


def null_distances(first: Seen, second: Seen) -> dict[Head, float]:
    """Return the distance of each head from itself on another text, rows and keys aligned by their positions."""
    rows = by_position(len(first.queries), len(second.queries))
    keys = by_position(len(first.keys), len(second.keys))
    return {
        head: distance(matrix, second.maps[head], rows, keys).distance
        for head, matrix in first.maps.items()
        if head in second.maps
    }


@dataclass
class Sums:
    """Distances summed over texts."""

    by_head: dict[Head, list[Distance]] = field(default_factory=dict)
    nulls: dict[Head, list[float]] = field(default_factory=dict)
    texts: int = 0
    null_texts: int = 0

    def add(self, found: Iterable[HeadDistance]) -> None:
        """Add one text."""
        self.texts += 1
        for one in found:
            self.by_head.setdefault(one.head, []).append(one.distance)

    def add_null(self, found: Mapping[Head, float]) -> None:
        """Add one text held against another."""
        self.null_texts += 1
        for head, value in found.items():
            self.nulls.setdefault(head, []).append(value)


@dataclass(frozen=True, slots=True)
class Score:
    """A head's numbers, ready to be ranked.

    Args:
        stderr: Standard error of the distance over texts; NaN for one text.
        null: Distance of the head from itself on another text; NaN where it was not measured.
        row: The place of its most different row in the alignment; None over a corpus.
    """

    head: Head
    other: Head
    distance: float
    divergence: float
    max_abs: float
    rows: int
    stderr: float = math.nan
    null: float = math.nan
    row: int | None = None
    row_distance: float = math.nan

    def value(self, by: str) -> float:
        """Return the number that heads are ranked by."""
        return float(getattr(self, by))


def scores_of_text(found: Iterable[HeadDistance]) -> list[Score]:
    """Return the scores of one text."""
    return [
        Score(one.head, one.other, one.distance.distance, one.distance.divergence, one.distance.max_abs,
              one.distance.rows, row=one.distance.row, row_distance=one.distance.row_distance)
        for one in found
    ]  # fmt: skip


def scores_of_corpus(sums: Sums) -> list[Score]:
    """Return the scores of many texts: means over texts with their standard errors, and the largest difference."""
    scores = []
    for head, each in sums.by_head.items():
        values = np.array([one.distance for one in each])
        bits = np.array([one.divergence for one in each])
        good = np.isfinite(values)
        count = int(good.sum())
        stderr = float(values[good].std(ddof=1) / math.sqrt(count)) if count > 1 else math.nan
        nulls = [value for value in sums.nulls.get(head, ()) if math.isfinite(value)]
        scores.append(
            Score(
                head,
                head,
                float(values[good].mean()) if count else math.nan,
                float(bits[good].mean()) if count else math.nan,
                max(one.max_abs for one in each),
                sum(one.rows for one in each),
                stderr,
                float(np.mean(nulls)) if nulls else math.nan,
            )
        )
    return scores


def ranked(scores: Iterable[Score], by: str) -> list[Score]:
    """Sort scores, the largest first; those without a number come last."""

    def key(score: Score) -> tuple[bool, float, Head]:
        value = score.value(by)
        return math.isnan(value), 0.0 if math.isnan(value) else -value, score.head

    return sorted(scores, key=key)


def _or_infinite(value: float) -> float:
    return math.inf if math.isnan(value) else value
