"""Attention through all layers: rollout and maximum flow.

One layer passes on ``Â = share · I + (1 − share) · A``: A is the layer's weights, its heads fused to one matrix, and
the identity stands for the residual connection. Rollout multiplies these matrices from the last layer down, so that a
row of the answer says from which input positions an output position is made, as far as weights alone can say. It knows
nothing of what values carry, of MLPs, or of what later layers cancel.

Source: Abnar & Zuidema 2020, Quantifying Attention Flow in Transformers, arXiv 2005.00928.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from attncli.attention.operation import AttentionOperation
from attncli.errors import CaptureError, TooLargeError
from attncli.record import AttentionLayer, Kind, Observer, Request, Run

Fusion = Literal["mean", "max", "min"]
FUSIONS: tuple[Fusion, ...] = ("mean", "max", "min")

KEPT_BYTES = 128 * 2**20
"""Queries and keys of the last layers that are kept from one pass; earlier layers take another pass."""

BLOCK_BYTES = 8 * 2**20
LONGEST_DISCARD = 4096
LARGEST_FLOW = 20_000
"""Edges times flows that are searched at most: some minutes."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How a layer is made into one matrix.

    Args:
        fusion: How its heads become one.
        residual: Share of the residual connection, from 0 to below 1.
        discard: Share of a layer's fused weights, the smallest, that is set to 0; the first position's are kept.
    """

    fusion: Fusion = "mean"
    residual: float = 0.5
    discard: float = 0.0


class Rerun(Protocol):
    """A source that can run more than once."""

    def run(self, observers: Sequence[Observer]) -> Run:
        """Run forward once."""


@dataclass
class _LastOperations:
    """Keeps the operations of the last layers below a layer, as many as there is room for."""

    kind: Kind
    below: int
    room: int
    kept: dict[int, AttentionOperation] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    @property
    def sought(self) -> frozenset[tuple[Kind, int]]:
        return frozenset((self.kind, layer) for layer in range(self.below))

    def request(self, layer: AttentionLayer) -> Request | None:
        return Request((0,), range(1)) if layer.kind == self.kind and layer.index < self.below else None

    def update(self, block: object) -> None:
        """Keep nothing of the weights: they are made again when it is their turn."""

    def inspect(self, layer: AttentionLayer, operation: AttentionOperation, output: Tensor | None) -> None:
        query, key = operation.query.clone(), operation.key.clone()
        self.kept[layer.index] = replace(operation, query=query, key=key, value=None)
        self.seen.add(layer.index)
        while len(self.kept) > 1 and sum(map(_bytes, self.kept.values())) > self.room:
            del self.kept[min(self.kept)]


def _bytes(operation: AttentionOperation) -> int:
    return operation.query.nbytes + operation.key.nbytes


def operations_from_the_last(
    source: Rerun, kind: Kind, depth: int, room: int = KEPT_BYTES
) -> Iterator[tuple[int, AttentionOperation, Run]]:
    """Yield a model's attention operations from the last layer to the first, in as many passes as memory asks for.

    Raises:
        CaptureError: The model computes its weights in a way of its own, so that there is no operation to be kept.
    """
    below = depth
    while below > 0:
        kept = _LastOperations(kind, below, room)
        run = source.run([kept])
        if not kept.kept:
            if below == depth:
                raise CaptureError(f"no {kind} attention was seen whose layers could be multiplied")
            return
        for layer in sorted(kept.kept, reverse=True):
            yield layer, kept.kept.pop(layer), run
            below = layer
        if not any(layer < below for layer in kept.seen):
            return


def rollout(
    source: Rerun,
    kind: Kind,
    depth: int,
    rows: Sequence[int],
    length: int,
    rule: Rule,
    *,
    room: int = KEPT_BYTES,
) -> tuple[list[int], Float[Tensor, "layers rows key"], Run]:
    """Multiply the layers' matrices, for some rows of the last layer.

    Args:
        rows: Output positions.
        length: Number of positions.

    Returns:
        The layers with attention from the last to the first; for each, the rows' shares of the input positions of that
        layer: the last of them is the rollout; and what the first pass told.

    Raises:
        TooLargeError: A discard share was asked for of a text too long to hold its matrix.
    """
    if rule.discard and length > LONGEST_DISCARD:
        raise TooLargeError(f"--discard needs a layer's whole matrix, and {length:,} positions are too many")
    shares = torch.zeros(len(rows), length, dtype=torch.float64)
    shares[torch.arange(len(rows)), torch.tensor(list(rows))] = 1.0
    layers, states, first = [], [], None
    for layer, operation, run in operations_from_the_last(source, kind, depth, room):
        first = first or run
        shares = _through(shares, operation, rule)
        layers.append(layer)
        states.append(shares)
    assert first is not None
    return layers, torch.stack(states).float(), first


def _through(shares: Tensor, operation: AttentionOperation, rule: Rule) -> Tensor:
    """Multiply rows by one layer's matrix."""
    needed = int(shares.any(dim=0).nonzero().max()) + 1
    passed = torch.zeros_like(shares)
    for place, matrix in _fused(operation, rule, needed):
        passed += shares[:, place] @ matrix
    return passed


def _fused(operation: AttentionOperation, rule: Rule, rows: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield a layer's matrix by blocks of rows: heads fused, residual added, rows scaled to 1."""
    every, keys = tuple(range(operation.heads)), operation.keys
    step = max(1, BLOCK_BYTES // (4 * operation.heads * keys))
    limit = _limit(operation, rule, every) if rule.discard else None
    for start in range(0, rows, step):
        place = slice(start, min(start + step, rows))
        fused = _fuse(operation.weights(every, place)[0], rule.fusion).double()
        if limit is not None:
            keep = fused > limit
            keep[0, 0] |= start == 0
            fused = fused * keep
        matrix = fused * (1 - rule.residual)
        diagonal = torch.arange(place.start, place.stop)
        matrix[torch.arange(len(diagonal)), diagonal] += rule.residual
        total = matrix.sum(dim=-1, keepdim=True)
        yield place, matrix / torch.where(total > 0, total, 1.0)


def _fuse(weights: Float[Tensor, "heads rows key"], fusion: Fusion) -> Float[Tensor, "rows key"]:
    if fusion == "mean":
        return weights.mean(dim=0)
    return weights.amax(dim=0) if fusion == "max" else weights.amin(dim=0)


def _limit(operation: AttentionOperation, rule: Rule, heads: tuple[int, ...]) -> float:
    """Return the largest of the fused weights that are discarded."""
    whole = _fuse(operation.weights(heads, slice(0, operation.rows))[0], rule.fusion).double().flatten()
    count = int(len(whole) * rule.discard)
    return float(whole.kthvalue(count).values) if count else -1.0


def flow(
    source: Rerun, kind: Kind, depth: int, rows: Sequence[int], length: int, rule: Rule
) -> tuple[list[int], Float[Tensor, "rows key"], Run]:
    """Return the maximum flow from each input position to some output positions, through the layers' matrices.

    Each row is scaled to sum to 1.

    Raises:
        TooLargeError: The text is too long to be searched.
    """
    import networkx  # type: ignore[import-untyped, unused-ignore]

    graph, edges = networkx.DiGraph(), 0
    layers: list[int] = []
    first: Run | None = None
    for layer, operation, run in operations_from_the_last(source, kind, depth):
        first = first or run
        for place, matrix in _fused(operation, rule, length):
            pairs = matrix.nonzero().tolist()
            edges += len(pairs)
            if edges * len(rows) * length > LARGEST_FLOW * 1000:
                raise TooLargeError(
                    f"maximum flow through {length} positions of {depth} layers takes too long",
                    "ask for one row (--query), a shorter text, or --aggregate rollout",
                )
            for row, key in pairs:
                weight = float(matrix[row, key])
                graph.add_edge((len(layers), place.start + row), (len(layers) + 1, key), capacity=weight)
        layers.append(layer)
    assert first is not None
    found = torch.zeros(len(rows), length, dtype=torch.float64)
    for index, row in enumerate(rows):
        for key in range(length):
            there = (len(layers), key)
            if there in graph:
                found[index, key] = networkx.maximum_flow_value(graph, (0, row), there)
    return layers, (found / found.sum(dim=-1, keepdim=True).clamp(min=1e-30)).float(), first
