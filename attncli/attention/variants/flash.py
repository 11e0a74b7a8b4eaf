"""FlashAttention: full attention, exactly, in tiles that never make the weight matrix.

Same products and same result as full attention; what is saved is memory, and the time that moving it takes. How it
goes is told in `attncli.attention.tiles.flash`.

Reference:
    Dao et al. 2022, FlashAttention, arXiv 2205.14135; Dao 2023, FlashAttention-2, arXiv 2307.08691.
"""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from attncli.attention.tiles.flash import flash_attention
from attncli.attention.variants import full
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="flash",
    summary="full attention in tiles with an online softmax: exact, O(n²·d) time, O(n·d) memory",
    reference="Dao et al. 2022, arXiv 2205.14135; Dao 2023, arXiv 2307.08691",
    parameters=(
        Parameter("block_q", 128, "queries in a tile", minimum=1),
        Parameter("block_k", 256, "keys in a tile", minimum=1),
    ),
    attributes={"exact": True, "causal": True, "cross": True, "signed": False},
)


def attend(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    block_q: int = 128,
    block_k: int = 256,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Return the output of full attention in O(n) memory, for gradients too. See `Variant.attend`."""
    ENTRY.check(block_q=block_q, block_k=block_k)
    return flash_attention(
        query, key, value, causal=causal, key_mask=key_mask, block_q=block_q, block_k=block_k
    )[0]


def weights(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    block_q: int = 128,
    block_k: int = 256,
) -> Float[Tensor, "batch heads query key"]:
    """Return the weights of full attention: tiling changes nothing. See `Variant.weights`."""
    ENTRY.check(block_q=block_q, block_k=block_k)
    return full.weights(query, key, causal=causal, key_mask=key_mask)


def mask(
    query_len: int, key_len: int, *, causal: bool = False, block_q: int = 128, block_k: int = 256
) -> Bool[Tensor, "query key"]:
    """Allow everything, or everything that is not in the future."""
    ENTRY.check(block_q=block_q, block_k=block_k)
    return full.mask(query_len, key_len, causal=causal)
