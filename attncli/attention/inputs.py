"""Queries, keys and values made ready for a variant: precise, free of padding, heads grouped with what they read."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def precise(tensor: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Give float32, or float64 where it is: a softmax in half precision would double the error."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def without_padding(
    tensor: Float[Tensor, "batch kv_heads key dim"], key_mask: Bool[Tensor, "batch key"] | None
) -> Float[Tensor, "batch kv_heads key dim"]:
    """Zero what stands in padded slots: it may be NaN, and 0 · NaN is NaN."""
    if key_mask is None or bool(key_mask.all()):
        return tensor
    return tensor.masked_fill(~key_mask[:, None, :, None], 0.0)


def group_queries(
    query: Float[Tensor, "batch heads query head_dim"], kv_heads: int
) -> Float[Tensor, "batch kv_heads group query head_dim"]:
    """Set the query heads that read one key/value head side by side; a view.

    Raises:
        ValueError: The kv heads do not divide the heads.
    """
    heads = query.shape[1]
    if heads % kv_heads:
        raise ValueError(f"kv_heads must divide heads, got {kv_heads} kv_heads for {heads} heads")
    return query.reshape(query.shape[0], kv_heads, heads // kv_heads, *query.shape[2:])


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
