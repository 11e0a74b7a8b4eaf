"""Scaled dot-product attention, plainly: the specification that everything faster is tested against.

    weights = softmax(cap(scale · QKᵀ) + bias, over the keys the mask allows [and a sink])
    output  = weights · V

The order of these steps matters: capping after the mask would let masked keys leak (cap·tanh(−∞) = −cap), and
capping after the bias would squash the bias.

Reference:
    Vaswani et al. 2017, Attention Is All You Need, §3.2.1, arXiv 1706.03762.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncli.attention.masks.causal import create_causal_mask

_LANES = 16
"""float32 numbers in one vector of a CPU."""


def attention_scores(
    query: Float[Tensor, "*batch query head_dim"],
    key: Float[Tensor, "*batch key head_dim"],
    *,
    scale: float | None = None,
    softcap: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch query key"]:
    """Compare each query with each key: ``cap · tanh(scale · QKᵀ / cap) + bias``.

    Half precision is compared in float32, in which the scores come back: in float16 a product over 65,504 is infinite.

    Args:
        scale: Multiplies the products; 1/√head_dim where None.
        softcap: Bounds the scaled products to ±softcap (Gemma 2); None for no bound.
        bias: Added last, broadcast to the scores (ALiBi, T5's relative positions).
    """
    if scale is None:
        scale = query.shape[-1] ** -0.5
    scores = (precise(query) @ precise(key).mT).mul_(scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    return scores if bias is None else scores + bias


def attention_weights(
    scores: Float[Tensor, "*batch query key"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    sink: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch query key"]:
    """Turn scores into weights: softmax over the keys that each row may attend to.

    A row without any allowed key gives zeros, never NaN, and its gradient is zero.

    Args:
        mask: True = may attend; broadcast to the scores.
        sink: A logit that joins the denominator and takes its share of the weight without having a value
            (gpt-oss); broadcast to ``(*batch, query, 1)``. Rows then sum to less than 1.
    """
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
    if sink is not None:
        # The sink is one more key, whose weight is thrown away. A row without other keys gives it everything.
        column = sink.to(scores.dtype).expand(*scores.shape[:-1], 1)
        return _weights_or_zeros(torch.cat((scores, column), dim=-1))[..., :-1]
    return _weights_or_zeros(scores)


def _weights_or_zeros(scores: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
    """Take the softmax; rows of nothing but −∞ become zeros."""
    if scores.shape[-1] == 0:
        return scores
    weights = _softmax(scores)
    if not bool(weights[..., 0].isnan().any()):
        return weights
    # The softmax of nothing but −∞ is NaN, and so is its gradient: such rows go through as zeros and come out as zeros.
    dead = scores.isneginf().all(dim=-1, keepdim=True)
    return _softmax(scores.masked_fill(dead, 0.0)).masked_fill(dead, 0.0)


def precise(tensor: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return the tensor in float32, or in float64 where it is: half precision is too coarse for scores and softmax."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _softmax(scores: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
    """Take the softmax over the keys; torch's own takes several times as long for rows shorter than a vector."""
    if scores.shape[-1] >= _LANES or scores.dtype != torch.float32 or scores.device.type != "cpu":
        return torch.softmax(scores, dim=-1)
    powers = (scores - scores.amax(dim=-1, keepdim=True)).exp_()
    return powers / powers.sum(dim=-1, keepdim=True)


def scaled_dot_product_attention(
    Q: Float[Tensor, "*batch query head_dim"],
    K: Float[Tensor, "*batch key head_dim"],
    V: Float[Tensor, "*batch key value_dim"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | None = None,
    softcap: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
    sink: Float[Tensor, "..."] | None = None,
) -> tuple[Float[Tensor, "*batch query value_dim"], Float[Tensor, "*batch query key"]]:
    """Attend: ``softmax(QKᵀ/√head_dim) · V``.

    Any leading axes (batch, heads) are carried along. A row of the mask that allows no key gives a row of zeros
    in the weights and in the output, never NaN; so does a row whose bias is −∞ everywhere, and a call without keys. A
    key that no row of the mask may attend to cannot touch the output, even when its value is NaN. Half precision is
    computed in float32.

    Args:
        mask: True = may attend; broadcast to ``(*batch, query, key)``.
        scale: Multiplies QKᵀ; 1/√head_dim where None.
        softcap: See `attention_scores`.
        bias: See `attention_scores`.
        sink: See `attention_weights`.

    Returns:
        ``(output, weights)``.

    Raises:
        ValueError: The tensors' shapes, or the mask's type or shape, do not fit together.

    Reference:
        Vaswani et al. 2017, §3.2.1 eq. (1), arXiv 1706.03762.

    >>> output, weights = scaled_dot_product_attention(torch.eye(2), torch.eye(2), torch.tensor([[1.0], [0.0]]))
    >>> weights
    tensor([[0.6698, 0.3302],
            [0.3302, 0.6698]])
    >>> output
    tensor([[0.6698],
            [0.3302]])
    """
    _check_shapes(Q, K, V, mask)
    scores = attention_scores(Q, K, scale=scale, softcap=softcap, bias=bias)
    weights = attention_weights(scores, mask, sink=sink)
    if mask is not None:
        V = without_unreachable(V, mask)
    return (weights @ precise(V)).to(V.dtype), weights.to(Q.dtype)


def causal_attention(
    Q: Float[Tensor, "*batch query head_dim"],
    K: Float[Tensor, "*batch key head_dim"],
    V: Float[Tensor, "*batch key value_dim"],
    mask: Bool[Tensor, "..."] | None = None,
) -> tuple[Float[Tensor, "*batch query value_dim"], Float[Tensor, "*batch query key"]]:
    """Attend to this position and to those before it.

    With more keys than queries (a cache) the last query belongs to the last key.

    Args:
        mask: True = may attend, in addition to causality (padding).

    Returns:
        ``(output, weights)``, as `scaled_dot_product_attention`.

    >>> causal_attention(torch.eye(3), torch.eye(3), torch.eye(3))[1][0]
    tensor([1., 0., 0.])
    """
    causal = create_causal_mask(Q.shape[-2], K.shape[-2], device=Q.device)
    return scaled_dot_product_attention(Q, K, V, causal if mask is None else causal & mask)


def without_unreachable(
    value: Float[Tensor, "*batch key value_dim"], mask: Bool[Tensor, "..."]
) -> Float[Tensor, "*batch key value_dim"]:
    """Zero the values of keys that no row may attend to, since 0 · NaN would be NaN in a padded slot."""
    reachable = mask.any(dim=-2) if mask.dim() >= 2 else mask
    reachable = reachable.unsqueeze(-1)
    return value.masked_fill(~reachable, 0.0) if not bool(reachable.all()) else value


def repeat_kv(
    tensor: Float[Tensor, "batch kv_heads key dim"], heads: int
) -> Float[Tensor, "batch heads key dim"]:
    """Return each query head its key/value head: head a reads ``a // (heads // kv_heads)``.

    Raises:
        ValueError: The kv heads do not divide the heads.
    """
    kv_heads = tensor.shape[1]
    if heads % kv_heads:
        raise ValueError(f"kv_heads must divide heads, got {kv_heads} kv_heads for {heads} heads")
    return tensor if kv_heads == heads else tensor.repeat_interleave(heads // kv_heads, dim=1)


def _check_shapes(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query and key differ in head_dim: {query.shape[-1]} and {key.shape[-1]}")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"key and value differ in length: {key.shape[-2]} and {value.shape[-2]}")
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise ValueError(f"mask must be boolean (True = may attend), got {mask.dtype}")
    expected = (*query.shape[:-1], key.shape[-2])
    pairs = zip(reversed(mask.shape), reversed(expected), strict=False)
    if mask.dim() > len(expected) or any(have not in (1, want) for have, want in pairs):
        raise ValueError(f"mask must broadcast to (…, query, key) = {expected}, got {tuple(mask.shape)}")
