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
        """Return what has run since the last time, in order, and forget it."""
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


def tolerance(tensor: Tensor) -> float:
    """Return how far apart numbers of a tensor's type may be that should be the same."""
    return _SHORT_FLOATS if tensor.dtype in (torch.float16, torch.bfloat16) else _SAME
