"""Where what an observer wants stands in a block, and where it goes."""

from __future__ import annotations

from collections.abc import Sequence

from attncli.observers.selection import Selection
from attncli.record import AttentionLayer, Kind, WeightBlock

Part = slice | list[int]


class InLayers:
    """What all observers have that look at one kind of attention in some layers."""

    kind: Kind
    layers: Selection
    depth: int

    def __post_init__(self) -> None:
        self._wanted_layers = self.layers.resolve(self.depth)

    def wants(self, layer: AttentionLayer) -> bool:
        """Return whether a layer is one of those that are looked at."""
        return layer.kind == self.kind and layer.index in self._wanted_layers

    @property
    def sought(self) -> frozenset[tuple[Kind, int]]:
        """The kind and index of every layer that is wanted."""
        return frozenset((self.kind, layer) for layer in self._wanted_layers)


def places_in(have: range, wanted: Sequence[int]) -> tuple[Part, Part]:
    """Find the wanted positions that a block has; slices where both sides run on, since those copy nothing.

    Args:
        have: The block's positions.
        wanted: Positions wanted, each once.

    Returns:
        Places among those wanted, and places in the block.

    >>> places_in(range(4, 9), [2, 3, 4, 5])
    (slice(2, 4, None), slice(0, 2, None))
    >>> places_in(range(4, 9), [7, 2, 5])
    ([0, 2], [3, 1])
    """
    if isinstance(wanted, range) and wanted.step == 1:
        start, stop = max(have.start, wanted.start), min(have.stop, wanted.stop)
        stop = max(start, stop)
        return slice(start - wanted.start, stop - wanted.start), slice(start - have.start, stop - have.start)
    pairs = [(i, position - have.start) for i, position in enumerate(wanted) if position in have]
    return _as_part([i for i, _ in pairs]), _as_part([j for _, j in pairs])


def heads_in(block: WeightBlock, wanted: Sequence[int]) -> tuple[Part, Part]:
    """Find the wanted heads that a block has.

    Returns:
        Places among those wanted, and places in the block.
    """
    if block.heads == tuple(wanted):
        return slice(0, len(block.heads)), slice(0, len(block.heads))
    pairs = [(i, block.heads.index(head)) for i, head in enumerate(wanted) if head in block.heads]
    return _as_part([i for i, _ in pairs]), _as_part([j for _, j in pairs])


def _as_part(places: list[int]) -> Part:
    """Return a slice for places that follow each other."""
    if places and places == list(range(places[0], places[0] + len(places))):
        return slice(places[0], places[0] + len(places))
    return places
