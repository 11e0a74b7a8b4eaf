"""Which linear map takes the heads' outputs back to the residual stream, and what lies between.

It is known by what it computes: its input is the heads' outputs side by side, or what a norm made of them, or those
outputs times the sigmoid of something that another module gave (a gate).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from attncli.capture.projections import (
    Leaf,
    by_position,
    is_linear,
    is_norm,
    of_first_text,
    same,
    shaped,
    tolerance,
    weight_of,
)

Between = Literal["norm", "gate"]


@dataclass(frozen=True)
class OutputProjection:
    """The linear map that the heads' outputs, side by side, go through.

    Args:
        weight: ``(heads · value_dim, model_dim)``.
        given: What it was given, ``(positions, heads · value_dim)``: the heads' outputs, where nothing is between.
        output: What it gave, ``(positions, model_dim)``.
        place: Where it stands among the modules that ran after the operation.
        between: What the outputs went through before.
        gate: Name of the module that made the gate, where there is one.
    """

    weight: Tensor
    bias: Tensor | None
    given: Tensor
    output: Tensor
    place: int
    between: Between | None
    gate: str | None = None


def find_output_projection(
    before: Sequence[Leaf], after: Sequence[Leaf], heads: Tensor
) -> OutputProjection | None:
    """Find the first linear module that was given the operation's output, and does with it what its weight says.

    Args:
        before: What ran before the operation: a gate is among it.
        after: What ran after it.
        heads: The operation's output, ``(positions, heads, value_dim)``.
    """
    side_by_side = heads.flatten(1)
    for place, leaf in enumerate(after):
        given = shaped(leaf.input, side_by_side.shape)
        if given is None or not is_linear(leaf):
            continue
        near, gate = tolerance(leaf.input), None
        between: Between | None = None
        if not same(given, side_by_side, near):
            if any(_norms(one, side_by_side, given) for one in after[:place]):
                between = "norm"
            else:
                gate = _gate((*before, *after[:place]), heads, given.view(heads.shape), near)
                if gate is None:
                    continue
                between = "gate"
        weight, bias = weight_of(leaf.module), getattr(leaf.module, "bias", None)
        assert weight is not None
        bias = bias.float() if isinstance(bias, Tensor) else None
        output = of_first_text(leaf.output).reshape(len(heads), -1).float()
        return OutputProjection(weight, bias, given, output, place, between, gate)
    return None


def _norms(leaf: Leaf, side_by_side: Tensor, given: Tensor) -> bool:
    """Return whether a module was given the heads' outputs, and gave a norm of them that is what comes next."""
    took, made = shaped(leaf.input, side_by_side.shape), shaped(leaf.output, given.shape)
    if took is None or made is None or not same(took, side_by_side, tolerance(leaf.input)):
        return False
    return same(made, given, tolerance(leaf.output)) and is_norm(leaf)


def _gate(ran: Sequence[Leaf], heads: Tensor, given: Tensor, near: float) -> str | None:
    """Find the module by the sigmoid of whose numbers every head's output was multiplied; return its name.

    A gate has a number for each of a head's dimensions, or one for all of them.
    """
    for leaf in reversed(ran):
        for numbers in by_position(leaf.output, len(heads)):
            gate = numbers.float().sigmoid()
            if all(
                _head_gated(gate, heads[:, head].float(), given[:, head], near)
                for head in range(heads.shape[1])
            ):
                return leaf.name
    return None


def _head_gated(gate: Tensor, output: Tensor, given: Tensor, near: float) -> bool:
    limit = near * float(output.abs().max())
    fits = ((gate * output[:, :1] - given[:, :1]).abs() <= limit).all(0)
    for place in torch.nonzero(fits).flatten().tolist():
        for width in (output.shape[1], 1):
            own = gate[:, place : place + width]
            if own.shape[1] == width and bool(((own * output - given).abs() <= limit).all()):
                return True
    return False


@dataclass(frozen=True)
class Sum:
    """Where a residual stream and what is added to it were seen as one sum.

    Args:
        stream: ``(positions, model_dim)``, before.
        total: After.
        place: Of the module that was given the sum, among those that ran after the operation.
        beside: What a module gave that is in the sum too, where parts run side by side.
    """

    stream: Tensor
    total: Tensor
    place: int
    beside: Tensor | None


def find_stream(before: Sequence[Leaf], after: Sequence[Leaf], projection: OutputProjection) -> Tensor | None:
    """Find what the layer's output is added to, ``(positions, model_dim)``; None where no such sum was seen."""
    found = find_sum(before, after, projection.output, projection.place)
    return None if found is None else found.stream


def find_sum(before: Sequence[Leaf], after: Sequence[Leaf], output: Tensor, place: int) -> Sum | None:
    """Find what an output is added to: something seen before whose sum with it is seen afterwards.

    Where attention and feed-forward network run side by side, the sum that is seen has the network's output in it too.

    Args:
        output: ``(positions, model_dim)``.
        place: Of the module that gave it, in `after`.
    """
    known = [shaped(leaf.input, output.shape) for leaf in before]
    streams = [stream for stream in known if stream is not None and bool(stream.any())]
    beside = [
        shaped(leaf.output, output.shape) for leaf in (*before, *after) if weight_of(leaf.module) is not None
    ]
    for there, leaf in enumerate(after[place + 1 :], place + 1):
        total, near = shaped(leaf.input, output.shape), tolerance(leaf.input)
        if total is None:
            continue
        for other in (None, *(one for one in beside if one is not None)):
            rest = total - output - (0.0 if other is None else other)
            for stream in streams:
                if same(rest[:1], stream[:1], near) and same(rest, stream, near):
                    return Sum(stream, total, there, other)
    return None
