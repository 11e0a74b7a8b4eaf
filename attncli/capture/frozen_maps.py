"""Norms and gains as the linear maps that they are at the vectors they were given.

A norm divides each vector by a scale of its own. With the scale of the very vector that was seen, what is left is
linear, ``z ↦ γ ⊙ (z − mean(z)) / s``, so that it may be taken through the parts that the vector is a sum of. γ, the
mean and the bias are found by giving the module a few vectors: no family's names are known. What does not come out as
the module gave it is no such map.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from attncli.capture.projections import Leaf, is_leaf, same, shaped, tolerance, weight_of

_FAR = 1000.0
"""Vectors so long are given that what a norm adds to the variance does not count."""


@dataclass(frozen=True)
class Frozen:
    """``z ↦ gain ⊙ (z − mean(z)) / scale + bias``, a scale for each position; the mean stays where not `centred`."""

    gain: Float[Tensor, " dim"]
    bias: Float[Tensor, " dim"]
    scales: Float[Tensor, " positions"]
    centred: bool

    def direction(self, vectors: Float[Tensor, "*some dim"]) -> Float[Tensor, "*some dim"]:
        """Return what becomes of vectors before they are divided by a scale."""
        return self.gain * (vectors - vectors.mean(-1, keepdim=True) if self.centred else vectors)

    def back(self, vector: Float[Tensor, " dim"]) -> Float[Tensor, " dim"]:
        """Return the vector whose product with z is that of `vector` with ``direction(z)``."""
        turned = self.gain * vector
        return turned - turned.mean() if self.centred else turned


def freeze(leaf: Leaf, shape: torch.Size) -> Frozen | None:
    """Return what a module did as such a map; None where it did something else, or to vectors of another shape.

    Args:
        shape: ``(positions, dim)`` of the vectors.
    """
    given, made = shaped(leaf.input, shape), shaped(leaf.output, shape)
    if given is None or made is None or leaf.input.shape[-1] != shape[-1]:
        return None
    if weight_of(leaf.module) is not None or not is_leaf(leaf.module):
        return None
    given, made, near = given.double(), made.double(), tolerance(leaf.output)
    dice = torch.Generator().manual_seed(0)
    one, other = (_FAR * torch.randn(2, shape[-1], generator=dice, dtype=torch.float64)).to(given.device)
    probes = torch.stack([one, -one, other, 2 * one, one + _FAR])
    try:
        answers = leaf.module.forward(probes.to(leaf.input.dtype)[None])[0].double()
    except (RuntimeError, TypeError, ValueError, IndexError):  # it takes more than its input
        return None
    bias = (answers[0] + answers[1]) / 2
    of_one, of_other, of_twice, of_moved = (answers - bias)[[0, 2, 3, 4]]
    is_norm, is_gain = same(of_twice, of_one, near), same(of_twice, 2 * of_one, near)
    centred = is_norm and same(of_moved, of_one, near)
    if not (is_norm or is_gain):
        return None

    def size(vectors: Tensor) -> Tensor:
        middle = vectors - vectors.mean(-1, keepdim=True) if centred else vectors
        return middle.square().mean(-1).sqrt() if is_norm else torch.ones_like(vectors[..., 0])

    middle = one - one.mean() if centred else one
    gain = of_one * size(one) / middle
    found = Frozen(gain, bias, torch.ones_like(given[:, 0]), centred)
    if not same(found.direction(other) / size(other), of_other, near):
        return None
    turned = found.direction(given)
    if is_norm:
        found = replace(found, scales=turned.norm(dim=-1) / (made - bias).norm(dim=-1).clamp(min=1e-30))
    return found if same(turned / found.scales[:, None] + bias, made, near) else None
