"""What a head carries from where it looks, in place of its weights.

    value          ‖α · v‖                                 the value vectors' length
    norm           ‖α · v · W_O(head)‖                     what the head adds to the layer's output
    contribution   ‖LN(Σ_heads α · v · W_O + residual)‖    what the layer gives on, with residual and norm

α is one number for a key and a row, so the first two are the weights times a length that is computed once for each
key and head. The third is the length of a sum over the heads: ``√(αᵀ G α)`` with the products G of the heads' vectors
at each key. So nothing of the size rows × keys × vector is ever made. The biases of W_O and of norms belong to no key
and are left out.

Reference:
    Kobayashi, Kuribayashi, Yokoi, Inui 2020, Attention is Not Only a Weight, eq. 5, arXiv 2004.10102; the same 2021,
    Incorporating Residual and Normalization Layers into Analysis of Masked Language Models, arXiv 2109.07152;
    Modarressi et al. 2022, GlobEnc, arXiv 2205.03286.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from attncli.attention.operation import AttentionOperation
from attncli.capture.checks import where
from attncli.capture.layer_parts import LayerParts
from attncli.errors import CaptureError
from attncli.record import AttentionLayer, WeightBlock

MeasureName = Literal["weight", "value", "norm", "contribution"]
MEASURES: tuple[MeasureName, ...] = ("weight", "value", "norm", "contribution")

_FORMULAS: Mapping[MeasureName, str] = {
    "weight": "weight",
    "value": "value ‖α·v‖",
    "norm": "norm ‖α·v·W_O‖",
    "contribution": "contribution, with residual and norm",
}

_KEYS_AT_ONCE = 128


@dataclass
class Measure:
    """A measure for every layer that observers look at.

    Args:
        raw: Whether lengths are shown as they are, not as shares of their row's sum.
        parts: By layer, for measures that need more than the values.
        from_start: Whether the first key of an operation is the text's first token: not in windows over a long text.
    """

    name: MeasureName
    raw: bool = False
    parts: Mapping[int, LayerParts | None] = field(default_factory=dict)
    from_start: bool = True
    _firsts: list[_First] = field(default_factory=list)

    @property
    def joins_heads(self) -> bool:
        """Whether it is of a whole layer: its heads' vectors are added up before their length is taken."""
        return self.name == "contribution"

    def shown_as(self, layer: AttentionLayer) -> AttentionLayer:
        """Return the layer as observers see it."""
        return replace(layer, heads=1, kv_heads=1) if self.joins_heads else layer

    def of(self, layer: AttentionLayer, operation: AttentionOperation) -> Measuring:
        """Get ready for one operation.

        Raises:
            CaptureError: The measure cannot be computed exactly there.
        """
        first = _First(operation)
        self._firsts.append(first)
        if operation.value is None:
            raise _refused(layer, self.name, "its values were not seen")
        if self.name == "value":
            lengths = operation.value.double().norm(dim=-1)
            return _ByKey(layer, self.raw, first, operation, lengths)
        parts = self.parts.get(layer.index)
        if parts is None:
            raise _refused(layer, self.name, "its output projection was not found")
        if parts.projection.between is not None:
            between = parts.projection.between
            raise _refused(
                layer, self.name, f"a {between} stands between its heads and the output projection"
            )
        if self.name == "norm":
            return _ByKey(layer, self.raw, first, operation, _lengths(operation, parts))
        if parts.sum is None or parts.unsure:
            reason = parts.unsure or "where its output is added to the residual stream was not seen"
            raise _refused(layer, self.name, reason)
        if parts.after is not None and parts.branch is not None:
            raise _refused(layer, self.name, "its output is normed before and after it is added")
        return _Joined(layer, self.shown_as(layer), self.raw, first, operation, parts)

    @property
    def title(self) -> str:
        """What is shown, in a few words."""
        return f"{_FORMULAS[self.name]}{'' if self.raw else ', shares of each row’s sum'}"

    def first_token(self, rows: Collection[int] | None = None) -> tuple[float, float] | None:
        """Return the first token's mean share of the weights and of what they carry.

        Args:
            rows: The rows to look at; those after the first token alone count. All where None.
        """
        weights, shares = [], []
        for first in self._firsts:
            for row, (weight, share, heads) in enumerate(first.sums.T.tolist(), first.start):
                if self.from_start and row > 0 and heads and (rows is None or row in rows):
                    weights.append(weight / heads)
                    shares.append(share / heads)
        return (sum(weights) / len(weights), sum(shares) / len(shares)) if weights else None


def _refused(layer: AttentionLayer, name: str, reason: str) -> CaptureError:
    lesser = {"contribution": "norm", "norm": "value"}.get(name, "weight")
    return CaptureError(
        f"{where(layer)}: its {name} cannot be computed exactly: {reason}", f"--measure {lesser}"
    )


class _First:
    """Adds up what the first token gets of each row: of the weights, of what is carried; and over how many heads."""

    def __init__(self, operation: AttentionOperation) -> None:
        self.start, self.sums = operation.first_query, torch.zeros(3, operation.rows)

    def add(self, block: WeightBlock, shares: Tensor) -> None:
        if block.first_key or not block.weights.shape[-1]:
            return
        rows = slice(block.rows.start - self.start, block.rows.stop - self.start)
        weights, shares = block.weights[0, :, :, 0], shares[0, :, :, 0]
        seen = torch.ones_like(weights, dtype=torch.bool)
        if block.allowed is not None:
            seen = block.allowed[0, :, :, 0].expand_as(weights)
        found = torch.stack([(one * seen).sum(0) for one in (weights, shares.to(weights), seen)])
        self.sums[:, rows] += found.float().cpu()


@dataclass
class Measuring:
    """Turns the blocks of one operation into those that observers see."""

    layer: AttentionLayer
    raw: bool
    first: _First

    def of(self, block: WeightBlock) -> Iterator[WeightBlock]:
        """Yield what observers see instead of a block; some measures wait until all heads of its rows are there."""
        raise NotImplementedError

    def _shown(self, block: WeightBlock, sizes: Tensor, of: WeightBlock) -> WeightBlock:
        totals = sizes.sum(dim=-1, keepdim=True)
        shares = sizes / torch.where(totals > 0, totals, 1.0)
        self.first.add(of, shares)
        return replace(block, weights=(sizes if self.raw else shares).float(), scores=None, sums=None)


class _ByKey(Measuring):
    """The weights times a length of each key and head."""

    def __init__(
        self,
        layer: AttentionLayer,
        raw: bool,
        first: _First,
        operation: AttentionOperation,
        lengths: Float[Tensor, "batch value_or_query_heads key"],
    ) -> None:
        super().__init__(layer, raw, first)
        self._lengths = lengths.repeat_interleave(operation.heads // lengths.shape[1], dim=1)
        self._first_key = operation.first_key

    def of(self, block: WeightBlock) -> Iterator[WeightBlock]:
        start = block.first_key - self._first_key
        lengths = self._lengths[:, list(block.heads), start : start + block.weights.shape[-1]]
        yield self._shown(block, block.weights * lengths[:, :, None].to(block.weights.dtype), block)


def _matrices(parts: LayerParts, heads: int) -> Float[Tensor, "heads value_dim model_dim"]:
    """Return each head's part of the output projection."""
    weight = parts.projection.weight.double()
    return weight.view(heads, -1, weight.shape[-1])


def _lengths(operation: AttentionOperation, parts: LayerParts) -> Float[Tensor, "batch heads key"]:
    """Return ‖v · W_O(head)‖ of each key and head.

    W_Oᵀ = Q·R, so that ‖v · W_O‖ = ‖R · v‖: as exact, with a matrix of the size of v.
    """
    assert operation.value is not None
    small = torch.linalg.qr(_matrices(parts, operation.heads).mT, mode="r").R
    value = operation.value.double().repeat_interleave(operation.heads // operation.value.shape[1], dim=1)
    lengths: Tensor = (value @ small.mT).norm(dim=-1)
    return lengths


class _Joined(Measuring):
    """The length of what all heads together take from a key, with the residual where that is the row's own key."""

    def __init__(
        self,
        layer: AttentionLayer,
        shown_as: AttentionLayer,
        raw: bool,
        first: _First,
        operation: AttentionOperation,
        parts: LayerParts,
    ) -> None:
        super().__init__(layer, raw, first)
        assert operation.value is not None and parts.sum is not None
        self._shown_as, self._operation = shown_as, operation
        turned, stream = parts.after or parts.branch, parts.sum.stream.double()
        self._scales = torch.ones_like(stream[:, 0]) if turned is None else turned.scales
        self._kept = stream if parts.after is None else parts.after.direction(stream) / self._scales[:, None]
        self._own = self._kept.square().sum(-1)
        self._products = torch.empty(
            operation.keys, operation.heads, operation.heads, dtype=torch.float64, device=stream.device
        )
        self._with_kept = torch.empty_like(self._products[:, 0])
        matrices = _matrices(parts, operation.heads)
        value = operation.value[0].double()
        for start in range(0, operation.keys, _KEYS_AT_ONCE):
            keys = slice(start, start + _KEYS_AT_ONCE)
            some = value[:, keys].repeat_interleave(operation.heads // len(value), dim=0)
            vectors = (some @ matrices).transpose(0, 1)  # (keys, heads, model_dim)
            vectors = vectors if turned is None else turned.direction(vectors)
            self._products[keys] = vectors @ vectors.mT
            self._with_kept[keys] = (vectors @ self._kept[keys, :, None])[..., 0]
        self._waiting: list[WeightBlock] = []

    def of(self, block: WeightBlock) -> Iterator[WeightBlock]:
        self._waiting.append(replace(block, weights=block.weights.double()))
        if sum(len(one.heads) for one in self._waiting) == self._operation.heads:
            yield self._together()

    def _together(self) -> WeightBlock:
        blocks, self._waiting = sorted(self._waiting, key=lambda one: one.heads), []
        rows, start = blocks[0].rows, min(one.first_key for one in blocks)
        stop = max(one.keys.stop for one in blocks)
        weights = torch.cat([_widened(one.weights, one, start, stop) for one in blocks], dim=1)
        masks = [one.allowed for one in blocks if one.allowed is not None]
        allowed = None
        if len(masks) == len(blocks):
            every = [
                _widened(mask.expand(-1, -1, len(rows), -1), one, start, stop)
                for mask, one in zip(masks, blocks, strict=True)
            ]
            allowed = torch.cat(every, dim=1).any(dim=1, keepdim=True)
        of = WeightBlock(self.layer, tuple(range(self._operation.heads)), rows, weights, allowed, start)
        shown = replace(of, layer=self._shown_as, heads=(0,))
        return self._shown(shown, self._sizes(of)[None, None], of)

    def _sizes(self, block: WeightBlock) -> Float[Tensor, "rows keys"]:
        at = [key - self._operation.first_key for key in block.keys]
        weights = block.weights[0].permute(2, 1, 0)  # (keys, rows, heads)
        squares = ((weights @ self._products[at]) * weights).sum(-1).T
        rows = torch.tensor([row - self._operation.first_query for row in block.rows])
        squares = squares / self._scales[rows, None].square()
        for place, row in enumerate(block.rows):
            if row in block.keys:
                key = row - block.first_key
                both = (weights[key, place] * self._with_kept[row - self._operation.first_key]).sum()
                own = row - self._operation.first_query
                squares[place, key] += 2 * both / self._scales[own] + self._own[own]
        return squares.clamp(min=0).sqrt()


def _widened(tensor: Tensor, block: WeightBlock, start: int, stop: int) -> Tensor:
    """Return a block's numbers over more keys; those that it leaves out are ruled out for its rows."""
    return torch.nn.functional.pad(tensor, (block.first_key - start, stop - block.keys.stop))
