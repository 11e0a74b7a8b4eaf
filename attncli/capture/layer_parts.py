"""What becomes of the heads' outputs of a layer until they are part of the residual stream again.

    after  = norm?( stream + gain?(heads · W_O + b_O) )

Each part is found by what it computes (`output_projection`, `frozen_maps`). Of a layer that does something else it is
said what was not found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from attncli.attention.operation import AttentionOperation
from attncli.capture.frozen_maps import Frozen, freeze
from attncli.capture.output_projection import OutputProjection, Sum, find_output_projection, find_sum
from attncli.capture.projections import Leaf, Leaves, multiple, same, shaped, tolerance
from attncli.record import AttentionLayer, Kind, Request


@dataclass(frozen=True)
class LayerParts:
    """The parts of one layer's attention, at the vectors that it was given.

    Args:
        projection: Takes the heads' outputs, side by side, to the model's size.
        branch: What the projection's output goes through before it is added: a norm, a gain; None where nothing.
        sum: Where it is added to the residual stream; None where no such sum was seen.
        after: The norm that the sum goes through before it is the stream; None where the sum itself goes on.
        unsure: Why the sum is not known to be what goes on; empty where it is.
        factor: What the layer multiplies its parts' outputs by before they are added.
    """

    projection: OutputProjection
    branch: Frozen | None
    sum: Sum | None
    after: Frozen | None
    unsure: str = ""
    factor: float = 1.0

    @property
    def branch_output(self) -> Float[Tensor, "positions model_dim"]:
        """What is added to the stream."""
        made = self.projection.output
        if self.branch is None:
            return made
        return self.branch.direction(made.double()) / self.branch.scales[:, None] + self.branch.bias


def find_parts(before: Sequence[Leaf], after: Sequence[Leaf], heads: Tensor) -> LayerParts | None:
    """Find a layer's parts among what ran before and after its attention; None without an output projection.

    Args:
        heads: The operation's output, ``(positions, heads, value_dim)``.
    """
    projection = find_output_projection(before, after, heads)
    if projection is None:
        return None
    for branch, output, place in reversed(list(_branches(after, projection))):
        found = find_sum(before, after, output, place)
        if found is None:
            continue
        if found.beside is not None:
            return LayerParts(projection, branch, found, None)
        norm, unsure = _norm_after(after, found)
        return LayerParts(projection, branch, found, norm, unsure)
    return _scaled(before, after, projection) or LayerParts(projection, None, None, None)


def _scaled(before: Sequence[Leaf], after: Sequence[Leaf], projection: OutputProjection) -> LayerParts | None:
    """Find a layer that multiplies its output by one number before it is added."""
    output = projection.output
    known = (shaped(leaf.input, output.shape) for leaf in before)
    streams = [stream for stream in known if stream is not None and bool(stream.any())]
    for place, leaf in enumerate(after[projection.place + 1 :], projection.place + 1):
        total = shaped(leaf.input, output.shape)
        if total is None:
            continue
        for stream in streams:
            factor = multiple(total - stream, output)
            if factor is not None:
                every = torch.full_like(output[0], factor, dtype=torch.float64)
                scales = torch.ones_like(output[:, 0], dtype=torch.float64)
                branch = Frozen(every, torch.zeros_like(every), scales, centred=False)
                found = Sum(stream, total, place, None)
                return LayerParts(projection, branch, found, *_norm_after(after, found, factor), factor)
    return None


def _branches(
    after: Sequence[Leaf], projection: OutputProjection
) -> Iterator[tuple[Frozen | None, Tensor, int]]:
    """Yield what may be added to the stream: the projection's output, and what a norm or a gain made of it."""
    output = projection.output
    yield None, output, projection.place
    for place, leaf in enumerate(after[projection.place + 1 :], projection.place + 1):
        given = shaped(leaf.input, output.shape)
        if given is not None and same(given, output, tolerance(leaf.input)):
            frozen, made = freeze(leaf, output.shape), shaped(leaf.output, output.shape)
            if frozen is not None and made is not None and not same(made, output, tolerance(leaf.output)):
                yield frozen, made, place


def _norm_after(after: Sequence[Leaf], found: Sum, factor: float = 1.0) -> tuple[Frozen | None, str]:
    """Tell whether a sum goes on as it is or normed: by what the next part's output is added to.

    Args:
        factor: What the next part's output is multiplied by.

    Returns:
        The norm, or None where the sum itself goes on; and why this is not known, where it is not.
    """
    shape = found.total.shape
    norms = []
    for leaf in after[found.place :]:
        given, made = shaped(leaf.input, shape), shaped(leaf.output, shape)
        if given is not None and made is not None and same(given, found.total, tolerance(leaf.input)):
            frozen = freeze(leaf, shape)
            if frozen is not None and not same(made, given, tolerance(leaf.output)):
                norms.append((frozen, made))
    if not norms:
        return None, ""
    outputs = [shaped(leaf.output, shape) for leaf in after]
    for leaf in after[found.place :]:
        total, near = shaped(leaf.input, shape), tolerance(leaf.input)
        if total is None:
            continue
        for norm, base in ((None, found.total), *norms):
            if not same(total, base, near) and any(
                same(base[:1] + factor * one[:1], total[:1], near) and same(base + factor * one, total, near)
                for one in outputs
                if one is not None and one is not base and bool(one.any())
            ):
                return norm, ""
    return None, "what the next part's output is added to was not seen"


@dataclass
class PartsFinder:
    """Observer that finds the parts of every layer with a kind of attention, from one pass.

    Args:
        found: By layer; None where the output projection was not found.
    """

    kind: Kind
    leaves: Leaves
    found: dict[int, LayerParts | None] = field(default_factory=dict)
    _layer: int | None = None
    _heads: Tensor | None = None
    _before: tuple[Leaf, ...] = ()

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for as little as there is, of each layer."""
        if layer.kind != self.kind:
            return None
        self.close()
        self._layer = layer.index
        return Request((0,), range(1))

    def update(self, block: object) -> None:
        """Keep nothing of the weights."""

    def inspect(self, layer: AttentionLayer, operation: AttentionOperation, output: Tensor | None) -> None:
        """Keep the heads' outputs."""
        self._heads = None if output is None else output[0].transpose(0, 1)

    def close(self) -> None:
        """Look at what ran since the last attention of this kind."""
        ran = self.leaves.take()
        if self._layer is not None:
            with torch.inference_mode():
                parts = None if self._heads is None else find_parts(self._before, ran, self._heads)
                self._tell_before(parts)
                self.found[self._layer] = parts
        self._before, self._layer, self._heads = ran, None, None

    def finish(self) -> dict[int, LayerParts | None]:
        """Return what was found, when the model has run.

        The last layer's sum goes into a norm at the model's end: it goes on as that of the layer before does.
        """
        self.close()
        *others, last = sorted(self.found) or [0]
        parts, before = self.found.get(last), self.found.get(max(others, default=-1))
        if parts is not None and parts.unsure and before is not None and not before.unsure:
            self.found[last] = replace(parts, unsure="" if before.after is None else parts.unsure)
        return self.found

    def _tell_before(self, parts: LayerParts | None) -> None:
        """Tell what goes on of the layer before, where it has nothing but attention: this one's stream is its sum."""
        if parts is None or parts.sum is None or not self.found:
            return
        layer = max(self.found)
        before = self.found[layer]
        if before is not None and before.unsure and before.sum is not None:
            total, stream = before.sum.total, parts.sum.stream
            if total.shape == stream.shape and same(stream, total):
                self.found[layer] = replace(before, after=None, unsure="")
