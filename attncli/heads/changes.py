"""Which heads changed since an older run: by how much, held against the standard errors of both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from attncli.heads.scores import CHANGES, ROLE, Head, Number
from attncli.view import Column, Header, Table

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Old:
    """One head of an older run.

    Args:
        numbers: Mean and standard error of each metric; NaN where there is none.
    """

    numbers: Mapping[str, tuple[float, float]]
    labels: tuple[str, ...]


OldRun = Mapping[tuple[str, int, int], Old]
"""Heads by kind, layer and head."""


@dataclass(frozen=True, slots=True)
class Change:
    """One metric of one head, then and now.

    Args:
        z: The difference in standard errors of the difference; NaN where they are not known.
        labels_before: What the head was called then.
    """

    kind: str
    layer: int
    head: int
    metric: str
    before: float
    now: float
    z: float
    labels_before: tuple[str, ...]
    labels_now: tuple[str, ...]

    @property
    def difference(self) -> float:
        """How much larger it is now."""
        return self.now - self.before

    @property
    def renamed(self) -> bool:
        """Whether the head is called something else now."""
        return set(self.labels_before) != set(self.labels_now)


def changes_since(heads: Sequence[Head], old: OldRun, by: str) -> list[Change]:
    """Compare each head that both runs have, the largest change first.

    Args:
        by: The metric to compare; with ``role``, that of each head's strongest role now.
    """
    found = []
    for head in heads:
        before = old.get((head.kind, head.layer, head.head))
        if before is None:
            continue
        names = [head.role[0], *head.numbers] if by == ROLE else [by]
        changes = [
            _change(head, before, name) for name in names if name in head.numbers and name in before.numbers
        ]
        if by == ROLE:
            changes = changes[:1]
        found += changes
    return sorted(
        found, key=lambda change: (not change.renamed, -abs(change.difference), change.layer, change.head)
    )


def with_changes(heads: Sequence[Head], changes: Sequence[Change]) -> list[Head]:
    """Give each head the numbers of its change: how much, in standard errors, and how likely by chance.

    The last is two-sided under a normal distribution, corrected for the number of heads by Holm's step-down rule.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    found = {(change.kind, change.layer, change.head): change for change in changes}
    raw = {
        place: math.erfc(abs(change.z) / math.sqrt(2))
        for place, change in found.items()
        if not math.isnan(change.z)
    }
    corrected, least = {}, 0.0
    for rank, (place, chance) in enumerate(sorted(raw.items(), key=lambda item: item[1])):
        least = max(least, min(1.0, (len(raw) - rank) * chance))
        corrected[place] = least
    together = []
    for head in heads:
        place = (head.kind, head.layer, head.head)
        change = found.get(place)
        values = (math.nan,) * 3
        if change is not None:
            values = (change.difference, change.z, corrected.get(place, math.nan))
        numbers = dict(zip(CHANGES, map(_alone, values), strict=True))
        together.append(replace(head, numbers={**head.numbers, **numbers}))
    return together


def _alone(value: float) -> Number:
    return Number(value, math.nan, math.nan, math.nan, math.nan, 0)


def _change(head: Head, old: Old, name: str) -> Change:
    number, (mean, stderr) = head.numbers[name], old.numbers[name]
    spread = math.hypot(number.stderr, stderr)
    difference = number.mean - mean
    z = difference / spread if spread > 0 else (0.0 if difference == 0 else math.nan)
    return Change(head.kind, head.layer, head.head, name, mean, number.mean, z, old.labels, head.labels)


def changes_table(name: str, changes: Sequence[Change], plain: Header) -> Table:
    """Make the table of what changed since the run of a name."""
    renamed = sum(change.renamed for change in changes)
    changed = [change for change in changes if change.renamed or change.difference]
    title = f"against {name}: {renamed} of {len(changes)} heads are called something else"
    if len(changed) > _SHOWN:
        title += f"; the {_SHOWN} that changed most"
    elif not changed:
        title += ", and no number has changed"
    header = Header(command="heads", title=title, provenance=plain.provenance)
    columns = (
        Column("head"),
        Column("metric"),
        Column("before"),
        Column("now"),
        Column("difference"),
        Column("z", "in std. errors", digits=1),
        Column("labels", "named"),
    )
    rows = tuple(
        (
            f"L{change.layer}H{change.head}",
            change.metric.replace("_", " "),
            change.before,
            change.now,
            change.difference,
            None if math.isnan(change.z) else change.z,
            _renaming(change),
        )
        for change in changed[:_SHOWN]
    )
    return Table(header, columns, rows)


def _renaming(change: Change) -> str:
    now, before = ", ".join(change.labels_now), ", ".join(change.labels_before)
    return f"{before or '–'} → {now or '–'}" if change.renamed else now


def change_entry(change: Change) -> dict[str, object]:
    """Return a change for the JSON document."""
    return {
        "kind": change.kind,
        "layer": change.layer,
        "head": change.head,
        "metric": change.metric,
        "before": change.before,
        "now": change.now,
        "difference": change.difference,
        "z": None if math.isnan(change.z) else change.z,
        "labels_before": list(change.labels_before),
        "labels": list(change.labels_now),
    }
