"""Patterns as a few runs of keys for each row, so that they are counted and drawn without a matrix of all pairs.

A mask of n positions has n² entries, but every pattern in the field is made of few regular parts: a window is one run
of neighbouring keys, global columns are another, a strided column is a run with a step. In this form 65,536 positions
take a few megabytes. The numbers are numpy's: `attncli.attention.patterns.path_length` needs unsigned words, which
torch lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Segments:
    """One part of a pattern: for each row the keys ``start, start + step, …`` below ``stop``.

    Args:
        starts: First key of each row's part.
        stops: Where it ends, itself not included; a row whose stop is not above its start has no key here.
        step: From key to key.
        width: Each of these keys stands for so many, itself and those right after it; at most the step.
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    step: int = 1
    width: int = 1

    @property
    def counts(self) -> NDArray[np.int64]:
        """Steps that each row takes; times `width`, the keys that it has here."""
        return _steps(self.starts, self.stops, self.step)


def _steps(starts: NDArray[np.int64], stops: NDArray[np.int64], step: int) -> NDArray[np.int64]:
    steps: NDArray[np.int64] = -((starts - stops) // step)
    return np.maximum(steps, 0)


Layer = tuple[Segments, ...]
Ends = int | Sequence[int] | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reach:
    """Which keys each row of a pattern reads, in parts that do not overlap.

    Args:
        segments: The parts; a row's keys are the union of its keys in each.
        causal: Whether no row may ever see a later position.
        layers: The parts in each layer from the first, where layers differ; `segments` are then one layer's, to show.
        notes: Facts that a reader of the pattern must know, one line each.
    """

    query_len: int
    key_len: int
    segments: Layer
    causal: bool
    layers: tuple[Layer, ...] = ()
    notes: tuple[str, ...] = ()


def segments(rows: int, starts: Ends, stops: Ends, *, step: int = 1, width: int = 1) -> Segments:
    """Make a part from numbers for each row, or one number for all of them.

    >>> segments(3, 0, [1, 2, 3]).counts
    array([1, 2, 3])
    """
    first, last = (
        np.broadcast_to(np.asarray(ends, dtype=np.int64), (rows,)).copy() for ends in (starts, stops)
    )
    return Segments(first, last, step, width)


def own_positions(query_len: int, key_len: int) -> NDArray[np.int64]:
    """Return the position of each row among the keys: the last row belongs to the last key.

    >>> own_positions(2, 5)
    array([3, 4])
    """
    return np.arange(key_len - query_len, key_len, dtype=np.int64)


def full_reach(query_len: int, key_len: int, *, causal: bool = False, notes: tuple[str, ...] = ()) -> Reach:
    """Describe a pattern of all pairs, or of all pairs that are not in the future."""
    stops = own_positions(query_len, key_len) + 1 if causal else key_len
    return Reach(query_len, key_len, (segments(query_len, 0, stops),), causal, notes=notes)


def reach_of_mask(mask: NDArray[np.bool_], *, causal: bool = False) -> Reach:
    """Describe any mask: its parts are each row's first run of neighbouring keys, its second, and so on.

    >>> [part.counts.tolist() for part in reach_of_mask(np.array([[True, False, True], [True, True, True]])).segments]
    [[1, 3], [1, 0]]
    """
    rows, keys = mask.shape
    edges = np.diff(mask.astype(np.int8), axis=1, prepend=0, append=0)
    (row, starts), (_, stops) = np.nonzero(edges == 1), np.nonzero(edges == -1)
    number = np.arange(len(row)) - np.searchsorted(row, row)  # a run's place among those of its row
    parts = []
    for turn in range(int(number.max(initial=-1)) + 1):
        part, mine = segments(rows, 0, 0), number == turn
        part.starts[row[mine]], part.stops[row[mine]] = starts[mine], stops[mine]
        parts.append(part)
    return Reach(rows, keys, tuple(parts), causal)


def reach_of(module: ModuleType, query_len: int, key_len: int, **settings: Any) -> Reach:
    """Describe the pattern of a mask's or a variant's module: by its ``reach``, or else by what it does not say.

    A variant without a ``reach`` computes all pairs, or all that are not in the future; for a mask without one the
    matrix of all pairs is made.

    Raises:
        ValueError: The lengths or settings do not fit.
    """
    causal = bool(settings.get("causal", False))
    if hasattr(module, "reach"):
        described = module.reach(query_len, key_len, **settings)
        assert isinstance(described, Reach)
        return described
    if hasattr(module, "attend"):
        return full_reach(query_len, key_len, causal=causal)
    return reach_of_mask(module.mask(query_len, key_len, **settings).numpy(), causal=causal)


def keys_per_row(reach: Reach) -> NDArray[np.int64]:
    """Count the keys that each row reads.

    >>> keys_per_row(full_reach(2, 4, causal=True))
    array([3, 4])
    """
    counts = np.zeros(reach.query_len, np.int64)
    for part in reach.segments:
        counts += part.counts * part.width
    return counts


def pooled(reach: Reach, rows: Sequence[int], columns: Sequence[int]) -> NDArray[np.bool_]:
    """Draw a pattern in cells: a cell is True where any pair that it covers is allowed.

    Args:
        rows: The first row of each cell, rising from 0.
        columns: The first key of each cell, rising from 0. With cells of one row and one key it is the mask itself.

    >>> pooled(full_reach(4, 4, causal=True), [0, 2], [0, 2]).astype(int)
    array([[1, 0],
           [1, 1]])
    """
    row_of = _cells(rows, reach.query_len)
    column_of = _cells(columns, reach.key_len)
    narrowest = int(np.diff([*columns, reach.key_len]).min()) if len(columns) else 1
    shape = (len(rows), len(columns) + 1)
    edges = np.zeros(shape[0] * shape[1], np.int64)  # where runs of True begin (+1) and end (−1)
    for part in reach.segments:
        for row, first, last in _stretches(part, narrowest):
            line = row_of[row] * shape[1]
            edges += np.bincount(line + column_of[first], minlength=edges.size)
            edges -= np.bincount(line + column_of[last] + 1, minlength=edges.size)
    return edges.reshape(shape)[:, :-1].cumsum(axis=1) > 0


def _cells(cuts: Sequence[int], length: int) -> NDArray[np.int64]:
    """Return the cell that each position falls into."""
    return np.searchsorted(np.asarray(cuts, np.int64), np.arange(length), side="right") - 1


def _stretches(
    part: Segments, narrowest: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Return rows with the first and last key of stretches in which no cell is left out.

    A step that no cell is narrower than touches every cell on its way; longer ones are gone through one by one.
    """
    counts = part.counts
    row = np.flatnonzero(counts)
    if part.step <= narrowest:
        last = part.starts[row] + (counts[row] - 1) * part.step + part.width - 1
        return [(row, part.starts[row], last)]
    found = []
    for turn in range(int(counts.max(initial=0))):
        row = np.flatnonzero(counts > turn)
        first = part.starts[row] + turn * part.step
        found.append((row, first, first + part.width - 1))
    return found
