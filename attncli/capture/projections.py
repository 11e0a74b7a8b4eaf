"""What a network's innermost modules took and gave around an attention operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

_SAME = 1e-4
"""How far two numbers that should be the same may be apart, relative to the largest of them."""

_MULTIPLE = 1e-3
"""How far a tensor may be from the multiple of another, relative to its own length."""

_SHORT_FLOATS = 2e-2
"""Likewise for half-precision floats."""

_CHECKED_ROWS = 4
"""A linear map is run again on so many positions."""

_LONGER = (32.0, 256.0)
"""A norm is run again on its input made so many times as long."""

_ROUGHLY = 0.1
"""How far a norm's output may be from that: what it adds to the variance makes short vectors a little shorter."""


@dataclass(frozen=True)
class Leaf:
    """One execution of a module, most often of one that contains no others."""

    name: str
    module: nn.Module
    input: Tensor
    output: Tensor


class Leaves:
    """Remembers what runs in a network until it is told to begin anew.

    Args:
        every: Whether modules that contain others are remembered too, after these: a mixture of experts.
    """

    def __init__(self, network: nn.Module, *, every: bool = False) -> None:
        self._network, self._every = network, every
        self._ran: list[Leaf] = []

    def take(self) -> tuple[Leaf, ...]:
        """Return what has run since the last time, in order, and forget it."""
        ran, self._ran = tuple(self._ran), []
        return ran

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what runs inside the block."""
        leaves = (
            (name, module) for name, module in self._network.named_modules() if self._every or is_leaf(module)
        )
        handles = [module.register_forward_hook(self._hook(name)) for name, module in leaves]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self._ran = []

    def _hook(self, name: str) -> Any:
        def after(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if isinstance(output, tuple) and output:
                output = output[0]
            if args and isinstance(args[0], Tensor) and isinstance(output, Tensor):
                self._ran.append(Leaf(name, module, args[0], output))

        return after


def is_leaf(module: nn.Module) -> bool:
    """Return whether a module contains no others."""
    return next(module.children(), None) is None


def weight_of(module: nn.Module) -> Tensor | None:
    """Return a linear module's weight as ``(in, out)`` in float32; None for any other module."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2 or not weight.is_floating_point():
        return None
    if isinstance(module, nn.Linear):
        return weight.float().mT
    return weight.float() if type(module).__name__ == "Conv1D" else None  # transformers' own, of GPT-2


def first_input(ran: Sequence[Leaf], inside: str) -> Tensor | None:
    """Return what an attention module's first linear module was given."""
    linear = (
        leaf for leaf in ran if leaf.name.startswith(f"{inside}.") and weight_of(leaf.module) is not None
    )
    return next((of_first_text(leaf.input) for leaf in linear), None)


def of_first_text(tensor: Tensor) -> Tensor:
    """Return the part of a batch's first text."""
    return tensor[0] if tensor.dim() > 2 and len(tensor) else tensor


def shaped(tensor: Tensor, shape: torch.Size) -> Tensor | None:
    """Return the first text's part of a tensor in a shape; None where it is of another size, or no floats."""
    tensor = of_first_text(tensor)
    fits = tensor.numel() == shape.numel() and tensor.is_floating_point()
    return tensor.reshape(shape).float() if fits else None


def same(one: Tensor, other: Tensor, tolerance: float = _SAME) -> bool:
    """Return whether two matrices are the same, each row by the measure of its own largest number."""
    one, other = one.float(), other.float()
    return bool(((one - other).abs().amax(-1) <= tolerance * other.abs().amax(-1).clamp(min=1e-6)).all())


def multiple(one: Tensor, other: Tensor) -> float | None:
    """Return what a tensor is times another, as a whole; None where it is not, or next to nothing."""
    size = float(other.square().sum())
    factor = float((one * other).sum()) / size if size else 0.0
    near = float((one - factor * other).norm()) <= _MULTIPLE * float(one.norm())
    return factor if near and abs(factor) > _MULTIPLE else None


def tolerance(tensor: Tensor) -> float:
    """Return how far apart numbers of a tensor's type may be that should be the same."""
    return _SHORT_FLOATS if tensor.dtype in (torch.float16, torch.bfloat16) else _SAME


def is_linear(leaf: Leaf) -> bool:
    """Return whether a module's output is its input times its weight, and its bias."""
    weight = weight_of(leaf.module)
    if weight is None or leaf.input.shape[-1] != len(weight):
        return False
    given = leaf.input.reshape(-1, len(weight))[:_CHECKED_ROWS].float()
    bias = getattr(leaf.module, "bias", None)
    made = given @ weight + (bias.float() if isinstance(bias, Tensor) else 0.0)
    return same(made, leaf.output.reshape(-1, weight.shape[1])[:_CHECKED_ROWS], tolerance(leaf.output))


def is_norm(leaf: Leaf) -> bool:
    """Return whether a module gives the same for its input made longer, and not just the same for any input."""
    if leaf.input.shape != leaf.output.shape or not leaf.input.is_floating_point():
        return False
    try:
        made = [leaf.module.forward(leaf.input * longer) for longer in _LONGER]
    except (RuntimeError, TypeError):  # it takes more than its input
        return False
    if not all(isinstance(one, Tensor) and bool(one.isfinite().all()) for one in made):
        return False
    near = 10 * tolerance(leaf.output)  # what a norm adds to the variance counts for short vectors
    flat = made[1].reshape(-1, made[1].shape[-1])
    varied = len(flat) == 1 or not same(flat[1:], flat[:1].expand_as(flat[1:]))
    return varied and same(made[0], made[1], near) and same(leaf.output, made[0], _ROUGHLY)


def by_position(output: Tensor, count: int) -> list[Tensor]:
    """Return an output as ``(positions, numbers)``: each way to read it, as positions or heads come first."""
    output = of_first_text(output)
    found = []
    if output.is_floating_point() and output.dim() >= 2 and output.shape[0] == count:
        found.append(output.reshape(count, -1))
    if output.is_floating_point() and output.dim() == 3 and output.shape[1] == count:
        found.append(output.transpose(0, 1).reshape(count, -1))
    return found
