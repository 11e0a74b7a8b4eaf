"""Queries, keys and values made ready for a variant: precise, free of padding, heads grouped with what they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncli.attention.core import precise
from attncli.attention.strided_views import cut
from attncli.attention.tiles.partial import closed


def without_padding(
    tensor: Float[Tensor, "batch kv_heads key dim"], key_mask: Bool[Tensor, "batch key"] | None
) -> Float[Tensor, "batch kv_heads key dim"]:
    """Zero what stands in padded slots: it may be NaN, and 0 · NaN is NaN."""
    if key_mask is None or bool(key_mask.all()):
        return tensor
    return tensor.masked_fill(~key_mask[:, None, :, None], 0.0)


@dataclass(frozen=True, slots=True)
class Stacked:
    """The inputs as stacks: one for each key/value head of each sequence, with the query heads that read it as rows.

    All query heads of a group read the same keys, so one product serves them, and nothing is repeated in memory.

    Args:
        query: ``(stacks, group, query, head_dim)``, where stacks is batch · kv_heads.
        padding: 0 for real keys, −∞ for padding; None where there is no mask.
    """

    query: Float[Tensor, "stacks group query head_dim"]
    key: Float[Tensor, "stacks key head_dim"]
    value: Float[Tensor, "stacks key value_dim"]
    padding: Float[Tensor, "stacks 1 key"] | None
    heads: int

    def rows(self, parts: Sequence[slice]) -> Iterator[Float[Tensor, "stacks group_rows head_dim"]]:
        """Cut out rows of every head, part by part, and stack the heads of a group."""
        return (part.flatten(1, 2) for part in cut(self.query, parts))

    def unstack(
        self, output: Float[Tensor, "stacks group_rows dim"]
    ) -> Float[Tensor, "batch heads rows dim"]:
        """Return a result its batch and heads back."""
        stacks, group = self.query.shape[:2]
        return output.reshape(stacks * group // self.heads, self.heads, -1, output.shape[-1])

    def spread(self, bias: Float[Tensor, "rows keys"]) -> Float[Tensor, "group_rows keys"]:
        """Repeat a bias for the heads of a group."""
        group = self.query.shape[1]
        return bias.repeat(group, 1) if group > 1 else bias


def stack(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    key_mask: Bool[Tensor, "batch key"] | None,
) -> Stacked:
    """Stack the inputs, in float32 or float64 and without what stands in padded slots.

    Raises:
        ValueError: They do not fit together; see `check_lengths`.
    """
    check_lengths(query, key, value, key_mask)
    batch, heads, kv_heads = query.shape[0], query.shape[1], key.shape[1]
    key, value = without_padding(precise(key), key_mask), without_padding(precise(value), key_mask)
    padding = None
    if key_mask is not None:
        padding = closed(key_mask, key.dtype).repeat_interleave(kv_heads, dim=0).unsqueeze(1)
    stacks = batch * kv_heads
    return Stacked(
        precise(query).reshape(stacks, heads // kv_heads, *query.shape[2:]),
        key.reshape(stacks, *key.shape[2:]),
        value.reshape(stacks, *value.shape[2:]),
        padding,
        heads,
    )


def check_lengths(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    key_mask: Bool[Tensor, "batch key"] | None,
) -> None:
    """Check that the tensors fit together.

    Raises:
        ValueError: They differ in an axis that must be the same, or the mask is not boolean.
    """
    if query.shape[0] != key.shape[0] or query.shape[-1] != key.shape[-1]:
        raise ValueError(
            "query and key must have the same batch and head_dim, "
            f"got query {tuple(query.shape)} and key {tuple(key.shape)}"
        )
    if key.shape[:3] != value.shape[:3]:
        raise ValueError(
            "key and value must have the same batch, kv_heads and length, "
            f"got key {tuple(key.shape)} and value {tuple(value.shape)}"
        )
    if query.shape[1] % key.shape[1]:
        raise ValueError(
            f"kv_heads must divide heads, got {key.shape[1]} kv_heads for {query.shape[1]} heads"
        )
    if key_mask is None:
        return
    if key_mask.dtype != torch.bool:
        raise ValueError(f"key_mask must be boolean (True = a real key), got {key_mask.dtype}")
    if key_mask.shape != (key.shape[0], key.shape[2]):
        expected = (key.shape[0], key.shape[2])
        raise ValueError(f"key_mask must be (batch, key) = {expected}, got {tuple(key_mask.shape)}")


def check_self_attention(name: str, query_len: int, key_len: int) -> None:
    """Check that there are as many keys as queries.

    Raises:
        ValueError: There are not.
    """
    if query_len != key_len:
        raise ValueError(
            f"{name} is self-attention: expected as many keys as queries, got {key_len} for {query_len}"
        )
