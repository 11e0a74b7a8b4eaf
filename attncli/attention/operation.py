"""One attention operation as it really ran, and its weights row by row on demand.

A model's fast kernel never holds its weights. From the query, key, mask and modifiers that it was given they can be
made again, for just the heads and rows that somebody asks for, in float32 whatever the model's own type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncli.attention.core import attention_scores, attention_weights


@dataclass(frozen=True)
class AttentionOperation:
    """What one attention operation used, after position encoding.

    Args:
        query: Rotated, normalised, as multiplied.
        key: Query head a reads kv head ``a // (heads // kv_heads)``.
        value: None where it was not seen.
        scale: Multiplies QKᵀ.
        mask: True = may attend; None where every key is allowed.
        causal_offset: Where not None, key j is allowed for query i only if ``j ≤ i + causal_offset``, besides the mask.
        bias: Added to the scaled, capped scores.
        softcap: Bounds the scaled scores.
        sink: One logit for each head, or for each query of each head, that joins the denominator.
        first_query: Absolute position of the first query row.
        first_key: Absolute position of the first key.
    """

    query: Float[Tensor, "batch heads query head_dim"]
    key: Float[Tensor, "batch kv_heads key head_dim"]
    value: Float[Tensor, "batch value_heads key value_dim"] | None
    scale: float
    mask: Bool[Tensor, "#batch #heads #query key"] | None = None
    causal_offset: int | None = None
    bias: Float[Tensor, "#batch #heads #query #key"] | None = None
    softcap: float | None = None
    sink: Float[Tensor, " heads"] | Float[Tensor, "#batch heads #query 1"] | None = None
    first_query: int = 0
    first_key: int = 0

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return self.query.shape[1]

    @property
    def kv_heads(self) -> int:
        """Number of key/value heads."""
        return self.key.shape[1]

    @property
    def rows(self) -> int:
        """Number of query rows."""
        return self.query.shape[2]

    @property
    def keys(self) -> int:
        """Number of keys."""
        return self.key.shape[2]

    def allowed(self, heads: Sequence[int], rows: slice) -> Bool[Tensor, "#batch #heads rows key"] | None:
        """Return which keys each of some rows may attend to; None where all of them."""
        mask = None if self.mask is None else part_of(self.mask, heads, rows)
        if self.causal_offset is None:
            return mask
        query = torch.arange(rows.start, rows.stop, device=self.query.device).unsqueeze(-1)
        key = torch.arange(self.keys, device=self.query.device)
        causal = (key <= query + self.causal_offset)[None, None]
        return causal if mask is None else mask & causal

    def weights(self, heads: Sequence[int], rows: slice) -> Float[Tensor, "batch heads rows key"]:
        """Make the weights of some heads and rows, in float32 (float64 stays).

        Args:
            heads: Query heads, in the order wanted.
            rows: Query rows counted from this operation's first, with both ends set.
        """
        allowed = self.allowed(heads, rows)
        return attention_weights(self._scores(heads, rows), allowed, sink=self._sink(heads, rows))

    def output(
        self,
        weights: Float[Tensor, "batch heads rows part_of_key"],
        heads: Sequence[int],
        keys: slice = slice(None),
    ) -> Float[Tensor, "batch heads rows value_dim"] | None:
        """Multiply weights by the value, to hold against what the model's own kernel returned.

        Args:
            keys: Which keys the weights are for, where they leave out some that have none.
        """
        if self.value is None:
            return None
        group_size = self.heads // self.value.shape[1]
        if group_size == 1:
            return weights @ self._kv(self.value, heads)[:, :, keys]
        # The rows of all heads that read one kv head go into one product, so that no value is repeated.
        outputs = []
        for kv_head, places in groupby(range(len(heads)), lambda place: heads[place] // group_size):
            group = list(places)
            rows = weights[:, group[0] : group[-1] + 1]
            value = precise(self.value[:, kv_head, keys])
            outputs.append((rows.flatten(1, 2) @ value).view(*rows.shape[:3], -1))
        return torch.cat(outputs, dim=1)

    def _scores(self, heads: Sequence[int], rows: slice) -> Tensor:
        query = precise(heads_of(self.query, heads)[:, :, rows])
        bias = None if self.bias is None else precise(part_of(self.bias, heads, rows))
        return attention_scores(
            query, self._kv(self.key, heads), scale=self.scale, softcap=self.softcap, bias=bias
        )

    def _kv(self, tensor: Tensor, heads: Sequence[int]) -> Tensor:
        if tensor.shape[1] == self.heads:
            return precise(heads_of(tensor, heads))
        group = self.heads // tensor.shape[1]  # keys and values may be shared by different numbers of heads
        return precise(tensor[:, [head // group for head in heads]])

    def _sink(self, heads: Sequence[int], rows: slice) -> Tensor | None:
        if self.sink is None:
            return None
        return precise(
            part_of(self.sink.reshape(1, -1, 1, 1) if self.sink.dim() == 1 else self.sink, heads, rows)
        )


def heads_of(tensor: Tensor, heads: Sequence[int]) -> Tensor:
    """Cut heads out of a tensor, copying nothing where they follow each other."""
    if list(heads) == list(range(heads[0], heads[0] + len(heads))):
        return tensor[:, heads[0] : heads[0] + len(heads)]
    return tensor[:, list(heads)]


def part_of(tensor: Tensor, heads: Sequence[int], rows: slice) -> Tensor:
    """Cut heads and rows out of a tensor whose axes may have size 1 to broadcast."""
    if tensor.shape[1] > 1:
        tensor = heads_of(tensor, heads)
    return tensor[:, :, rows] if tensor.shape[2] > 1 else tensor


def precise(tensor: Tensor) -> Tensor:
    """Make short floats float32; float64 stays."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()
