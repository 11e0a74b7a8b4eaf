"""Path length: how many layers of a pattern it takes until every position has news of every other.

In one layer a row reads its keys, and keeps itself (the residual connection); after two it knows what its keys had
read. The path length is the largest number of hops from any row to any position that causality lets it see. It is
measured by going breadth-first through the pattern's graph from 64 rows at once, a bit of a word for each. A hop is
taken in one of two ways: edge by edge while few positions are new, and by halving runs into powers of two while many
are (each run is covered by two, which overlap: for a set that does no harm).

Reference:
    Vaswani et al. 2017, §4 and Table 1 (maximum path length), arXiv 1706.03762. From many sources at once: Then et al.
    2014, The More the Merrier, VLDB 8(4). Two ways to take a hop: Beamer et al. 2012, Direction-Optimizing BFS, SC12.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from attncli.attention.patterns.key_runs import Layer, Reach, Segments

EXACT_UP_TO = 2048
"""Sequences up to this length are measured from every row."""

SAMPLE = 64
"""Rows that longer ones are measured from."""

MOST_WORK = 1_000_000_000
"""A search gives up after so many edges and positions, some ten seconds; a million positions may need hours."""

_LEAST_WORK = 5_000
"""What a hop costs that finds next to nothing, in edges."""


class PathTooLong(Exception):
    """A path takes too many hops to be measured."""


Words = NDArray[np.uint64]  # (words, length): bit b of word w stands for source 64·w + b

_WORD = 64


def path_rows(length: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Choose the rows to measure from: all of them, or both ends, the middle and a seeded sample of the others."""
    if length <= EXACT_UP_TO:
        return np.arange(length)
    fixed = [0, length // 2, length - 1]
    order = torch.randperm(length, generator=torch.Generator().manual_seed(seed)).tolist()
    others = [row for row in order[: SAMPLE + len(fixed)] if row not in fixed]
    return np.sort(np.array(fixed + others[: SAMPLE - len(fixed)], np.int64))


def path_length(reach: Reach, rows: Sequence[int] | NDArray[np.int64] | None = None) -> int | None:
    """Count the layers until the given rows have reached every position that causality lets them see.

    Args:
        rows: Where to start; every row where None, which takes n/64 words for each position.

    Returns:
        The number of layers; None where some position is never reached.

    Raises:
        ValueError: There are not as many keys as rows, so that rows and keys are not the same positions.
        PathTooLong: It takes more work than `MOST_WORK`.

    >>> from attncli.attention.patterns.key_runs import own_positions, segments
    >>> before = own_positions(5, 5)
    >>> path_length(Reach(5, 5, (segments(5, np.maximum(before - 1, 0), before + 1),), causal=True))
    4
    """
    if reach.query_len != reach.key_len:
        raise ValueError(f"a path needs as many keys as rows, got {reach.key_len} for {reach.query_len}")
    sources = np.arange(reach.query_len) if rows is None else np.asarray(rows, np.int64)
    if reach.layers:
        return _through_layers(reach, sources)
    reached, hops = _search(_Spread.of(reach.segments, reach.key_len), _start(sources, reach.key_len))
    return hops if _complete(reached, sources, reach.causal) else None


def _start(sources: NDArray[np.int64], length: int) -> Words:
    """Return each source its bit, at its own position."""
    words = np.zeros((-(-len(sources) // _WORD), length), np.uint64)
    number = np.arange(len(sources))
    words[number // _WORD, sources] |= np.uint64(1) << (number % _WORD).astype(np.uint64)
    return words


def _complete(reached: Words, sources: NDArray[np.int64], causal: bool) -> bool:
    """Return whether each source's bit stands at every position that it may see."""
    for number, row in enumerate(sources.tolist()):
        bit = np.uint64(1 << (number % _WORD))
        if not (reached[number // _WORD, : row + 1 if causal else None] & bit).all():
            return False
    return True


def _through_layers(reach: Reach, sources: NDArray[np.int64]) -> int | None:
    """Try one layer, two, three: the last layer of a stack is the first that a row looks through."""
    start = _start(sources, reach.key_len)
    spreads = [_Spread.of(layer, reach.key_len) for layer in reach.layers]
    for depth in range(len(spreads) + 1):
        reached = start
        for spread in reversed(spreads[:depth]):
            reached = reached | spread.pushed(reached)
        if _complete(reached, sources, reach.causal):
            return depth
    return None


def _search(spread: _Spread, reached: Words) -> tuple[Words, int]:
    """Hop until nothing new is reached; give what is, and the number of hops that found something."""
    flat = reached.reshape(-1)
    places = np.flatnonzero(flat)
    bits = flat[places]
    hops, work = -1, 0
    while places.size:
        hops += 1
        work += max(min(spread.edges(places), flat.size), _LEAST_WORK)
        if work > MOST_WORK:
            raise PathTooLong(f"more than {hops:,} layers")
        # Measured: an edge taken alone costs about as much as a position in a pass over all of them.
        if spread.edges(places) < flat.size:
            places, bits = spread.followed(places, bits, flat)
            flat[places] |= bits
            continue
        new = np.zeros_like(reached)
        new.reshape(-1)[places] = bits
        found = spread.pushed(new).reshape(-1) & ~flat
        places = np.flatnonzero(found)
        bits = found[places]
        flat |= found
    return reached, max(hops, 0)


@dataclass(frozen=True, slots=True)
class _Spread:
    """A layer's pattern, made ready to carry bits from rows to their keys.

    Args:
        parts: The pattern, without parts that no row has.
        degree: Edges of each row.
        tables: The parts by step and width.
    """

    length: int
    parts: Layer
    degree: NDArray[np.int64]
    tables: tuple[_Table, ...]

    @staticmethod
    def of(layer: Layer, length: int) -> _Spread:
        parts = tuple(part for part in layer if part.counts.any())
        degree = sum((part.counts * part.width for part in parts), np.zeros(length, np.int64))
        by_form: dict[tuple[int, int], list[Segments]] = defaultdict(list)
        for part in parts:
            by_form[part.step, part.width].append(part)
        return _Spread(length, parts, degree, tuple(_Table.of(same) for same in by_form.values()))

    def edges(self, places: NDArray[np.int64]) -> int:
        """Count the edges that leave these places of the flat words."""
        return int(self.degree[places % self.length].sum())

    def pushed(self, words: Words) -> Words:
        """Carry every row's bits to all of its keys, in passes over all positions."""
        found = np.zeros_like(words)
        for table in self.tables:
            found |= table.pushed(words)
        return found

    def followed(
        self, places: NDArray[np.int64], bits: NDArray[np.uint64], reached: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Carry bits edge by edge; give the places that get a bit they lack, each once, and those bits."""
        rows = places % self.length
        ends = [_edges(part, rows) for part in self.parts]
        if not ends:
            return places[:0], bits[:0]
        source = np.concatenate([source for source, _ in ends])
        target = np.concatenate([key for _, key in ends]) + (places - rows)[source]
        new = bits[source] & ~reached[target]
        lacking = np.flatnonzero(new)
        return _merged(target[lacking], new[lacking])


def _edges(part: Segments, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List the keys of some rows: the index of the row in `rows`, and the key."""
    first = part.starts[rows]
    counts = np.maximum(-((first - part.stops[rows]) // part.step), 0)
    source = np.repeat(np.arange(len(rows)), counts)
    turn = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
    key = first[source] + turn * part.step
    if part.width == 1:
        return source, key
    return np.repeat(source, part.width), (key[:, None] + np.arange(part.width)).reshape(-1)


def _merged(
    target: NDArray[np.int64], bits: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Join the bits that go to the same place."""
    if target.size < 2:
        return target, bits
    order = np.argsort(target, kind="stable")
    target = target[order]
    first = np.flatnonzero(np.diff(target, prepend=-1))
    return target[first], np.bitwise_or.reduceat(bits[order], first)


@dataclass(frozen=True, slots=True)
class _Seeds:
    """Runs of one power of two: which rows put their bits where, sorted by place, each place once."""

    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    places: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Table:
    """Parts of the same step and width, their runs cut into powers of two.

    Args:
        levels: Level a holds the runs of 2^a steps.
    """

    step: int
    width: int
    levels: tuple[_Seeds, ...]

    @staticmethod
    def of(parts: Sequence[Segments]) -> _Table:
        step, width = parts[0].step, parts[0].width
        cut = [_covers(part) for part in parts]
        row, place, level = (np.concatenate([one[axis] for one in cut]) for axis in range(3))
        levels = []
        for power in range(int(level.max()) + 1):
            mine = np.flatnonzero(level == power)
            mine = mine[np.argsort(place[mine], kind="stable")]
            first = np.flatnonzero(np.diff(place[mine], prepend=-1))
            levels.append(_Seeds(row[mine], first, place[mine][first]))
        return _Table(step, width, tuple(levels))

    def pushed(self, words: Words) -> Words:
        """Put each row's bits on its runs, and halve the runs until they are single steps."""
        carried = np.zeros_like(words)
        for power in range(len(self.levels) - 1, -1, -1):
            if power < len(self.levels) - 1:
                carried = _with_shifted(carried, self.step << power)
            seeds = self.levels[power]
            if seeds.places.size:
                carried[:, seeds.places] |= np.bitwise_or.reduceat(words[:, seeds.rows], seeds.first, axis=1)
        covered = 1
        while covered < self.width:
            further = min(covered, self.width - covered)
            carried = _with_shifted(carried, further)
            covered += further
        return carried


def _with_shifted(words: Words, by: int) -> Words:
    """Join each position's bits with those of the position so far before it."""
    joined = words.copy()
    joined[:, by:] |= words[:, :-by]
    return joined


def _covers(part: Segments) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Cover each row's run by two runs of a power of two steps; give rows, first keys and powers."""
    counts = part.counts
    row = np.flatnonzero(counts)
    count, start = counts[row], part.starts[row]
    power = np.frexp(count.astype(np.float64))[1].astype(np.int64) - 1
    second = start + (count - (1 << power)) * part.step
    return np.tile(row, 2), np.concatenate((start, second)), np.tile(power, 2)
