"""From an attention operation to blocks of weights: the one place where observers are fed and numbers are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, cast

import torch
from jaxtyping import Float
from torch import Tensor

from attncli.attention.operation import AttentionOperation, heads_of
from attncli.attention.tiles.row_tiles import TILE_ELEMENTS, RowTile, RowTiles
from attncli.capture.checks import Check, failed, where
from attncli.capture.prefetch import one_ahead
from attncli.errors import CaptureError
from attncli.record import AttentionLayer, Kind, LayerObserver, LayerReport, Observer, Request, WeightBlock

BLOCK_BYTES = 32 * 2**20
"""A block of weights is at most this large, unless a single row of one batch is larger."""

DENSE_KEYS = 512
"""Up to so many keys all weights of a few heads are a small matter, and fewer, larger steps are faster."""

OWN_FORWARD = "own forward"
"""How a report calls an operation whose output was made here, in place of the model's kernel."""


class Inspector(Protocol):
    """An observer that wants the operations themselves too, to take them apart."""

    def inspect(
        self, layer: AttentionLayer, operation: AttentionOperation, output: Float[Tensor, "..."] | None
    ) -> None:
        """Look at an operation whose blocks have been shown.

        Args:
            output: What the model's own kernel returned, ``(batch, heads, query, value_dim)``.
        """


@dataclass
class BlockFeed:
    """Shows observers what they asked for of each operation of one run, and checks every number on the way.

    Args:
        verify: Whether a failed check is an error; otherwise it only stands in the report.
        block_bytes: How large a block may be; the observers' answers must not depend on it.
        axes: Number of query and key tokens by kind: the operations' axes must be these. 0 where it is not known.
        stack: Only operations of this stack are shown; the others are noted.
        dense_keys: Up to so many keys the plain form is the fastest; above, weights are made in tiles.
        stopped: Whether the model was stopped when all that is sought had been seen.
    """

    observers: Sequence[Observer]
    verify: bool = True
    block_bytes: int = BLOCK_BYTES
    axes: Mapping[Kind, tuple[int, int]] | None = None
    stack: str = ""
    dense_keys: int = DENSE_KEYS
    attention_layers: list[AttentionLayer] = field(default_factory=list)
    reports: list[LayerReport] = field(default_factory=list)
    stopped: bool = False
    _shown: set[tuple[str, Kind, int, int]] = field(default_factory=set)

    @cached_property
    def sought(self) -> frozenset[tuple[Kind, int]] | None:
        """The kinds and layers that observers look for; None where one of them does not say."""
        if not self.observers or not all(hasattr(observer, "sought") for observer in self.observers):
            return None
        return frozenset().union(*(cast(LayerObserver, observer).sought for observer in self.observers))

    def emit(
        self,
        layer: AttentionLayer,
        operation: AttentionOperation | Callable[[], AttentionOperation],
        output: Float[Tensor, "batch heads query value_dim"] | None,
        capture: str,
    ) -> None:
        """Show one operation.

        Args:
            operation: The operation, or a function that makes it when somebody wants it.
            output: What the model's own kernel returned, to check the weights against.
            capture: How the operation was obtained, for the report.

        Raises:
            CaptureError: A check failed.
            UsageError: An observer asked for what is not there.
        """
        self.attention_layers.append(layer)
        wanted = self._wanted(layer)
        if not wanted:
            return
        operation = operation if isinstance(operation, AttentionOperation) else operation()
        queries, keys = operation.first_query + operation.rows, operation.first_key + operation.keys
        self._check_axes(layer, queries, keys)
        self._check_once(layer, operation.first_query)
        heads = _union_of_heads([request for _, request in wanted], layer.heads)
        rows_wanted = _union_of_rows([request for _, request in wanted], operation)
        check = Check(layer, operation, output, capture)
        for block, rows in self._blocks(layer, operation, heads, rows_wanted):
            check.add(block, rows)
            for observer, _ in wanted:
                observer.update(block)
        check.expect(rows_wanted, len(heads))
        self._close(check)
        for inspector in _inspectors(wanted):
            inspector.inspect(layer, operation, output)

    def compute(
        self, layer: AttentionLayer, operation: AttentionOperation, own: Callable[[slice], Tensor]
    ) -> Float[Tensor, "batch heads query value_dim"]:
        """Make an operation's output from the very blocks that observers are shown, in place of the model's kernel.

        Every head and row is made, whoever wants them. Some rows are computed by the model's kernel as well, and must
        be the same.

        Args:
            operation: With its value.
            own: Gives what the model's own kernel returns for some rows, ``(batch, heads, rows, value_dim)``.

        Raises:
            CaptureError: A check failed.
            UsageError: An observer asked for what is not there.
        """
        self.attention_layers.append(layer)
        wanted = self._wanted(layer)
        if wanted:
            queries, keys = operation.first_query + operation.rows, operation.first_key + operation.keys
            self._check_axes(layer, queries, keys)
            self._check_once(layer, operation.first_query)
        assert operation.value is not None
        made = operation.query.new_empty(*operation.query.shape[:3], operation.value.shape[-1])
        check, every_row = Check(layer, operation, None, OWN_FORWARD), (0, operation.rows)
        for block, rows in self._blocks(layer, operation, tuple(range(operation.heads)), every_row):
            check.add(block, rows)
            first = block.first_key - operation.first_key
            keys_here = slice(first, first + block.weights.shape[-1])
            output = operation.output(block.weights, block.heads, keys_here)
            assert output is not None
            heads_of(made, block.heads)[:, :, rows] = output
            for observer, _ in wanted:
                observer.update(block)
        check.expect(every_row, operation.heads)
        check.compare(made, own)
        self._close(check)
        for inspector in _inspectors(wanted):
            inspector.inspect(layer, operation, made)
        return made

    def emit_weights(
        self,
        layer: AttentionLayer,
        weights: Float[Tensor, "batch heads query key"],
        allowed: Tensor | None,
        capture: str,
        *,
        sum_to_one: bool = True,
        check_first: Callable[[], None] = lambda: None,
    ) -> None:
        """Show weights that the model itself computed, where no operation can be seen.

        Args:
            check_first: Refuses what is no map from tokens to tokens; called where somebody wants the weights.
            sum_to_one: Whether each row should sum to 1; not so for signed effective weights.

        Raises:
            CaptureError: A check failed.
        """
        self.attention_layers.append(layer)
        wanted = self._wanted(layer)
        if not wanted:
            return
        check_first()
        if _inspectors(wanted):
            raise CaptureError(
                f"{where(layer)} computes its weights in a way of its own: its queries and keys are not to be seen",
                "attncli show shows the weights",
            )
        self._check_axes(layer, weights.shape[2], weights.shape[3])
        self._check_once(layer, 0)
        check = Check(layer, None, None, capture, dtype=weights.dtype, sum_to_one=sum_to_one)
        block = WeightBlock(
            layer, tuple(range(layer.heads)), range(weights.shape[2]), weights.float(), allowed
        )
        check.add(block, slice(0, weights.shape[2]))
        for observer, _ in wanted:
            observer.update(block)
        self._close(check)

    def _wanted(self, layer: AttentionLayer) -> list[tuple[Observer, Request]]:
        if layer.stack != self.stack:
            return []
        requests = [(observer, observer.request(layer)) for observer in self.observers]
        return [(observer, request) for observer, request in requests if request is not None]

    def _check_axes(self, layer: AttentionLayer, queries: int, keys: int) -> None:
        """Refuse an operation whose rows and columns are something else than the tokens."""
        tokens = (self.axes or {}).get(layer.kind, (0, 0))
        if any(length not in (0, seen) for length, seen in zip(tokens, (queries, keys), strict=True)):
            raise CaptureError(
                f"{where(layer)}: its {queries:,} queries and {keys:,} keys are not the {tokens[0]:,} and "
                f"{tokens[1]:,} tokens of the input: this model shortens, lengthens or joins its axes inside"
            )

    def _check_once(self, layer: AttentionLayer, first_query: int) -> None:
        """Refuse a second operation of the same name: one of the two would have another layer's index."""
        name = (layer.stack, layer.kind, layer.index, first_query)
        if name in self._shown and self.verify:
            raise failed(f"{where(layer)}: two attention operations have this index ({layer.module})")
        self._shown.add(name)

    def _blocks(
        self,
        layer: AttentionLayer,
        operation: AttentionOperation,
        heads: tuple[int, ...],
        wanted: tuple[int, int],
    ) -> Iterator[tuple[WeightBlock, slice]]:
        """Yield the blocks with their rows counted from the operation's first."""
        start, stop = wanted
        if operation.keys > self.dense_keys and (operation.sink is None or operation.sink.dim() == 1):
            elements = min(TILE_ELEMENTS, self.block_bytes // 4)
            for tile in _tiles(operation, heads, start, stop, elements):
                yield _block_of_tile(layer, operation, tile), tile.rows
            return
        row_bytes = operation.query.shape[0] * len(heads) * operation.keys * 4
        step = max(1, self.block_bytes // max(row_bytes, 1))
        for first in range(start, stop, step):
            rows = slice(first, min(first + step, stop))
            yield _block(layer, operation, heads, rows), rows

    def _close(self, check: Check) -> None:
        report = check.report()
        self.reports.append(report)
        if self.verify:
            check.raise_if_wrong(report)


def _tiles(
    operation: AttentionOperation, heads: tuple[int, ...], start: int, stop: int, elements: int
) -> Iterator[RowTile]:
    """Return the tiles; where a CPU has threads to spare, each is made while observers look at the one before."""
    if operation.query.device.type != "cpu" or torch.get_num_threads() == 1:
        return iter(RowTiles(operation, heads, start, stop, elements))
    return one_ahead(iter(RowTiles(operation, heads, start, stop, elements, lanes=2)))


def _block(
    layer: AttentionLayer, operation: AttentionOperation, heads: tuple[int, ...], rows: slice
) -> WeightBlock:
    first, weights = operation.first_query, operation.weights(heads, rows)
    return WeightBlock(
        layer=layer,
        heads=heads,
        rows=range(first + rows.start, first + rows.stop),
        weights=weights,
        allowed=operation.allowed(heads, rows),
        first_key=operation.first_key,
        sums=weights.sum(dim=-1),
    )


def _block_of_tile(layer: AttentionLayer, operation: AttentionOperation, tile: RowTile) -> WeightBlock:
    first = operation.first_query
    return WeightBlock(
        layer=layer,
        heads=tile.heads,
        rows=range(first + tile.rows.start, first + tile.rows.stop),
        weights=tile.weights,
        allowed=tile.allowed,
        first_key=operation.first_key + tile.keys.start,
        scores=tile.scores,
        sums=tile.sums,
    )


def _inspectors(wanted: Sequence[tuple[Observer, Request]]) -> list[Inspector]:
    # Not by isinstance, which takes a protocol apart each time: a tenth of all that a short text costs.
    return [cast(Inspector, observer) for observer, _ in wanted if hasattr(observer, "inspect")]


def _union_of_heads(requests: Sequence[Request], heads: int) -> tuple[int, ...]:
    if any(request.heads is None for request in requests):
        return tuple(range(heads))
    return tuple(sorted({head for request in requests for head in request.heads or ()}))


def _union_of_rows(requests: Sequence[Request], operation: AttentionOperation) -> tuple[int, int]:
    """Return the smallest range of the operation's rows that holds all that is wanted."""
    if any(request.rows is None for request in requests):
        return 0, operation.rows
    ranges = [request.rows for request in requests if request.rows is not None and len(request.rows)]
    if not ranges:
        return 0, 0
    first = operation.first_query
    start = min(rows.start for rows in ranges) - first
    stop = max(rows.stop for rows in ranges) - first
    return max(start, 0), min(stop, operation.rows)
