"""DeepSeek Sparse Attention: a small indexer scores all keys, a selector keeps the best, attention sees only those.

    Iᵢⱼ = Σₐ wᵢₐ · ReLU(qᴵᵢₐ · kᴵⱼ)        the lightning indexer, a over its own few heads
    Selᵢ = the top_k keys with the largest Iᵢⱼ, among those that row i may see
    Oᵢ = softmax over Selᵢ of the usual scores, the same keys for all heads

The indexer still looks at every pair, at a small cost each; attention costs O(n·top_k). In a trained model the
indexer's query, key and weights have projections of their own: give them as `index_query`, `index_key` and
`index_weights`. Where they are not given, an untrained stand-in sketches the scores of some heads from query and key.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncli.attention.core import attention_scores, attention_weights, repeat_kv
from attncli.attention.key_selection import gather_attend, lightning_index, select
from attncli.attention.masks.causal import create_causal_mask
from attncli.attention.patterns.key_runs import Reach, full_reach
from attncli.attention.tiles.chunks import join
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="dsa",
    summary="softmax over the top-k keys that a lightning indexer picks: attention in O(n·k)",
    reference="DeepSeek-AI 2025 (DeepSeek-V3.2), §2.1, arXiv 2512.02556",
    parameters=(
        Parameter(
            "top_k",
            0,
            "keys selected for each query; 0 for a quarter of them, at most 256",
            minimum=0,
            zero="a quarter of the keys",
        ),
        Parameter(
            "index_heads", 4, "heads of the indexer, where its tensors are not given", minimum=1, maximum=1024
        ),
        Parameter(
            "index_dim",
            32,
            "size of the indexer's vectors, where they are not given",
            minimum=1,
            maximum=4096,
        ),
        Parameter(
            "seed",
            0,
            "seed of the indexer's sketch, where its tensors are not given",
            minimum=0,
            maximum=9223372036854775807,
        ),
    ),
    attributes={"exact": False, "causal": True, "cross": True, "signed": False},
)

Index = tuple[Tensor, Tensor, Tensor]  # the indexer's query, key and weights

_BLOCK = 16  # query rows at once: what is gathered for them should stay in the cache


def attend(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    top_k: int = 0,
    index_heads: int = 4,
    index_dim: int = 32,
    seed: int = 0,
    index_query: Float[Tensor, "batch query index_heads index_dim"] | None = None,
    index_key: Float[Tensor, "batch key index_dim"] | None = None,
    index_weights: Float[Tensor, "batch query index_heads"] | None = None,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Index, select and attend for a block of queries at a time. See `Variant.attend`.

    Args:
        top_k: Keys for each query; 0 for a quarter of the keys, at most 256.
        index_heads: Heads of the stand-in indexer.
        index_dim: Size of its vectors.
        seed: Of its random places and signs.
        index_query: A trained indexer's query, turned by position; then its key and weights must come too.
        index_key: Its key, one for all of its heads.
        index_weights: Its weight for each query and head.

    Raises:
        ValueError: More keys are to be selected than there are, or only some of the indexer's tensors are given.
    """
    ENTRY.check(top_k=top_k, index_heads=index_heads, index_dim=index_dim, seed=seed)
    index = _index(query, key, index_query, index_key, index_weights, index_heads, index_dim, seed)
    q, k, v = _precise(query), _precise(key), _precise(value)
    if key_mask is not None:
        v = v.masked_fill(~key_mask[:, None, :, None], 0.0)
    blocks = _selections(index, causal, key_mask, _count(top_k, key.shape[2]))
    parts = (gather_attend(q[:, :, rows], k, v, indices) for rows, indices in blocks)
    return join(parts, query.shape[2]).to(query.dtype)


def selected_mask(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    top_k: int = 0,
    index_heads: int = 4,
    index_dim: int = 32,
    seed: int = 0,
    index_query: Float[Tensor, "batch query index_heads index_dim"] | None = None,
    index_key: Float[Tensor, "batch key index_dim"] | None = None,
    index_weights: Float[Tensor, "batch query index_heads"] | None = None,
) -> Bool[Tensor, "batch query key"]:
    """Return which keys are selected for each query. Arguments and errors as in `attend`."""
    index = _index(query, key, index_query, index_key, index_weights, index_heads, index_dim, seed)
    keys = key.shape[2]
    # One column more takes the places that select left empty.
    selected = torch.zeros(query.shape[0], query.shape[2], keys + 1, dtype=torch.bool, device=query.device)
    for rows, indices in _selections(index, causal, key_mask, _count(top_k, keys)):
        selected[:, rows].scatter_(-1, indices.masked_fill(indices < 0, keys), True)
    return selected[..., :keys]


def weights(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    top_k: int = 0,
    index_heads: int = 4,
    index_dim: int = 32,
    seed: int = 0,
    index_query: Float[Tensor, "batch query index_heads index_dim"] | None = None,
    index_key: Float[Tensor, "batch key index_dim"] | None = None,
    index_weights: Float[Tensor, "batch query index_heads"] | None = None,
) -> Float[Tensor, "batch heads query key"]:
    """Return the softmax over the selected keys as a dense matrix. Arguments and errors as in `attend`."""
    ENTRY.check(top_k=top_k, index_heads=index_heads, index_dim=index_dim, seed=seed)
    selected = selected_mask(
        query,
        key,
        causal=causal,
        key_mask=key_mask,
        top_k=top_k,
        index_heads=index_heads,
        index_dim=index_dim,
        seed=seed,
        index_query=index_query,
        index_key=index_key,
        index_weights=index_weights,
    )
    scores = attention_scores(_precise(query), repeat_kv(_precise(key), query.shape[1]))
    return attention_weights(scores, selected[:, None]).to(query.dtype)


def mask(
    query_len: int,
    key_len: int,
    *,
    causal: bool = False,
    top_k: int = 0,
    index_heads: int = 4,
    index_dim: int = 32,
    seed: int = 0,
) -> Bool[Tensor, "query key"]:
    """Allow what may be selected from: everything, or everything that is not in the future."""
    ENTRY.check(top_k=top_k, index_heads=index_heads, index_dim=index_dim, seed=seed)
    if causal:
        return create_causal_mask(query_len, key_len)
    return torch.ones(query_len, key_len, dtype=torch.bool)


def reach(
    query_len: int,
    key_len: int,
    *,
    causal: bool = False,
    top_k: int = 0,
    index_heads: int = 4,
    index_dim: int = 32,
    seed: int = 0,
) -> Reach:
    """Describe `mask`, which a text narrows down.

    Raises:
        ValueError: More keys are to be selected than there are.
    """
    ENTRY.check(top_k=top_k, index_heads=index_heads, index_dim=index_dim, seed=seed)
    count = _count(top_k, key_len)
    note = f"the indexer scores these pairs; a row attends to its {count} best keys, which depend on the text"
    return full_reach(query_len, key_len, causal=causal, notes=(note,))


def _count(top_k: int, keys: int) -> int:
    if top_k > keys:
        raise ValueError(f"expected top_k of at most the {keys} keys there are, got {top_k}")
    return top_k or min(256, -(-keys // 4))


def _extents(query_len: int, key_len: int, causal: bool) -> Iterator[tuple[slice, int]]:
    """Yield blocks of query rows, each with the number of first keys that any of its rows may see (at least 1)."""
    for start in range(0, query_len, _BLOCK):
        stop = min(start + _BLOCK, query_len)
        yield slice(start, stop), max(stop + key_len - query_len, 1) if causal else key_len


def _selections(
    index: Index, causal: bool, key_mask: Tensor | None, top_k: int
) -> Iterator[tuple[slice, Tensor]]:
    """Yield blocks of query rows, each with the keys selected for its rows. The whole index never exists."""
    index_query, index_key, index_weights = index
    query_len, key_len = index_query.shape[1], index_key.shape[1]
    for rows, keys in _extents(query_len, key_len, causal):
        allowed = None if key_mask is None else key_mask[:, None, :keys]
        if causal:
            row = torch.arange(rows.start, rows.stop, device=index_key.device).unsqueeze(-1)
            past = torch.arange(keys, device=index_key.device) <= row + (key_len - query_len)
            allowed = past if allowed is None else past & allowed
        scores = lightning_index(index_query[:, rows], index_key[:, :keys], index_weights[:, rows])
        yield rows, select(scores, top_k, allowed)


def _index(
    query: Tensor,
    key: Tensor,
    index_query: Tensor | None,
    index_key: Tensor | None,
    index_weights: Tensor | None,
    index_heads: int,
    index_dim: int,
    seed: int,
) -> Index:
    if index_query is not None and index_key is not None and index_weights is not None:
        return _precise(index_query), _precise(index_key), _precise(index_weights)
    if not (index_query is index_key is index_weights is None):
        raise ValueError("index_query, index_key and index_weights come together: expected all three or none")
    return _sketch(query, key, index_heads, index_dim, seed)


def _sketch(query: Tensor, key: Tensor, index_heads: int, index_dim: int, seed: int) -> Index:
    """Stand in for a trained indexer: index head a sketches the scores of query head ``a · heads // index_heads``.

    All kv heads' keys side by side are one long vector, whose numbers are added, with random signs, into `index_dim`
    places; a query's numbers go to the places of its kv head. The product of the two is on average that head's
    score (Charikar et al. 2002, count sketch), and exactly so where every number has a place of its own.
    """
    heads, kv_heads, head_dim = query.shape[1], key.shape[1], query.shape[-1]
    size = kv_heads * head_dim
    generator = torch.Generator().manual_seed(seed)
    place = torch.randperm(size, generator=generator).to(key.device) % index_dim
    sign = (2 * torch.randint(0, 2, (size,), generator=generator) - 1).to(_precise(key))
    index_key = _added_up(_precise(key).transpose(1, 2).flatten(2) * sign, place, index_dim)
    queries = []
    for head in range(index_heads):
        followed = head * heads // index_heads
        own = slice(followed // (heads // kv_heads) * head_dim, None)
        signed = _precise(query)[:, followed] * sign[own][:head_dim]
        queries.append(_added_up(signed, place[own][:head_dim], index_dim))
    index_query = torch.stack(queries, dim=2)  # (batch, query, index_heads, index_dim)
    return index_query, index_key, index_query.new_full(index_query.shape[:3], 1.0 / index_heads)


def _added_up(x: Tensor, place: Tensor, size: int) -> Tensor:
    return x.new_zeros(*x.shape[:-1], size).index_add(-1, place, x)


def _precise(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()
