"""Linear attention: the softmax gives way to a feature map, so that keys and values add up to one small state.

    φ(x) = elu(x) + 1
    Oᵢ = φ(qᵢ)ᵀ S / (φ(qᵢ)ᵀ z + ε),   S = Σⱼ φ(kⱼ) vⱼᵀ,   z = Σⱼ φ(kⱼ),   over all j, or over j ≤ i

There is no 1/√head_dim: inside φ it would not cancel, and the paper has none. A column of ones beside the value makes z
the last column of S, so that one product gives numerator and denominator.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from attncli.attention.core import repeat_kv
from attncli.attention.masks.causal import create_causal_mask
from attncli.attention.tiles.chunks import join
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="linear",
    summary="φ(Q)·(φ(K)ᵀV) with φ = elu + 1, normalised: O(n·d²) time, O(n·d) memory",
    reference="Katharopoulos et al. 2020, §3.2 and §3.3, arXiv 2006.16236",
    parameters=(
        Parameter("chunk", 64, "query positions computed at once", minimum=1),
        Parameter("eps", 1e-6, "added to the denominator", minimum=0.0),
    ),
    attributes={"exact": False, "causal": True, "cross": True, "signed": False, "implied": True},
)

Source = tuple[Tensor, Tensor, Tensor | None]  # key, value, key mask


def feature_map(x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Make features positive: ``elu(x) + 1``, which is x + 1 above zero and eˣ below.

    Computed as ``relu(x) + exp(min(x, 0))``: ``elu(x) + 1`` itself would round e⁻²⁰ to 0.

    >>> feature_map(torch.tensor([-20.0, 0.0, 2.0]))
    tensor([2.0612e-09, 1.0000e+00, 3.0000e+00])
    """
    return torch.relu(x) + torch.exp(x.clamp(max=0.0))


def weights(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    chunk: int = 64,
    eps: float = 1e-6,
) -> Float[Tensor, "batch heads query key"]:
    """Return the weights that linear attention implies: ``φ(Q)φ(K)ᵀ``, each row divided by its sum + ε."""
    ENTRY.check(chunk=chunk, eps=eps)
    key = repeat_kv(key, query.shape[1])
    products = feature_map(_precise(query)) @ feature_map(_precise(key)).mT  # (batch, heads, query, key)
    # Padding is taken out after φ: φ(0) = 1, so a key of zeros would still count.
    if key_mask is not None:
        products = products.masked_fill(~key_mask[:, None, None], 0.0)
    if causal:
        triangle = create_causal_mask(query.shape[2], key.shape[2], device=query.device)
        products = products.masked_fill(~triangle, 0.0)
    return _divide(products, products.sum(dim=-1, keepdim=True), eps).to(query.dtype)


def attend(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    chunk: int = 64,
    eps: float = 1e-6,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Return the output chunk by chunk, each small enough to stay in the cache. See `Variant.attend`.

    Args:
        chunk: Positions computed at once: it changes the speed, not the output.
        eps: Added to the denominator.
    """
    ENTRY.check(chunk=chunk, eps=eps)
    source = _source(query, key, value, key_mask)
    if causal:
        parts = _causal_parts(query, source, chunk, eps)
    else:
        state = _state(source, chunk, 0, key.shape[2])
        parts = (_ratio(feature_map(_precise(q)) @ state, eps) for q in torch.split(query, chunk, dim=2))
    return join(parts, query.shape[2]).to(query.dtype)


def _causal_parts(query: Tensor, source: Source, chunk: int, eps: float) -> Iterator[Tensor]:
    """Read earlier chunks through the state, and this one through its own small triangle of weights."""
    key_len = source[0].shape[2]
    seen = max(key_len - query.shape[2], 0)  # keys of a cache, before the first query
    blind = max(query.shape[2] - key_len, 0)  # queries before the first key
    state = _state(source, chunk, 0, seen)
    if blind:
        yield state.new_zeros(*query.shape[:2], blind, state.shape[-1] - 1)
    queries = torch.split(query[:, :, blind:], chunk, dim=2)
    for q, (k, v) in zip(queries, _chunks(source, chunk, seen, key_len), strict=True):
        q = feature_map(_precise(q))  # (batch, heads, chunk, head_dim)
        inside = (q @ k.mT).tril()  # (batch, heads, chunk, chunk)
        yield _ratio(inside @ v + q @ state, eps)
        state = state + k.mT @ v  # (batch, heads, head_dim, value_dim + 1)


def recurrent(
    query: Float[Tensor, "batch heads length head_dim"],
    key: Float[Tensor, "batch kv_heads length head_dim"],
    value: Float[Tensor, "batch kv_heads length value_dim"],
    *,
    key_mask: Bool[Tensor, "batch length"] | None = None,
    eps: float = 1e-6,
    state: Float[Tensor, "batch heads head_dim columns"] | None = None,
) -> tuple[Float[Tensor, "batch heads length value_dim"], Float[Tensor, "batch heads head_dim columns"]]:
    """Return the causal output one position after another: how a decoder writes, at a cost that does not grow.

    Args:
        state: What an earlier call returned, to continue its text; None at the beginning.

    Returns:
        ``(output, state)``. The state's last column is the normaliser z.
    """
    source = _source(query, key, value, key_mask)
    if state is None:
        state = _state(source, 1, 0, 0)
    rows = []
    queries = torch.split(query, 1, dim=2)
    for q, (k, v) in zip(queries, _chunks(source, 1, 0, key.shape[2]), strict=True):
        state = state + k.mT @ v
        rows.append(_ratio(feature_map(_precise(q)) @ state, eps))
    return torch.cat(rows, dim=2).to(query.dtype), state


def mask(
    query_len: int, key_len: int, *, causal: bool = False, chunk: int = 64, eps: float = 1e-6
) -> Bool[Tensor, "query key"]:
    """Allow everything, or everything that is not in the future."""
    ENTRY.check(chunk=chunk, eps=eps)
    if causal:
        return create_causal_mask(query_len, key_len)
    return torch.ones(query_len, key_len, dtype=torch.bool)


def _source(query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None) -> Source:
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query and key differ in head_dim: {query.shape[-1]} and {key.shape[-1]}")
    if key.shape[2] != value.shape[2]:
        raise ValueError(f"key and value differ in length: {key.shape[2]} and {value.shape[2]}")
    return repeat_kv(key, query.shape[1]), repeat_kv(value, query.shape[1]), key_mask


def _chunks(source: Source, chunk: int, begin: int, end: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield φ(k) and [v, 1] chunk by chunk, zero for padding: after φ, since φ(0) = 1 would still count."""
    key, value, key_mask = source
    for start in range(begin, end, chunk):
        at = slice(start, min(start + chunk, end))
        features = feature_map(_precise(key[:, :, at]))
        values = pad(_precise(value[:, :, at]), (0, 1), value=1.0)
        if key_mask is not None:
            padding = ~key_mask[:, None, at, None]
            features, values = features.masked_fill(padding, 0.0), values.masked_fill(padding, 0.0)
        yield features, values


def _state(source: Source, chunk: int, begin: int, end: int) -> Tensor:
    """Add up ``φ(k)·[v, 1]ᵀ`` over some keys: the state, with the normaliser z as its last column."""
    key, value, _ = source
    state = _precise(key.new_zeros(*key.shape[:2], key.shape[-1], value.shape[-1] + 1))
    for k, v in _chunks(source, chunk, begin, end):
        state = state + k.mT @ v
    return state


def _ratio(numbers: Tensor, eps: float) -> Tensor:
    return _divide(numbers[..., :-1], numbers[..., -1:], eps)


def _divide(numerator: Tensor, denominator: Tensor, eps: float) -> Tensor:
    """Divide by the denominator + ε; a row that saw no key stays zero even where ε is zero."""
    denominator = denominator + eps
    return numerator / denominator.masked_fill(denominator == 0.0, 1.0)


def _precise(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()
