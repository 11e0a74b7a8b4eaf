"""Attention as modules: with projections, many heads, grouped key/value heads, cross-attention."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attncli.attention.core import repeat_kv, scaled_dot_product_attention
from attncli.attention.masks.causal import create_causal_mask
from attncli.attention.operation import AttentionOperation

Observe = Callable[[AttentionOperation, Tensor], None]


class AttentionProjections(nn.Module):
    """Project an input to query, key and value: ``Q = X·W_Q``, ``K = X·W_K``, ``V = X·W_V``.

    Args:
        d_model: Size of the input vectors.
        d_k: Size of query and key vectors; `d_model` where None.
        d_v: Size of value vectors; `d_k` where None.
        bias: Whether the projections add a bias.

    Raises:
        ValueError: A size is not positive.
    """

    def __init__(
        self, d_model: int, d_k: int | None = None, d_v: int | None = None, *, bias: bool = False
    ) -> None:
        super().__init__()
        d_k = d_model if d_k is None else d_k
        d_v = d_k if d_v is None else d_v
        if min(d_model, d_k, d_v) < 1:
            raise ValueError(f"sizes must be positive, got d_model {d_model}, d_k {d_k}, d_v {d_v}")
        self.query = nn.Linear(d_model, d_k, bias=bias)
        self.key = nn.Linear(d_model, d_k, bias=bias)
        self.value = nn.Linear(d_model, d_v, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "*batch query d_model"],
        memory: Float[Tensor, "*batch key d_model"] | None = None,
    ) -> tuple[
        Float[Tensor, "*batch query d_k"], Float[Tensor, "*batch key d_k"], Float[Tensor, "*batch key d_v"]
    ]:
        """Project.

        Args:
            x: Gives the queries, and keys and values as well where there is no memory.
            memory: Gives keys and values in cross-attention.

        Returns:
            ``(Q, K, V)``.
        """
        source = x if memory is None else memory
        return self.query(x), self.key(source), self.value(source)


class Attention(nn.Module):
    """Attention with a single head: project, attend, project back.

    Args:
        d_model: Size of input and output vectors.
        d_k: Size of query and key vectors; `d_model` where None.
        d_v: Size of value vectors; `d_k` where None.
        causal: Whether a position is kept from seeing later ones.
        output_projection: Whether the result is projected back to `d_model`; otherwise vectors have size `d_v`.
        bias: Whether the projections add a bias.

    Reference:
        Vaswani et al. 2017, §3.2.1, arXiv 1706.03762.
    """

    def __init__(
        self,
        d_model: int,
        d_k: int | None = None,
        d_v: int | None = None,
        *,
        causal: bool = False,
        output_projection: bool = True,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.projections = AttentionProjections(d_model, d_k, d_v, bias=bias)
        self.causal = causal
        size = self.projections.value.out_features
        self.output: nn.Module = nn.Linear(size, d_model, bias=bias) if output_projection else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "*batch query d_model"],
        memory: Float[Tensor, "*batch key d_model"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
    ) -> tuple[Float[Tensor, "*batch query out"], Float[Tensor, "*batch query key"]]:
        """Attend from `x` to itself, or to `memory`.

        Args:
            mask: True = may attend; applied in addition to causality.

        Returns:
            ``(output, weights)``. A row without any allowed key has weights of zero.
        """
        Q, K, V = self.projections(x, memory)
        if self.causal:
            causal = create_causal_mask(Q.shape[-2], K.shape[-2], device=Q.device)
            mask = causal if mask is None else mask & causal
        output, weights = scaled_dot_product_attention(Q, K, V, mask)
        return self.output(output), weights


class RelativeBias(nn.Module):
    """Learned positions: how much each head likes a key that stands so many places before or after the query.

    The number is added to the scores. Whatever is farther away than the farthest distance told apart shares its number.

    Args:
        distances: The farthest distance told apart, in either direction.

    Reference:
        Raffel et al. 2020 (T5), §2.1, arXiv 1910.10683; Shaw et al. 2018 (clipped distances), arXiv 1803.02155.

    >>> bias = RelativeBias(heads=1, distances=1)
    >>> bias.table.data = torch.tensor([[5.0, 0.0, 7.0]])  # before, itself, after
    >>> bias(3, 3)[0, 0]
    tensor([[0., 7., 7.],
            [5., 0., 7.],
            [5., 5., 0.]], grad_fn=<SelectBackward0>)
    """

    def __init__(self, heads: int, distances: int) -> None:
        super().__init__()
        self.distances = distances
        self.table = nn.Parameter(torch.zeros(heads, 2 * distances + 1))

    def forward(self, query_len: int, key_len: int) -> Float[Tensor, "1 heads query key"]:
        """Return the bias of every pair; the first query stands where the first key does."""
        device = self.table.device
        offset = torch.arange(key_len, device=device) - torch.arange(query_len, device=device).unsqueeze(-1)
        return self.table[:, offset.clamp(-self.distances, self.distances) + self.distances].unsqueeze(0)


class MultiHeadAttention(nn.Module):
    """Attention with several heads side by side, each in its own part of the vector.

    ``head_a = Attention(X·W_Q^a, X·W_K^b, X·W_V^b)`` with ``b = a // (heads // kv_heads)``;
    ``output = concat(heads) · W_O``.

    Args:
        d_model: Size of input and output vectors.
        heads: Number of query heads; divides `d_model`.
        kv_heads: Number of key/value heads; divides `heads`. As many as `heads` where None (multi-head); fewer is
            grouped-query, one is multi-query attention.
        causal: Whether a position is kept from seeing later ones.
        bias: Whether the projections add a bias.
        distances: Up to how far apart positions have a learned `RelativeBias`; None for no such bias. Not for
            cross-attention, whose two sides count their positions apart.

    Raises:
        ValueError: The sizes do not divide.

    Reference:
        Vaswani et al. 2017, §3.2.2, arXiv 1706.03762; Shazeer 2019 (multi-query), arXiv 1911.02150;
        Ainslie et al. 2023 (grouped-query), arXiv 2305.13245.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        causal: bool = False,
        bias: bool = False,
        distances: int | None = None,
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or d_model % heads:
            raise ValueError(f"heads must divide d_model, got {heads} heads for d_model {d_model}")
        if kv_heads < 1 or heads % kv_heads:
            raise ValueError(f"kv_heads must divide heads, got {kv_heads} kv_heads for {heads} heads")
        self.heads, self.kv_heads, self.head_dim, self.causal = heads, kv_heads, d_model // heads, causal
        self.query = nn.Linear(d_model, d_model, bias=bias)
        self.key = nn.Linear(d_model, kv_heads * self.head_dim, bias=bias)
        self.value = nn.Linear(d_model, kv_heads * self.head_dim, bias=bias)
        self.output = nn.Linear(d_model, d_model, bias=bias)
        self.relative = None if distances is None else RelativeBias(heads, distances)

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        *,
        observe: Observe | None = None,
    ) -> tuple[Float[Tensor, "batch query d_model"], Float[Tensor, "batch heads query key"]]:
        """Attend from `x` to itself, or to `memory`.

        Args:
            mask: True = may attend; broadcast to ``(batch, heads, query, key)``; applied in addition to causality.
            observe: Called with the operation and its output ``(batch, heads, query, head_dim)``.

        Returns:
            ``(output, weights)``.
        """
        Q, K, V = self.project(x, memory)
        if self.causal:
            causal = create_causal_mask(Q.shape[-2], K.shape[-2], device=Q.device)
            mask = causal if mask is None else mask & causal
        bias = None if self.relative is None else self.relative(Q.shape[-2], K.shape[-2])
        output, weights = scaled_dot_product_attention(
            Q, repeat_kv(K, self.heads), repeat_kv(V, self.heads), mask, bias=bias
        )
        if observe is not None:
            observe(self._operation(Q, K, V, mask, bias), output)
        return self.merge(output), weights

    def project(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"] | None = None,
    ) -> tuple[
        Float[Tensor, "batch heads query head_dim"],
        Float[Tensor, "batch kv_heads key head_dim"],
        Float[Tensor, "batch kv_heads key head_dim"],
    ]:
        """Return query, key and value, split into heads."""
        source = x if memory is None else memory
        return (
            self._split(self.query(x), self.heads),
            self._split(self.key(source), self.kv_heads),
            self._split(self.value(source), self.kv_heads),
        )

    def merge(
        self, output: Float[Tensor, "batch heads query head_dim"]
    ) -> Float[Tensor, "batch query d_model"]:
        """Put the heads' outputs side by side and project them back."""
        merged: Tensor = self.output(output.transpose(1, 2).flatten(2))
        return merged

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.reshape(*x.shape[:-1], heads, self.head_dim).transpose(1, 2)

    def _operation(
        self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None, bias: Tensor | None
    ) -> AttentionOperation:
        four = None if mask is None else mask[(None,) * (4 - mask.dim())]
        return AttentionOperation(query=Q, key=K, value=V, scale=self.head_dim**-0.5, mask=four, bias=bias)
