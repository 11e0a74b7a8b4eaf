"""From heads in ranked order to a ranking's tables, map and rows. Without torch, so that a saved one is drawn again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attncli import registry
from attncli.heads.changes import Change, changes_table
from attncli.heads.scores import CHANGES, ROLE, Head, Number
from attncli.record import Kind
from attncli.view import Column, Header, HeadMap, HeadRanking, Table

ALIKE = 0.9
"""Heads overlap at least so much with each other in a cluster."""

_SHOWN, _ALL_SHOWN = 10, 12
_GROUPS = 8


@dataclass(frozen=True)
class Measured:
    """What was measured, of which a ranking may give a part.

    Args:
        layers: True layer indices.
        metrics: Their names, in the order that they have in data.
        count: How many heads that were: fewer than layers times heads where layers differ.
    """

    kind: Kind
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    metrics: tuple[str, ...]
    count: int

    @classmethod
    def of(cls, kind: Kind, heads: Sequence[Head]) -> Measured:
        """Collect what heads have."""
        return cls(
            kind,
            tuple(sorted({head.layer for head in heads})),
            tuple(sorted({head.head for head in heads})),
            tuple(dict.fromkeys(name for head in heads for name in head.numbers)),
            len(heads),
        )


@dataclass(frozen=True)
class Ranked:
    """Heads in the order of a number, and what else was found of them.

    Args:
        by: A metric, or ``role``.
        top: How many were asked for; None for all, of which people see the first few.
        groups: Layer and head of those that do the same.
        changes: Against an older run, and its name.
        shows_groups: Whether people see the groups.
    """

    by: str
    top: int | None
    heads: Sequence[Head]
    measured: Measured
    groups: Sequence[Sequence[tuple[int, int]]] = ()
    changes: tuple[str, Sequence[Change]] | None = None
    shows_groups: bool = False


def ranking_of(ranked: Ranked, header: Header, document: Mapping[str, object]) -> HeadRanking:
    """Make the view of a ranking.

    Args:
        document: The JSON document's keys, besides those that all documents have.
    """
    plain = Header(command="heads", title="", provenance=header.provenance)
    tables = tuple(_tables(ranked, plain))
    return HeadRanking(
        header, metric_column(ranked.by), (_map(ranked),), tables, _data(ranked, plain), document
    )


def metric_column(name: str) -> Column:
    """Name a metric for people."""
    if name == ROLE:
        return Column(ROLE, "strongest role above its baseline", "weight")
    if name in CHANGES:
        return Column(name, CHANGES[name])
    unit = str(registry.entries("metrics")[name].attributes["unit"])
    return Column(name, None, "" if unit == "share" else unit)


def _map(ranked: Ranked) -> HeadMap:
    layers, heads = ranked.measured.layers, ranked.measured.heads
    values = np.full((len(layers), len(heads)), np.nan, dtype=np.float32)
    for head in ranked.heads:
        values[layers.index(head.layer), heads.index(head.head)] = head.value(ranked.by)
    return HeadMap(ranked.measured.kind, layers, heads, values, _what_gaps_mean(ranked))


def _what_gaps_mean(ranked: Ranked) -> str:
    undefined = any(math.isnan(head.value(ranked.by)) for head in ranked.heads)
    if len(ranked.heads) == ranked.measured.count:
        return "no number"
    return "not among those shown, or without a number" if undefined else "not among those shown"


def head_name(layer: int, head: int) -> str:
    """Name a head in a few cells.

    >>> head_name(4, 7)
    'L4H7'
    """
    return f"L{layer}H{head}"


def _tables(ranked: Ranked, plain: Header) -> list[Table]:
    tables = [_ranking_table(ranked, plain)]
    if ranked.changes is not None:
        tables.append(changes_table(*ranked.changes, plain))
    if ranked.groups and ranked.shows_groups:
        title = f"heads that do the same: each two overlap by at least {ALIKE:g}"
        if len(ranked.groups) > _GROUPS:
            title += f"; the {_GROUPS} largest of {len(ranked.groups)} groups"
        header = Header(command="heads", title=title, provenance=plain.provenance)
        rows = tuple(
            (len(group), ", ".join(head_name(*head) for head in group)) for group in ranked.groups[:_GROUPS]
        )
        tables.append(Table(header, (Column("heads"), Column("which")), rows))
    return tables


def _ranking_table(ranked: Ranked, plain: Header) -> Table:
    few = ranked.top is not None or len(ranked.heads) <= _ALL_SHOWN
    shown = ranked.heads if few else ranked.heads[:_SHOWN]
    by = ranked.by
    beside = _beside(by, shown)
    columns = (
        Column("head"),
        *([Column("role")] if by == ROLE else []),
        Column("mean", "weight" if by == ROLE else by.replace("_", " ")),
        Column("stderr", "±"),
        Column("null", "baseline"),
        *(Column(name, digits=2) for name in beside),
        *([Column("like")] if by == "similarity" else []),
        Column("labels", "named"),
    )
    rows = tuple(_row(head, by, beside) for head in shown)
    header = Header(
        command="heads", title=_about_columns(ranked.heads, shown, beside), provenance=plain.provenance
    )
    return Table(header, columns, rows, "heads")


def _about_columns(ranked: Sequence[Head], shown: Sequence[Head], beside: Sequence[str]) -> str:
    """Return what the table's columns hold, and how many heads it leaves out."""
    parts = [f"{name} in {metric_column(name).unit}" for name in beside]
    if any(not math.isnan(number.stderr) for head in shown[:1] for number in head.numbers.values()):
        parts.insert(0, "± standard error over texts")
    if len(ranked) > len(shown):
        parts.insert(0, f"the first {len(shown)} of {len(ranked)} (--top)")
    return " · ".join(parts)


def _beside(by: str, heads: Sequence[Head]) -> list[str]:
    """Choose what else to show of each head, as far as 80 columns go."""
    names = ["entropy"] if by == ROLE else ["entropy", "distance"]
    return [name for name in names if name != by and any(name in head.numbers for head in heads)]


def _row(head: Head, by: str, beside: Sequence[str]) -> tuple[object, ...]:
    role = head.role[0]
    return (
        head_name(head.layer, head.head),
        *([role.replace("_", " ")] if by == ROLE else []),
        *_three(head.numbers.get(role if by == ROLE else by)),
        *(finite(head.value(name)) for name in beside),
        *([head_name(*head.nearest) if head.nearest else None] if by == "similarity" else []),
        ", ".join(head.labels),
    )


def _three(number: Number | None) -> tuple[float | None, float | None, float | None]:
    if number is None:
        return None, None, None
    return finite(number.mean), finite(number.stderr), finite(number.null)


def _changed(change: Change | None) -> tuple[object, ...]:
    if change is None:
        return (None,) * 5
    numbers = change.before, change.difference, finite(change.z)
    return change.metric, *numbers, list(change.labels_before)


def finite(value: float) -> float | None:
    """Return None for an undefined number."""
    return None if math.isnan(value) else value


def _data(ranked: Ranked, plain: Header) -> Table:
    """Return one row for each head: its labels, each metric's mean, standard error and null, and what has changed."""
    columns = [Column("kind"), Column("layer"), Column("head"), Column("labels"), Column(ROLE)]
    for name in ranked.measured.metrics:
        columns += [Column(name), Column(f"{name}_stderr"), Column(f"{name}_null")]
    changes = None
    if ranked.changes is not None:
        columns += map(Column, ("changed_metric", "before", "difference", "z", "labels_before"))
        changes = {(change.layer, change.head): change for change in ranked.changes[1]}
    rows = []
    for head in ranked.heads:
        row: list[object] = [head.kind, head.layer, head.head, list(head.labels), finite(head.role[1])]
        for name in ranked.measured.metrics:
            row += _three(head.numbers.get(name))
        if changes is not None:
            row += _changed(changes.get((head.layer, head.head)))
        rows.append(tuple(row))
    return Table(plain, tuple(columns), tuple(rows), "heads")
