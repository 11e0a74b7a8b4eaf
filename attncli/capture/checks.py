"""The self-checks: what is measured of every operation's blocks while they pass by, and when it is an error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import torch
from torch import Tensor

from attncli.attention.operation import AttentionOperation, heads_of
from attncli.errors import CaptureError
from attncli.record import AttentionLayer, LayerReport, WeightBlock

SAMPLED_ROWS = 4
SAMPLED_TILES = 0.125
"""Of a long text, so many rows of such a share of the tiles are held against the mask and the model's own output."""

ROW_SUM_TOLERANCE = {torch.float16: 5e-3, torch.bfloat16: 3e-2}
"""How far a row's sum may be from 1 by the type that the weights came in; 1e-4 for float32 and what we recompute."""

OUTPUT_TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""How far the recomputed output may be from the model's own, relative to the largest output of the operation."""


@dataclass
class Check:
    """Measures one operation's blocks: finite, rows sum to 1, nothing on forbidden keys, the output is the model's.

    Every row is looked at for numbers that are not finite. The other checks look at every row of a short text, and
    of a long one, in every head, at `SAMPLED_ROWS` rows of the last tile and of a share of the others, chosen with
    the tile's place as seed.
    """

    layer: AttentionLayer
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
        """Record which rows the blocks should have held, each once in each head."""
        self.rows_wanted = max(rows[1] - rows[0], 0) * heads

    def add(self, block: WeightBlock, rows: slice) -> None:
        """Look at a block, whose rows are counted from the operation's first."""
        self.rows_seen += len(block.rows) * len(block.heads)
        sums = block.weights.sum(dim=-1) if block.sums is None else block.sums
        if not math.isfinite(_largest(sums)):
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
            self._add_forbidden(weights, allowed, block.heads)
        self._add_output(block, weights, rows, live, places)

    def compare(self, made: Tensor, own: Callable[[slice], Tensor]) -> None:
        """Hold an output that we made for the model against its own kernel's, for some rows of every head.

        Args:
            made: ``(batch, heads, query, value_dim)``.
            own: Gives the kernel's output for some rows.
        """
        heads = tuple(range(made.shape[1]))
        for rows in _some_rows(made.shape[2]):
            error = made[:, :, rows].float() - own(rows).float()
            allowed = None if self.operation is None else self.operation.allowed(heads, rows)
            self._add_error(error, None if allowed is None else allowed.any(dim=-1), heads, made)

    def _add_forbidden(self, weights: Tensor, allowed: Tensor, heads: tuple[int, ...]) -> None:
        if allowed.shape[1] == 1 and self.sum_to_one:
            # Where all heads have one mask, the largest of their weights tells whether there is anything to look for.
            if _largest(weights.amax(dim=1, keepdim=True).masked_fill(allowed, 0.0)) == 0.0:
                return
        denied = weights.masked_fill(allowed, 0.0)
        self.forbidden = self._worst("forbidden", self.forbidden, denied, heads)

    def _add_sums(
        self, block: WeightBlock, sums: Tensor, live: Tensor | None, places: list[int] | None
    ) -> None:
        if not self.sum_to_one:
            return
        has_sink = self.operation is not None and self.operation.sink is not None
        error = (sums - 1.0).clamp(min=0.0) if has_sink else sums - 1.0
        if live is not None:
            error = error.masked_fill(~(live if places is None else live[:, :, places]), 0.0)
        self.row_sum_error = self._worst("row_sum", self.row_sum_error, error, block.heads)

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
        self._add_error(ours.sub_(theirs.to(ours.dtype)), live, block.heads, self.output)

    def _add_error(self, error: Tensor, live: Tensor | None, heads: tuple[int, ...], output: Tensor) -> None:
        """Take in a difference of outputs.

        Args:
            error: ``(batch, heads, rows, value_dim)``.
            live: ``(#batch, #heads, #rows)``; None where all are.
            output: Of the whole operation, whose largest value is the measure.
        """
        if live is not None:
            # For a row without keys models return zeros, an average or NaN: there is nothing to agree on.
            error = torch.where(live.unsqueeze(-1), error, 0.0)
        if self.largest is None:
            # Kernels put the heads after the rows: so turned it lies in memory as it is read.
            self.largest = max(_largest_finite(output.transpose(1, 2)), 1e-6)
        so_far = (self.output_error or 0.0) * self.largest
        self.output_error = self._worst("output", so_far, error, heads) / self.largest

    def _worst(self, name: str, so_far: float, error: Tensor, heads: tuple[int, ...]) -> float:
        """Return the largest absolute error so far, and remember which heads it is of; one that is no number stays.

        Args:
            error: ``(batch, heads, …)``.
        """
        worst = _largest(error)
        if not worst <= so_far and not math.isnan(so_far):
            self.worst[name] = error, heads
            return worst
        return so_far

    def worst_head(self, name: str) -> int:
        """Name the head that a check found the largest error in."""
        error, heads = self.worst[name]
        return heads[int(error.abs().transpose(0, 1).flatten(1).amax(dim=1).argmax())]

    def report(self) -> LayerReport:
        """Sum up what was measured."""
        dead = sum(int(rows.sum()) for rows in self.dead.values())
        return LayerReport(
            self.layer, self.row_sum_error, self.forbidden, self.output_error, dead, self.capture
        )

    def raise_if_wrong(self, report: LayerReport) -> None:
        """Refuse what is beyond its tolerance, with the layer, the head and the number.

        Raises:
            CaptureError: Something is.
        """
        here = where(self.layer)
        if self.rows_wanted is not None and self.rows_seen != self.rows_wanted:
            raise failed(f"{here}: {self.rows_seen} rows were made of the {self.rows_wanted} asked for")
        if self.not_finite is not None:
            raise failed(f"{here} head {self.not_finite}: weights are not finite (NaN or infinite scores)")
        if report.row_sum_error > ROW_SUM_TOLERANCE.get(self.dtype, 1e-4):
            head = self.worst_head("row_sum")
            raise failed(f"{here} head {head}: a row's weights sum to 1 ± {report.row_sum_error:.2g}")
        if report.forbidden > 0.0:
            head = self.worst_head("forbidden")
            raise failed(f"{here} head {head}: weight {report.forbidden:.2g} on keys that the mask forbids")
        kind = self.output.dtype if self.output is not None else self.operation and self.operation.query.dtype
        tolerance = OUTPUT_TOLERANCE.get(kind or torch.float32, 1e-2)
        if report.output_error is not None and not math.isfinite(report.output_error):
            raise failed(
                f"{here} head {self.worst_head('output')}: the model's own output is not finite (NaN or infinite) "
                f"in {str(kind).removeprefix('torch.')}"
            )
        if report.output_error is not None and not report.output_error <= tolerance:
            raise failed(
                f"{here} head {self.worst_head('output')}: recomputed output differs from the model's own by "
                f"{report.output_error:.2g} of its largest value (allowed: {tolerance:g})"
            )


def where(layer: AttentionLayer) -> str:
    """Name a layer in a message."""
    stack = f"{layer.stack} " if layer.stack else ""
    return f"{stack}{layer.kind} layer {layer.index}"


def _largest(values: Tensor) -> float:
    """Return the largest absolute value in one step, far faster than a norm; no number where one of them is none."""
    if not values.numel():
        return 0.0
    low, high = map(float, torch.aminmax(values.float()))
    return max(-low, high)


def _largest_finite(values: Tensor) -> float:
    """Return the largest absolute value of those that are finite."""
    largest = _largest(values)
    return largest if math.isfinite(largest) else _largest(values.nan_to_num(0.0, 0.0, 0.0))


def failed(what: str) -> CaptureError:
    """Make the error of a check that failed."""
    return CaptureError(
        f"self-check failed: {what}", "--no-verify shows the numbers anyway, marked as unverified"
    )


def _some_rows(rows: int) -> list[slice]:
    """Return stretches of a few rows from the beginning, the middle and the end."""
    size = min(SAMPLED_ROWS, rows)
    return [slice(first, first + size) for first in sorted({0, (rows - size) // 2, rows - size})]


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


def _live_rows(block: WeightBlock, sums: Tensor) -> Tensor | None:
    """Return which rows have any allowed key, broadcast to ``(batch, heads, rows)``; None where all have."""
    if block.allowed is None or (block.scores is not None and bool((sums > 0).all())):
        return None  # a tile's rows without keys have no weight
    live = block.allowed.any(dim=-1)
    if bool(live.all()):
        return None
    batch, _, rows, _ = block.weights.shape
    return live.expand(batch, live.shape[1], rows)
