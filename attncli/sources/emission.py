"""From an attention operation to blocks of weights: the one place where observers are fed and numbers are checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import torch
from jaxtyping import Float
from torch import Tensor

from attncli.attention.operation import AttentionOperation, heads_of
from attncli.attention.row_tiles import TILE_ELEMENTS, RowTiles, Tile
from attncli.errors import CaptureError
from attncli.record import Kind, Observer, Request, Site, SiteReport, WeightBlock

BLOCK_BYTES = 32 * 2**20
"""A block of weights is at most this large, unless a single row of one batch is larger."""

DENSE_KEYS = 512
"""Up to so many keys all weights of a few heads are a small matter, and fewer, larger steps are faster."""

SAMPLED_ROWS = 4
SAMPLED_TILES = 0.25
"""Of a long text, so many rows of such a share of the tiles are held against the mask and the model's own output."""

ROW_SUM_TOLERANCE = {torch.float16: 5e-3, torch.bfloat16: 3e-2}
"""How far a row's sum may be from 1 by the type that the weights came in; 1e-4 for float32 and what we recompute."""

OUTPUT_TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""How far the recomputed output may be from the model's own, relative to the largest output of the operation."""


@dataclass
class Emitter:
    """Shows observers what they asked for of each operation of one run, and checks every number on the way.

    Args:
        verify: Whether a failed check is an error; otherwise it only stands in the report.
        block_bytes: How large a block may be; the observers' answers must not depend on it.
        axes: Number of query and key tokens by kind: the operations' axes must be these. 0 where it is not known.
        stack: Only operations of this stack are shown; the others are noted.
        dense_keys: Up to so many keys the plain form is the fastest; above, weights are made in tiles.
    """

    observers: Sequence[Observer]
    verify: bool = True
    block_bytes: int = BLOCK_BYTES
    axes: Mapping[Kind, tuple[int, int]] | None = None
    stack: str = ""
    dense_keys: int = DENSE_KEYS
    sites: list[Site] = field(default_factory=list)
    reports: list[SiteReport] = field(default_factory=list)
    _shown: set[tuple[str, Kind, int, int]] = field(default_factory=set)

    def emit(
        self,
        site: Site,
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
        self.sites.append(site)
        wanted = self._wanted(site)
        if not wanted:
            return
        operation = operation if isinstance(operation, AttentionOperation) else operation()
        queries, keys = operation.first_query + operation.rows, operation.first_key + operation.keys
        self._check_axes(site, queries, keys)
        self._check_once(site, operation.first_query)
        heads = _union_of_heads([request for _, request in wanted], site.heads)
        check = _Check(site, operation, output, capture)
        for block, rows in self._blocks(site, operation, heads, [request for _, request in wanted]):
            check.add(block, rows)
            for observer, _ in wanted:
                observer.update(block)
        check.expect(_union_of_rows([request for _, request in wanted], operation), len(heads))
        self._close(check)

    def emit_weights(
        self,
        site: Site,
        weights: Float[Tensor, "batch heads query key"],
        allowed: Tensor | None,
        capture: str,
        *,
        sum_to_one: bool = True,
    ) -> None:
        """Show weights that the model itself computed, where no operation can be seen.

        Args:
            sum_to_one: Whether each row should sum to 1; not so for signed effective weights.

        Raises:
            CaptureError: A check failed.
        """
        self.sites.append(site)
        wanted = self._wanted(site)
        if not wanted:
            return
        self._check_axes(site, weights.shape[2], weights.shape[3])
        self._check_once(site, 0)
        check = _Check(site, None, None, capture, dtype=weights.dtype, sum_to_one=sum_to_one)
        block = WeightBlock(site, tuple(range(site.heads)), range(weights.shape[2]), weights.float(), allowed)
        check.add(block, slice(0, weights.shape[2]))
        for observer, _ in wanted:
            observer.update(block)
        self._close(check)

    def _wanted(self, site: Site) -> list[tuple[Observer, Request]]:
        if site.stack != self.stack:
            return []
        requests = [(observer, observer.request(site)) for observer in self.observers]
        return [(observer, request) for observer, request in requests if request is not None]

    def _check_axes(self, site: Site, queries: int, keys: int) -> None:
        """Refuse an operation whose rows and columns are something else than the tokens."""
        tokens = (self.axes or {}).get(site.kind, (0, 0))
        if any(length not in (0, seen) for length, seen in zip(tokens, (queries, keys), strict=True)):
            raise CaptureError(
                f"{_where(site)}: its {queries:,} queries and {keys:,} keys are not the {tokens[0]:,} and "
                f"{tokens[1]:,} tokens of the input: this model shortens, lengthens or joins its axes inside"
            )

    def _check_once(self, site: Site, first_query: int) -> None:
        """Refuse a second operation of the same name: one of the two would have another layer's index."""
        name = (site.stack, site.kind, site.layer, first_query)
        if name in self._shown and self.verify:
            raise _failed(f"{_where(site)}: two attention operations have this index ({site.module})")
        self._shown.add(name)

    def _blocks(
        self, site: Site, operation: AttentionOperation, heads: tuple[int, ...], requests: Sequence[Request]
    ) -> Iterator[tuple[WeightBlock, slice]]:
        """Give the blocks with their rows counted from the operation's first."""
        start, stop = _union_of_rows(requests, operation)
        if operation.keys > self.dense_keys and (operation.sink is None or operation.sink.dim() == 1):
            elements = min(TILE_ELEMENTS, self.block_bytes // 4)
            for tile in RowTiles(operation, heads, start, stop, elements):
                yield _block_of_tile(site, operation, tile), tile.rows
            return
        row_bytes = operation.query.shape[0] * len(heads) * operation.keys * 4
        step = max(1, self.block_bytes // max(row_bytes, 1))
        for first in range(start, stop, step):
            rows = slice(first, min(first + step, stop))
            yield _block(site, operation, heads, rows), rows

    def _close(self, check: _Check) -> None:
        report = check.report()
        self.reports.append(report)
        if self.verify:
            check.raise_if_wrong(report)


@dataclass
class _Check:
    """Measures one operation's blocks: finite, rows sum to 1, nothing on forbidden keys, the output is the model's.

    Every row is looked at for numbers that are not finite. The other checks look at every row of a short text, and
    of a long one, in every head, at `SAMPLED_ROWS` rows of the last tile and of a share of the others, chosen with
    the tile's place as seed.
    """

    site: Site
    operation: AttentionOperation | None
    output: Tensor | None
    capture: str
    sum_to_one: bool = True
    row_sum_error: float = 0.0
    forbidden: float = 0.0
    output_error: float | None = None
    largest: float | None = None
    not_finite: int | None = None
    dtype: torch.dtype = torch.float32
    rows_seen: int = 0
    rows_wanted: int | None = None
    worst: dict[str, tuple[Tensor, tuple[int, ...]]] = field(default_factory=dict)
    dead: dict[int, Tensor] = field(default_factory=dict)

    def expect(self, rows: tuple[int, int], heads: int) -> None:
        """Say which rows the blocks should have held, each once in each head."""
        self.rows_wanted = max(rows[1] - rows[0], 0) * heads

    def add(self, block: WeightBlock, rows: slice) -> None:
        self.rows_seen += len(block.rows) * len(block.heads)
        sums = block.weights.sum(dim=-1) if block.sums is None else block.sums
        if not math.isfinite(float(sums.sum())):
            bad = (~torch.isfinite(sums)).any(dim=-1).any(dim=0)
            self.not_finite = block.heads[int(bad.int().argmax())]
            return
        live = _live_rows(block, sums)
        if live is not None and self.sum_to_one:
            # A row is dead where no head of any of the blocks that hold it may attend.
            dead = (~live).all(dim=1)
            self.dead[block.rows.start] = dead & self.dead.get(block.rows.start, dead)
        places = _sample(block, rows, self.operation is not None and rows.stop == self.operation.rows)
        if places == []:
            return
        weights = block.weights if places is None else block.weights[:, :, places]
        self._add_sums(block, sums if places is None else weights.sum(dim=-1), live, places)
        if block.allowed is not None:
            allowed = block.allowed
            if places is not None and allowed.shape[2] > 1:
                allowed = allowed[:, :, places]
            self.forbidden = self._worst(
                "forbidden", self.forbidden, weights.masked_fill(allowed, 0.0), block
            )
        self._add_output(block, weights, rows, live, places)

    def _add_sums(
        self, block: WeightBlock, sums: Tensor, live: Tensor | None, places: list[int] | None
    ) -> None:
        if not self.sum_to_one:
            return
        has_sink = self.operation is not None and self.operation.sink is not None
        error = (sums - 1.0).clamp(min=0.0) if has_sink else sums - 1.0
        if live is not None:
            error = error.masked_fill(~(live if places is None else live[:, :, places]), 0.0)
        self.row_sum_error = self._worst("row_sum", self.row_sum_error, error, block)

    def _add_output(
        self, block: WeightBlock, weights: Tensor, rows: slice, live: Tensor | None, places: list[int] | None
    ) -> None:
        if self.operation is None or self.output is None:
            return
        first = block.first_key - self.operation.first_key
        ours = self.operation.output(weights, block.heads, slice(first, first + weights.shape[-1]))
        if ours is None:
            return
        theirs = heads_of(self.output, block.heads)[:, :, rows]
        if places is not None:
            theirs, live = theirs[:, :, places], None if live is None else live[:, :, places]
        error = ours - theirs
        if live is not None:
            # For a row without keys models return zeros, an average or NaN: there is nothing to agree on.
            error = torch.where(live.unsqueeze(-1), error, 0.0)
        if self.largest is None:
            self.largest = max(_largest(self.output), 1e-6)
        so_far = (self.output_error or 0.0) * self.largest
        self.output_error = self._worst("output", so_far, error, block) / self.largest

    def _worst(self, name: str, so_far: float, error: Tensor, block: WeightBlock) -> float:
        """Give the largest absolute error so far, and remember which block it is of.

        Args:
            error: ``(batch, heads, …)``.
        """
        worst = _largest(error)
        if not worst <= so_far:
            self.worst[name] = error, block.heads
            return worst
        return so_far

    def worst_head(self, name: str) -> int:
        """Name the head that a check found the largest error in."""
        error, heads = self.worst[name]
        return heads[int(error.abs().transpose(0, 1).flatten(1).amax(dim=1).argmax())]

    def report(self) -> SiteReport:
        dead = sum(int(rows.sum()) for rows in self.dead.values())
        return SiteReport(
            self.site, self.row_sum_error, self.forbidden, self.output_error, dead, self.capture
        )

    def raise_if_wrong(self, report: SiteReport) -> None:
        where = _where(self.site)
        if self.rows_wanted is not None and self.rows_seen != self.rows_wanted:
            raise _failed(f"{where}: {self.rows_seen} rows were made of the {self.rows_wanted} asked for")
        if self.not_finite is not None:
            raise _failed(f"{where} head {self.not_finite}: weights are not finite (NaN or infinite scores)")
        if report.row_sum_error > ROW_SUM_TOLERANCE.get(self.dtype, 1e-4):
            head = self.worst_head("row_sum")
            raise _failed(f"{where} head {head}: a row's weights sum to 1 ± {report.row_sum_error:.2g}")
        if report.forbidden > 0.0:
            head = self.worst_head("forbidden")
            raise _failed(f"{where} head {head}: weight {report.forbidden:.2g} on keys that the mask forbids")
        tolerance = OUTPUT_TOLERANCE.get(self.output.dtype, 1e-2) if self.output is not None else 0.0
        if report.output_error is not None and not report.output_error <= tolerance:
            raise _failed(
                f"{where} head {self.worst_head('output')}: recomputed output differs from the model's own by "
                f"{report.output_error:.2g} of its largest value (allowed: {tolerance:g})"
            )


def _where(site: Site) -> str:
    stack = f"{site.stack} " if site.stack else ""
    return f"{stack}{site.kind} layer {site.layer}"


def _largest(values: Tensor) -> float:
    """Give the largest absolute value in one step, far faster than a norm; no number where one of them is none."""
    if not values.numel():
        return 0.0
    low, high = torch.aminmax(values.float())
    return float(torch.maximum(-low, high))


def _failed(what: str) -> CaptureError:
    return CaptureError(
        f"self-check failed: {what}", "--no-verify shows the numbers anyway, marked as unverified"
    )


def _block(site: Site, operation: AttentionOperation, heads: tuple[int, ...], rows: slice) -> WeightBlock:
    first = operation.first_query
    return WeightBlock(
        site=site,
        heads=heads,
        rows=range(first + rows.start, first + rows.stop),
        weights=operation.weights(heads, rows),
        allowed=operation.allowed(heads, rows),
        first_key=operation.first_key,
    )


def _sample(block: WeightBlock, rows: slice, last: bool) -> list[int] | None:
    """Choose rows of a tile of a long text, or none of them; None where all are looked at.

    Args:
        last: Whether these are the operation's last rows, which see the most keys: they are always looked at.
    """
    if block.scores is None or len(block.rows) <= SAMPLED_ROWS:
        return None
    dice = Random(rows.start)
    if not last and dice.random() >= SAMPLED_TILES:
        return []
    return sorted(dice.sample(range(len(block.rows)), SAMPLED_ROWS))


def _block_of_tile(site: Site, operation: AttentionOperation, tile: Tile) -> WeightBlock:
    first = operation.first_query
    return WeightBlock(
        site=site,
        heads=tile.heads,
        rows=range(first + tile.rows.start, first + tile.rows.stop),
        weights=tile.weights,
        allowed=tile.allowed,
        first_key=operation.first_key + tile.keys.start,
        scores=tile.scores,
        sums=tile.sums,
    )


def _live_rows(block: WeightBlock, sums: Tensor) -> Tensor | None:
    """Give which rows have any allowed key, broadcast to ``(batch, heads, rows)``; None where all have."""
    if block.allowed is None or (block.scores is not None and bool((sums > 0).all())):
        return None  # a tile's rows without keys have no weight
    live = block.allowed.any(dim=-1)
    if bool(live.all()):
        return None
    batch, _, rows, _ = block.weights.shape
    return live.expand(batch, live.shape[1], rows)


def _union_of_heads(requests: Sequence[Request], heads: int) -> tuple[int, ...]:
    if any(request.heads is None for request in requests):
        return tuple(range(heads))
    return tuple(sorted({head for request in requests for head in request.heads or ()}))


def _union_of_rows(requests: Sequence[Request], operation: AttentionOperation) -> tuple[int, int]:
    """Give the smallest range of the operation's rows that holds all that is wanted."""
    if any(request.rows is None for request in requests):
        return 0, operation.rows
    ranges = [request.rows for request in requests if request.rows is not None and len(request.rows)]
    if not ranges:
        return 0, 0
    first = operation.first_query
    start = min(rows.start for rows in ranges) - first
    stop = max(rows.stop for rows in ranges) - first
    return max(start, 0), min(stop, operation.rows)
