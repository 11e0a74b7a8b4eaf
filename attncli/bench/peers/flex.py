"""PyTorch's programmable attention: a score function that its compiler makes a kernel of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncli.bench.peers import sdpa
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="flex",
    summary="torch.nn.attention.flex_attention: eager (the whole matrix) or compiled",
    reference="Dong et al. 2024, arXiv 2412.05496",
    parameters=(
        Parameter("compile", False, "compile it first: up to a minute for each length, then faster"),
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
    compile: bool = False,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Call flex_attention, with the causal pattern as a block mask so that tiles of the future can be skipped.

    Raises:
        NotImplementedError: There is padding, which this peer leaves out, or gradients on a CPU, which PyTorch does.
    """
    if key_mask is not None:
        raise NotImplementedError("flex is not measured with padding")
    blocks = _block_mask(query.shape[2], key.shape[2], str(query.device)) if causal else None
    function = _function(compile)
    grouped = query.shape[1] != key.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that eager is slow is what a benchmark is there to show
        output: Tensor = function(query, key, value, block_mask=blocks, enable_gqa=grouped)
    return output


def about(query: Tensor, key: Tensor, value: Tensor, causal: bool, compile: bool = False) -> str:
    """Return which form runs."""
    return "compiled" if compile else "eager, which makes the whole weight matrix (--set flex.compile=true)"


@cache
def _function(compiled: bool) -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    function: Callable[..., Any] = flex_attention
    return torch.compile(function) if compiled else function


@cache
def _block_mask(query_len: int, key_len: int, device: str) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    offset = key_len - query_len

    def causal(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return key <= query + offset

    return create_block_mask(causal, None, None, query_len, key_len, device=device)


def flops(
    *,
    batch: int,
    heads: int,
    query_len: int,
    key_len: int,
    head_dim: int,
    value_dim: int,
    causal: bool,
    compile: bool = False,
) -> int:
    """Count both products: over all pairs where eager, over those that matter where compiled."""
    return sdpa.flops(
        batch=batch,
        heads=heads,
        query_len=query_len,
        key_len=key_len,
        head_dim=head_dim,
        value_dim=value_dim,
        causal=causal and compile,
    )
