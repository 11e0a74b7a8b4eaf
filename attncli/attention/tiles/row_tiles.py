"""The weights of long attention operations, a tile at a time: what rules the speed of looking at them.

`AttentionOperation.weights` is the specification; this is the same in the form that a CPU likes:

- A tile holds some rows of some heads. The query heads that read one kv head are stacked, so that a key is never
  repeated and one matrix product serves the group; the product goes over the keys in pieces that stay in the cache.
- Keys that the mask rules out for all of a tile's rows (the future, or what a window has left) are not computed.
- Scores and weights live in buffers that are used again. A tile is good until the next one is made, or, with two
  `lanes`, the next but one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncli.attention.operation import AttentionOperation, heads_of, part_of, precise

MOST_ROWS = 128
"""Query rows of a tile: fewer make the product slow, more compute more of a causal mask's forbidden half."""

TILE_ELEMENTS = 2**21
"""Weights in a tile, as far as a single head's rows allow: 8 MiB each for scores and weights."""

_KEYS_AT_A_TIME = 2048

NEVER = -1e30
"""Stands for −∞ among the scores: its weight is 0 too, and 0 · NEVER is 0, where 0 · −∞ is no number."""


class RowTile(NamedTuple):
    """Some rows of some heads.

    Args:
        rows: Query rows, counted from the operation's first.
        keys: The keys that the tile holds; for its rows all others are ruled out.
        scores: What the weights are the softmax of, but for a constant: scaled, capped, biased, `NEVER` where
            not allowed.
        allowed: Which of the tile's keys each row may attend to; None where all.
        sums: What each row's weights sum to: added up where there is a sink, else 1 by softmax's definition, 0 for a
            row without keys; no number where the weights are none.
    """

    heads: tuple[int, ...]
    rows: slice
    keys: slice
    weights: Float[Tensor, "batch heads rows keys"]
    scores: Float[Tensor, "batch heads rows keys"]
    allowed: Bool[Tensor, "#batch #heads rows keys"] | None
    sums: Float[Tensor, "batch heads rows"]


class _Band(NamedTuple):
    """Some rows with the keys that any of them may attend to, in any head.

    Args:
        allowed: ``(#batch, #heads, rows, keys)``; None where all.
        denied: The opposite, of just those keys that some row is denied.
        denied_keys: Which keys those are, counted from the band's first.
        dead: Rows without any key, ``(#batch, #heads, rows, 1)``; None where there are none.
    """

    rows: slice
    keys: slice
    allowed: Tensor | None
    denied: Tensor | None = None
    denied_keys: slice = slice(0)
    dead: Tensor | None = None

    def of_heads(self, places: Sequence[int]) -> _Band:
        """Cut heads out, where they differ."""
        allowed, denied, dead = (
            tensor if tensor is None or tensor.shape[1] == 1 else tensor[:, list(places)]
            for tensor in (self.allowed, self.denied, self.dead)
        )
        return _Band(self.rows, self.keys, allowed, denied, self.denied_keys, dead)


@dataclass(frozen=True)
class RowTiles:
    """Cuts the weights of an operation into tiles.

    Args:
        heads: Query heads wanted, in ascending order.
        start: First query row wanted, counted from the operation's first.
        stop: Behind the last one.
        elements: How many weights a tile may hold, unless one row of one head has more.
        lanes: How many tiles are good at a time.
    """

    operation: AttentionOperation
    heads: tuple[int, ...]
    start: int
    stop: int
    elements: int = TILE_ELEMENTS
    lanes: int = 1

    def __iter__(self) -> Iterator[RowTile]:
        """Make the tiles, all heads of some rows one after another."""
        buffers = cycle([self._buffers() for _ in range(self.lanes)])
        keys = precise(self.operation.key)
        stairs = self._stairs()
        for rows in self._row_slices():
            band = self._band(rows) if stairs is None else self._step(rows, stairs)
            for heads in self._groups(_size(rows), _size(band.keys)):
                yield self._tile(band, heads, keys, next(buffers))

    def _row_slices(self) -> list[slice]:
        row_elements = max(1, self.operation.query.shape[0] * self.operation.keys)
        step = max(1, min(MOST_ROWS, self.elements // row_elements))
        return [slice(first, min(first + step, self.stop)) for first in range(self.start, self.stop, step)]

    def _groups(self, rows: int, keys: int) -> list[tuple[int, ...]]:
        """Put as many heads into a tile as its size allows, those of one kv head together."""
        most = max(1, self.elements // max(1, self.operation.query.shape[0] * rows * keys))
        by_kv = _by_kv_head(self.heads, self.operation)
        cut = [heads[i : i + most] for heads in by_kv for i in range(0, len(heads), most)]
        groups: list[tuple[int, ...]] = []
        for heads in cut:
            if groups and len(groups[-1]) + len(heads) <= most:
                groups[-1] += heads
            else:
                groups.append(heads)
        return groups

    def _band(self, rows: slice) -> _Band:
        used = self.operation
        stop = used.keys if used.causal_offset is None else rows.stop + used.causal_offset
        keys = slice(0, min(max(stop, 1), used.keys))
        if used.mask is None:
            return _banded(rows, keys, self._causal(rows, keys))
        allowed = used.allowed(self.heads, rows)
        assert allowed is not None
        reached = _any(allowed[..., keys].flatten(0, -2), 0).nonzero()
        if reached.numel():
            keys = slice(int(reached[0]), int(reached[-1]) + 1)
        return _banded(rows, keys, allowed[..., keys])

    def _stairs(self) -> Tensor | None:
        """Make what the allowed keys of all bands are parts of, where causality alone rules: ``(rows, keys + rows)``.

        It starts the last band's number of keys before the diagonal; None where another mask matters, or a row has no
        key.
        """
        used = self.operation
        if used.mask is not None or used.causal_offset is None or self.start + used.causal_offset < 0:
            return None
        rows = max((_size(rows) for rows in self._row_slices()), default=0)
        row = torch.arange(rows, device=used.query.device)
        column = torch.arange(-self.stop - used.causal_offset, rows, device=used.query.device)
        return (column <= row[:, None])[None, None]

    def _step(self, rows: slice, stairs: Tensor) -> _Band:
        """Return the band of some rows that only the future is hidden from."""
        offset = self.operation.causal_offset
        assert offset is not None
        width = min(rows.stop + offset, self.operation.keys)
        after = rows.start + offset + 1  # so many keys every row sees
        if after >= width:
            return _Band(rows, slice(0, width), None)
        first = self.stop - rows.start
        allowed = stairs[..., : _size(rows), first : first + width]
        return _Band(rows, slice(0, width), allowed, ~allowed[..., after:], slice(after, width))

    def _causal(self, rows: slice, keys: slice) -> Tensor | None:
        if self.operation.causal_offset is None:
            return None
        row = torch.arange(rows.start, rows.stop, device=self.operation.query.device).unsqueeze(-1)
        key = torch.arange(keys.start, keys.stop, device=self.operation.query.device)
        return (key <= row + self.operation.causal_offset)[None, None]

    def _buffers(self) -> tuple[Tensor, Tensor]:
        """Take room for the largest tile there may be. What is not written to takes no memory."""
        query = self.operation.query
        row = query.shape[0] * (self.operation.keys + 1)  # one more for a sink
        size = max(2 * self.elements, row * min(MOST_ROWS, max(0, self.stop - self.start)))
        kind = torch.float64 if query.dtype == torch.float64 else torch.float32
        scores, weights = (torch.empty(size, dtype=kind, device=query.device) for _ in range(2))
        return scores, weights

    def _tile(
        self, band: _Band, heads: tuple[int, ...], keys: Tensor, buffers: tuple[Tensor, Tensor]
    ) -> RowTile:
        used = self.operation
        width = _size(band.keys)
        shape = (used.query.shape[0], len(heads), _size(band.rows), width + (used.sink is not None))
        scores, weights = (_view(buffer, shape) for buffer in buffers)
        self._multiply(band, heads, keys, scores)
        self._modify(band, heads, scores[..., :width])
        band = band.of_heads([self.heads.index(head) for head in heads])
        if band.denied is not None:
            scores[..., band.denied_keys].masked_fill_(band.denied, NEVER)
        if used.sink is not None:
            scores[..., width] = precise(used.sink[list(heads)]).reshape(1, -1, 1)
        torch.ops.aten._softmax.out(scores, -1, False, out=weights)
        scores, weights = scores[..., :width], weights[..., :width]
        if band.dead is not None:
            weights.masked_fill_(band.dead, 0.0)  # softmax has spread them evenly
        sums = _sums(weights, band.dead, used.sink is not None)
        return RowTile(heads, band.rows, band.keys, weights, scores, band.allowed, sums)

    def _multiply(self, band: _Band, heads: tuple[int, ...], keys: Tensor, scores: Tensor) -> None:
        """Write scale · QKᵀ, one product for all heads that read one kv head."""
        used = self.operation
        query = precise(heads_of(used.query, heads)[:, :, band.rows])
        scale = used.scale if used.softcap is None else 2 * used.scale / used.softcap  # see `_modify`
        width, done = _size(band.keys), 0
        for group in _by_kv_head(heads, used):
            kv_head, part = group[0] // (used.heads // used.kv_heads), slice(done, done + len(group))
            done += len(group)
            for sequence in range(query.shape[0]):
                rows = query[sequence, part].reshape(-1, query.shape[-1])
                target = scores[sequence, part].view(len(rows), -1)
                key = keys[sequence, kv_head, band.keys]
                for first in range(0, width, _KEYS_AT_A_TIME):
                    piece = slice(first, min(first + _KEYS_AT_A_TIME, width))
                    target[:, piece].addmm_(rows, key[piece].T, beta=0, alpha=scale)

    def _modify(self, band: _Band, heads: tuple[int, ...], scores: Tensor) -> None:
        used = self.operation
        if used.softcap is not None:
            # cap · tanh(x) is 2·cap · σ(2x) − cap, and σ takes a third of the time of tanh. Softmax takes no notice of
            # −cap, but a sink beside the scores does.
            scores.sigmoid_().mul_(2 * used.softcap)
            if used.sink is not None:
                scores.sub_(used.softcap)
        if used.bias is not None:
            bias = part_of(used.bias, heads, band.rows)
            scores.add_(precise(bias[..., band.keys] if bias.shape[-1] > 1 else bias))


def _by_kv_head(heads: Sequence[int], operation: AttentionOperation) -> list[tuple[int, ...]]:
    """Sort heads into those that read the same kv head; they follow each other, since heads ascend."""
    group = operation.heads // operation.kv_heads
    found: dict[int, tuple[int, ...]] = {}
    for head in heads:
        found[head // group] = (*found.get(head // group, ()), head)
    return list(found.values())


def _banded(rows: slice, keys: slice, allowed: Tensor | None) -> _Band:
    if allowed is None:
        return _Band(rows, keys, None)
    denied = _any(~allowed.flatten(0, -2), 0).nonzero()
    if not denied.numel():
        return _Band(rows, keys, None)
    part = slice(int(denied[0]), int(denied[-1]) + 1)
    dead = ~_any(allowed, -1).unsqueeze(-1)
    return _Band(rows, keys, allowed, ~allowed[..., part], part, dead if bool(dead.any()) else None)


def _any(truth: Bool[Tensor, "..."], dim: int) -> Bool[Tensor, "..."]:
    """Reduce as `torch.any` does, over bytes, which is many times as fast on a CPU."""
    return truth.view(torch.uint8).amax(dim=dim).view(torch.bool)


def _sums(weights: Tensor, dead: Tensor | None, sink: bool) -> Tensor:
    if sink:
        flat = weights.flatten(0, -2)
        return torch.mv(flat, flat.new_ones(flat.shape[-1])).view(weights.shape[:-1])
    # One score that is no number makes a whole row so, whichever key is looked at.
    sums = weights[..., 0] * 0.0 + 1.0
    return sums if dead is None else sums.masked_fill(dead.squeeze(-1), 0.0)


def _view(buffer: Tensor, shape: tuple[int, ...]) -> Tensor:
    return buffer[: shape[0] * shape[1] * shape[2] * shape[3]].view(shape)


def _size(part: slice) -> int:
    return int(part.stop - part.start)
