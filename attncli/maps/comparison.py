"""Variants side by side on the same queries, keys and values: what each of them keeps of full attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli import registry
from attncli.attention.operation import AttentionOperation
from attncli.attention.variants import Variant
from attncli.errors import CaptureError, UsageError
from attncli.models.scratch import Mixing, open_variant
from attncli.record import AttentionLayer, Kind, Request, WeightBlock

Projections = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Comparison:
    """One variant beside full attention.

    Args:
        name: The variant, with ``causal`` after it where that was not asked for but it has no other form.
        settings: Its parameters' values, as a person reads them.
        weights: Effective weights of one head ``(query, key)``.
        relative_error: ‖output − full output‖ / ‖full output‖ over all heads (Frobenius norm).
        max_abs_error: Largest absolute difference between the outputs, over all heads.
        kl_bits: Mean over rows and heads of KL(variant ‖ full) in bits: what is lost of the full distribution; None for
            signed weights, which are no distribution.
    """

    name: str
    settings: str
    weights: NDArray[np.float32]
    relative_error: float
    max_abs_error: float
    kl_bits: float | None
    signed: bool


@dataclass
class HeadInputs:
    """Observer that keeps what one head of a model multiplies: its queries, keys and values."""

    kind: Kind
    layer: int
    head: int
    operation: AttentionOperation | None = None

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for one row of the head, so that the usual checks are made."""
        if (layer.kind, layer.index) != (self.kind, self.layer):
            return None
        if self.head >= layer.heads:
            raise UsageError(
                f"--head {self.head}: out of range", f"this model has heads 0 to {layer.heads - 1}"
            )
        return Request((self.head,), range(1))

    def update(self, block: WeightBlock) -> None:
        """Keep nothing: the operation has it all."""

    def inspect(self, layer: AttentionLayer, operation: AttentionOperation, output: Tensor | None) -> None:
        """Keep the operation."""
        self.operation = operation

    def projections(self) -> Projections:
        """Return query, key and value of the head, the query scaled as variants scale: by 1/√d_k.

        Raises:
            UsageError: The head's scores are made of more than these.
            CaptureError: They are not to be seen.
        """
        found = self.operation
        if found is None or found.value is None:
            raise CaptureError(f"the queries, keys and values of layer {self.layer} are not to be seen")
        more = {"position bias": found.bias, "soft-cap": found.softcap, "sink": found.sink}
        for what, given in more.items():
            if given is not None:
                raise UsageError(
                    f"layer {self.layer} has a {what} besides queries and keys, and the variants have none",
                    "choose a model whose scores are queries times keys",
                )
        query = found.query[:, self.head : self.head + 1] * (found.scale * found.query.shape[-1] ** 0.5)
        key, value = (
            part[:, self.head // (found.heads // part.shape[1])].unsqueeze(1)
            for part in (found.key, found.value)
        )
        return query.float(), key.float(), value.float()


def compare(
    projections: Projections, names: Sequence[str], assignments: Sequence[str], *, causal: bool, head: int
) -> list[Comparison]:
    """Run variants on query, key and value, in float64.

    Each is held against full attention of its own direction: causal against causal.

    Args:
        assignments: ``variant.parameter=value``.
        head: Whose weights are given.

    Raises:
        UsageError: A variant or parameter does not exist, or does not fit the length.
    """
    settings = _by_variant(assignments, names)
    query, key, value = (tensor.double() for tensor in projections)
    full = cast(Variant, registry.load("variants", "full"))
    found = []
    for name in names:
        mixing, is_causal = open_variant(name, settings.get(name, ()), causal=causal, length=query.shape[2])
        reference = full.weights(query, key, causal=is_causal)
        weights = _weights(mixing, query, key, is_causal)
        found.append(_compared(mixing, weights, reference, value, head, is_causal and not causal))
    return found


def default_variants(causal: bool) -> list[str]:
    """Name all variants that have the form asked for, full attention first."""
    known = registry.entries("variants")
    names = [name for name, entry in known.items() if entry.attributes["causal"] or not causal]
    return ["full", *(name for name in names if name != "full")]


def _weights(mixing: Mixing, query: Tensor, key: Tensor, causal: bool) -> Tensor:
    try:
        return mixing.variant.weights(query, key, causal=causal, **mixing.settings)
    except ValueError as error:
        raise UsageError(f"{mixing.entry.name}: {error}") from error


def _compared(
    mixing: Mixing, weights: Tensor, reference: Tensor, value: Tensor, head: int, says_causal: bool
) -> Comparison:
    difference = weights @ value - reference @ value
    norm = float(torch.linalg.vector_norm(reference @ value))
    signed = bool(mixing.entry.attributes["signed"])
    return Comparison(
        name=mixing.entry.name + (" (causal)" if says_causal else ""),
        settings=mixing.entry.told(mixing.settings),
        weights=weights[0, head].float().numpy(),
        relative_error=float(torch.linalg.vector_norm(difference)) / norm if norm else 0.0,
        max_abs_error=float(difference.abs().max()),
        kl_bits=None if signed else float(divergence_bits(weights, reference).mean()),
        signed=signed,
    )


def divergence_bits(weights: Tensor, reference: Tensor) -> Tensor:
    """Return KL(weights ‖ reference) of each row in bits: Σ p·log₂(p/q), 0 where p is 0.

    Finite wherever the weights put nothing on keys that the reference forbids.

    >>> divergence_bits(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.25, 0.75]]))
    tensor([2.])
    """
    ratio = torch.where(weights > 0, weights / reference, 1.0)
    return (weights * ratio.log2()).sum(dim=-1).clamp(min=0.0)


def _by_variant(assignments: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Sort ``variant.parameter=value`` by variant."""
    found: dict[str, list[str]] = {}
    for assignment in assignments:
        name, dot, rest = assignment.partition(".")
        if not dot or "=" not in rest:
            raise UsageError(
                f"--set {assignment}: expected variant.parameter=value", "like sliding-window.window=3"
            )
        if name not in names:
            raise UsageError(f"--set {assignment}: {name} is not compared", f"compared: {', '.join(names)}")
        found.setdefault(name, []).append(rest)
    return found
