"""Which earlier layer's keys and values a layer uses once more (Gemma 3n)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attncli.attention.operation import AttentionOperation
from attncli.errors import AttnCliError
from attncli.record import AttentionLayer, Observer, Request, Run, WeightBlock


@dataclass
class _SameInEarlierLayers:
    """Observer that looks for one layer's keys and values among those of the layers before it."""

    layer: AttentionLayer
    operation: AttentionOperation
    wanted: set[str]
    found: dict[str, int] = field(default_factory=dict)

    def request(self, layer: AttentionLayer) -> Request | None:
        earlier = layer.kind == self.layer.kind and layer.index < self.layer.index
        return Request((0,), range(1)) if earlier else None

    def update(self, block: WeightBlock) -> None:
        """Keep nothing: the weights are of no interest."""

    def inspect(self, layer: AttentionLayer, operation: AttentionOperation, output: Tensor | None) -> None:
        """Compare the operation's keys and values; the earliest layer counts."""
        pairs = {"K": (operation.key, self.operation.key), "V": (operation.value, self.operation.value)}
        for letter in self.wanted - self.found.keys():
            theirs, ours = pairs[letter]
            if theirs is not None and ours is not None and theirs.shape == ours.shape:
                if bool(ours.any()) and torch.equal(theirs, ours):
                    self.found[letter] = layer.index


def shared_with(
    run: Callable[[Sequence[Observer]], Run],
    layer: AttentionLayer,
    operation: AttentionOperation,
    wanted: set[str],
) -> dict[str, int]:
    """Run a source once more, to find the earlier layers whose keys and values a layer uses again.

    Args:
        wanted: ``K``, ``V`` or both.
    """
    if layer.index == 0:
        return {}
    looking = _SameInEarlierLayers(layer, operation, wanted)
    try:
        run([looking])
    except AttnCliError:  # an earlier layer's attention is not to be seen: nothing is known then
        return {}
    return looking.found
