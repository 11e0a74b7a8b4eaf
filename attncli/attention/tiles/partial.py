"""Attention over some of the keys at a time, and how such parts are joined.

A softmax over a union of key sets can be had from the sets one by one: each gives a row's numerator ``Σ eˢ·v``, its
denominator ``Σ eˢ`` and the maximum that was subtracted; two such parts are added after they are brought to the same
maximum. Powers are of two (``eˢ = 2^(s·log₂e)``, with the factor in the query's scale): torch's exp2 takes half the
time of its exp.

Reference:
    Milakov & Gimelshein 2018, Online normalizer calculation for softmax, arXiv 1805.02867.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

LOG2E = math.log2(math.e)

ROWS = 64
"""Query rows in a tile of the patterns: its scores stay in the cache, and little is computed beyond the pattern."""


@dataclass(frozen=True, slots=True)
class Partial:
    """Attention over some of the keys, before it is normalised.

    Args:
        numerator: ``Σ 2^(s − top)·v``.
        denominator: ``Σ 2^(s − top)``; 0 where a row has no key.
        top: A row's largest score in base two; −∞ where it has no key. Takes no gradient: no result depends on it.
    """

    numerator: Float[Tensor, "*batch rows value_dim"]
    denominator: Float[Tensor, "*batch rows 1"]
    top: Float[Tensor, "*batch rows 1"]

    def output(self) -> Float[Tensor, "*batch rows value_dim"]:
        """Normalise. A row without any key gives zeros."""
        return self.numerator / self.denominator.masked_fill(self.denominator == 0.0, 1.0)


def attend_part(
    query: Float[Tensor, "stacks rows head_dim"],
    key: Float[Tensor, "stacks keys head_dim"],
    value: Float[Tensor, "stacks keys value_dim"],
    bias: Float[Tensor, "..."],
) -> Partial:
    """Attend to some of the keys.

    Args:
        bias: 0 or −∞ (see `closed`), broadcast to the scores.
    """
    scores = _scores(query, key, bias, LOG2E)
    top = scores.detach().amax(dim=-1, keepdim=True)
    powers = scores.sub_(finite(top)).exp2_()
    return Partial(torch.bmm(powers, value), powers.sum(dim=-1, keepdim=True), top)


def attend_tile(
    query: Float[Tensor, "stacks rows head_dim"],
    key: Float[Tensor, "stacks keys head_dim"],
    value: Float[Tensor, "stacks keys value_dim"],
    bias: Float[Tensor, "..."],
    padding: Float[Tensor, "stacks 1 keys"] | None = None,
) -> Float[Tensor, "stacks rows value_dim"]:
    """Attend to all the keys that some rows have.

    Args:
        bias: As in `attend_part`; must leave every row a key.
        padding: A bias that may leave a row without any; such a row gives zeros.
    """
    if padding is not None:
        return attend_part(query, key, value, bias + padding).output()
    scores = _scores(query, key, bias, 1.0)
    weights = torch.softmax(scores, dim=-1, out=None if scores.requires_grad else scores)
    return torch.bmm(weights, value)


def _scores(query: Tensor, key: Tensor, bias: Tensor, factor: float) -> Tensor:
    # One product that starts from the bias: cheaper than to scale and to add apart.
    return torch.baddbmm(bias, query, key.mT, alpha=factor * query.shape[-1] ** -0.5)


def join(one: Partial, other: Partial) -> Partial:
    """Add two parts over disjoint sets of keys."""
    top = torch.maximum(one.top, other.top)
    first, second = torch.exp2(one.top - finite(top)), torch.exp2(other.top - finite(top))
    return Partial(
        one.numerator * first + other.numerator * second,
        one.denominator * first + other.denominator * second,
        top,
    )


def finite(top: Tensor) -> Tensor:
    """Replace −∞, the maximum over no keys, by 0: −∞ − (−∞) would be NaN."""
    return top.masked_fill(top == -torch.inf, 0.0)


def closed(allowed: Bool[Tensor, "*shape"], dtype: torch.dtype) -> Float[Tensor, "*shape"]:
    """Turn a mask into a bias: 0 where allowed, −∞ where not.

    >>> closed(torch.tensor([True, False]), torch.float32)
    tensor([0., -inf])
    """
    zero = torch.zeros((), dtype=dtype, device=allowed.device)
    return torch.where(allowed, zero, zero - torch.inf)


def extent(part: slice) -> int:
    """Count the positions of a slice.

    >>> extent(slice(1, 6, 2))
    3
    """
    return len(range(part.start, part.stop, part.step or 1))
