"""Which keys each row may attend to, as runs: what a mask comes to in little memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attncli.observers.block_parts import InLayers, heads_in
from attncli.observers.selection import Selection
from attncli.record import AttentionLayer, Kind, Request, WeightBlock

Spans = NDArray[np.int32]


@dataclass
class AllowedSpans(InLayers):
    """Keeps the runs of keys that each row may attend to: 8 bytes a run, and for most masks a row is one run.

    Args:
        kind: Which attention of the model.
        layers: Which layers.
        heads: Which heads.
        depth: How many layers the model has, to resolve ``-1``.
        query_len: Number of query rows.
        key_len: Number of keys.
        rows: The query rows wanted; None for all.
    """

    kind: Kind
    layers: Selection
    heads: Selection
    depth: int
    query_len: int
    key_len: int
    rows: range | None = None
    _kept: dict[tuple[int, int | None], list[Spans | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rows = range(self.query_len) if self.rows is None else self.rows

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for the chosen heads and rows."""
        if not self.wants(layer):
            return None
        return Request(self.heads.of(layer), self._rows)

    def update(self, block: WeightBlock) -> None:
        """Keep the runs of a block's rows; heads that share a mask share them."""
        if block.allowed is None or block.allowed.shape[1] == 1:
            self._keep(block, None, 0)
            return
        places = heads_in(block, self.heads.of(block.layer))[1]
        for place in range(len(block.heads))[places] if isinstance(places, slice) else places:
            self._keep(block, block.heads[place], place)

    def _keep(self, block: WeightBlock, head: int | None, place: int) -> None:
        rows = self._kept.setdefault((block.layer.index, head), [None] * len(self._rows))
        wanted = [row for row in block.rows if row in self._rows and rows[row - self._rows.start] is None]
        if not wanted:
            return
        first = block.rows.start
        if block.allowed is None:
            found = [np.array([[block.keys.start, block.keys.stop - 1]], np.int32)] * len(block.rows)
        else:
            mask = block.allowed[0, place].expand(len(block.rows), -1).numpy(force=True)
            found = runs_of_rows(mask, block.first_key)
        for row in wanted:
            rows[row - self._rows.start] = found[row - first]

    def spans(self, layer: int, head: int) -> Sequence[Spans] | None:
        """Return each row's runs ``(runs, 2)``, first and last key; None where every row may attend to every key."""
        nothing = np.zeros((0, 2), np.int32)
        shared, own = self._kept.get((layer, None), []), self._kept.get((layer, head), [])
        places = range(max(len(shared), len(own)))
        found = [_first_known(row, shared, own, nothing) for row in places]
        every = [[0, self.key_len - 1]]
        return None if all(spans.tolist() == every for spans in found) else found


def runs_of_rows(mask: NDArray[np.bool_], first_key: int = 0) -> list[Spans]:
    """Return each row's runs of True, first and last place.

    >>> [runs.tolist() for runs in runs_of_rows(np.array([[True, True, False, True], [False] * 4]))]
    [[[0, 1], [3, 3]], []]
    """
    edges = np.diff(mask.astype(np.int8), axis=1, prepend=0, append=0)
    rows, starts = np.nonzero(edges == 1)
    _, stops = np.nonzero(edges == -1)
    runs = np.stack([starts, stops - 1], axis=1).astype(np.int32) + np.int32(first_key)
    return np.split(runs, np.searchsorted(rows, np.arange(1, len(mask))))


def _first_known(
    row: int, shared: Sequence[Spans | None], own: Sequence[Spans | None], nothing: Spans
) -> Spans:
    for rows in (own, shared):
        if rows and (found := rows[row]) is not None:
            return found
    return nothing
