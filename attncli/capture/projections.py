"""What a network's innermost modules took and gave around an attention operation, and which are its projections.

Nothing goes by names: a projection is known by what it computes. The one whose output holds a head's queries made the
queries; the linear one that was fed the heads' outputs, side by side, is the output projection. What is not found
this way is said not to be found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

_SAME = 1e-4
"""How far two numbers that should be the same may be apart, relative to the largest of them."""

_SHORT_FLOATS = 2e-2
"""Likewise for half-precision floats."""


@dataclass(frozen=True)
class Leaf:
    """One execution of a module that contains no others."""

    name: str
    module: nn.Module
    input: Tensor
    output: Tensor


class Leaves:
    """Remembers what runs in a network until it is told to begin anew."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._ran: list[Leaf] = []

    def take(self) -> tuple[Leaf, ...]:
        """Give what has run since the last time, in order, and forget it."""
        ran, self._ran = tuple(self._ran), []
        return ran

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what runs inside the block."""
        leaves = ((name, module) for name, module in self._network.named_modules() if _is_leaf(module))
        handles = [module.register_forward_hook(self._hook(name)) for name, module in leaves]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self._ran = []

    def _hook(self, name: str) -> Any:
        def after(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if args and isinstance(args[0], Tensor) and isinstance(output, Tensor):
                self._ran.append(Leaf(name, module, args[0], output))

        return after


def _is_leaf(module: nn.Module) -> bool:
    return next(module.children(), None) is None


@dataclass(frozen=True)
class Projected:
    """Where a head's queries, keys or values were last seen before their positions were put into them.

    Args:
        rows: As the module gave them, ``(positions, dim)``.
        factor: How many times as long the operation used them.
        source: What was projected, ``(positions, model_dim)``; None where no linear module made them.
    """

    rows: Tensor
    factor: float
    source: Tensor | None

    def turned(self, used: Tensor) -> bool:
        """Tell whether the rows were turned, not only made longer or shorter, before they were used."""
        difference = self.rows.float() * self.factor - used.float()
        return not float(difference.abs().max()) <= 1e-5 * float(used.abs().max().clamp(min=1e-6))


def find_projection(ran: Sequence[Leaf], rows: Tensor, inside: str) -> Projected | None:
    """Find the module whose output holds a head's vectors as they are, or turned by rotary positions.

    A rotation keeps each vector's length and leaves position 0 as it was. So the part is known by that: as wide as
    the vectors, as long in every position, up to one factor for all, and the same at the first.

    Args:
        ran: What ran before the operation.
        rows: ``(positions, dim)``, as the operation used them.
        inside: Name of the attention module, whose own modules may follow one another (a low-rank query).
    """
    for place in range(len(ran) - 1, -1, -1):
        found = _part_like(ran[place].output, rows)
        if found is not None:
            return Projected(*found, _source(ran, place, inside))
    return None


def first_input(ran: Sequence[Leaf], inside: str) -> Tensor | None:
    """Give what an attention module's first linear module was given."""
    linear = (
        leaf for leaf in ran if leaf.name.startswith(f"{inside}.") and weight_of(leaf.module) is not None
    )
    return next((_of_first_text(leaf.input) for leaf in linear), None)


def _part_like(output: Tensor, rows: Tensor) -> tuple[Tensor, float] | None:
    parts = _parts(_of_first_text(output), *rows.shape) if output.is_floating_point() else None
    if parts is None:
        return None
    parts, rows = parts.float(), rows.float()
    lengths, wanted = parts.norm(dim=-1), rows.norm(dim=-1, keepdim=True)
    factor = (wanted * lengths).sum(dim=0) / lengths.square().sum(dim=0).clamp(min=1e-30)
    as_long = (lengths * factor - wanted).abs().amax(dim=0) <= _tolerance(output) * wanted.max()
    at_first = (parts[0] * factor.unsqueeze(-1) - rows[0]).norm(dim=-1) <= _tolerance(output) * wanted[0]
    found = torch.nonzero(as_long & at_first & (factor > 0)).flatten()
    return (parts[:, int(found[0])], float(factor[found[0]])) if len(found) else None


def _parts(output: Tensor, count: int, width: int) -> Tensor | None:
    """Cut an output into pieces as wide as a head: ``(positions, pieces, width)``; positions or heads come first."""
    if output.dim() >= 2 and output.shape[0] == count and output[0].numel() % width == 0:
        return output.reshape(count, -1, width)
    if output.dim() == 3 and output.shape[1:] == (count, width):
        return output.transpose(0, 1)
    return None


def _of_first_text(tensor: Tensor) -> Tensor:
    return tensor[0] if tensor.dim() > 2 and len(tensor) else tensor


def _source(ran: Sequence[Leaf], place: int, inside: str) -> Tensor | None:
    """Follow an attention module's own modules back to what the first linear one was given."""
    taken = ran[place].input.untyped_storage().data_ptr()
    for earlier in range(place - 1, -1, -1):
        own = ran[earlier].name.startswith(f"{inside}.")
        if own and ran[earlier].output.untyped_storage().data_ptr() == taken:
            return _source(ran, earlier, inside)
    linear = weight_of(ran[place].module) is not None
    return _of_first_text(ran[place].input) if linear else None


@dataclass(frozen=True)
class OutputProjection:
    """The linear map that the heads' outputs, side by side, go through.

    Args:
        weight: ``(heads · value_dim, model_dim)``.
        output: What it gave, ``(positions, model_dim)``.
        place: Where it stands among the modules that ran after the operation.
    """

    weight: Tensor
    bias: Tensor | None
    output: Tensor
    place: int


def find_output_projection(ran: Sequence[Leaf], heads_side_by_side: Tensor) -> OutputProjection | None:
    """Find the first linear module that was given the operation's output and does with it what its weight says.

    Args:
        ran: What ran after the operation.
        heads_side_by_side: ``(positions, heads · value_dim)``.
    """
    for place, leaf in enumerate(ran):
        weight = weight_of(leaf.module)
        given = _shaped(leaf.input, heads_side_by_side.shape)
        if weight is None or given is None or not _same(given, heads_side_by_side):
            continue
        bias = getattr(leaf.module, "bias", None)
        bias = bias.float() if isinstance(bias, Tensor) else None
        output = _of_first_text(leaf.output).reshape(heads_side_by_side.shape[0], -1).float()
        made = heads_side_by_side.float() @ weight + (0.0 if bias is None else bias)
        if _same(made, output, _tolerance(leaf.output)):
            return OutputProjection(weight, bias, output, place)
    return None


def weight_of(module: nn.Module) -> Tensor | None:
    """Give a linear module's weight as ``(in, out)`` in float32; None for any other module."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2 or not weight.is_floating_point():
        return None
    if isinstance(module, nn.Linear):
        return weight.float().mT
    return weight.float() if type(module).__name__ == "Conv1D" else None  # transformers' own, of GPT-2


def find_stream(before: Sequence[Leaf], after: Sequence[Leaf], projection: OutputProjection) -> Tensor | None:
    """Find what the layer's output is added to: something seen before whose sum with it is seen afterwards.

    Where attention and feed-forward network run side by side, the sum that is seen has the network's output in it too.

    Returns:
        ``(positions, model_dim)``, or None where no such sum was seen: it is then not known.
    """
    shape = projection.output.shape
    known = [_shaped(leaf.input, shape) for leaf in before]
    beside = [_shaped(leaf.output, shape) for leaf in (*before, *after) if weight_of(leaf.module) is not None]
    for leaf in after[projection.place + 1 :]:
        total = _shaped(leaf.input, shape)
        if total is None:
            continue
        for other in (None, *(output for output in beside if output is not None)):
            rest = total - projection.output - (0.0 if other is None else other)
            for stream in known:
                if stream is not None and bool(stream.any()) and _same(rest, stream, _tolerance(leaf.input)):
                    return stream
    return None


def _shaped(tensor: Tensor, shape: torch.Size) -> Tensor | None:
    """Give the first text's part of a tensor in a shape; None where it has another number of elements, or no floats."""
    tensor = _of_first_text(tensor)
    fits = tensor.numel() == shape.numel() and tensor.is_floating_point()
    return tensor.reshape(shape).float() if fits else None


def _same(one: Tensor, other: Tensor, tolerance: float = _SAME) -> bool:
    """Tell whether two matrices are the same, each row by the measure of its own largest number."""
    one, other = one.float(), other.float()
    return bool(((one - other).abs().amax(-1) <= tolerance * other.abs().amax(-1).clamp(min=1e-6)).all())


def _tolerance(tensor: Tensor) -> float:
    return _SHORT_FLOATS if tensor.dtype in (torch.float16, torch.bfloat16) else _SAME
