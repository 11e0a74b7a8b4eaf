"""Fixed sparse attention: each position attends to its own block, and to a few summary positions of earlier blocks.

With blocks of ``stride`` positions, the last ``summary`` of which sum the block up, key j ≤ i is allowed for query i
where

    ⌊j/stride⌋ = ⌊i/stride⌋    or    j mod stride ≥ stride − summary

(the union of the paper's two factors, in one head). With ``per_head`` head a reads the a-th run of `summary` positions
counted from the end of each block, as the paper prefers for several heads.

Reference:
    Child et al. 2019, Generating Long Sequences with Sparse Transformers, §4.2, arXiv 1904.10509.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attncli.attention.core import repeat_kv
from attncli.attention.inputs import check_lengths, check_self_attention, stack
from attncli.attention.patterns.key_runs import Reach, segments
from attncli.attention.plain_form import pattern_weights
from attncli.attention.strided_views import cut
from attncli.attention.tiles.partial import ROWS, attend_tile, closed, extent
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="sparse-fixed",
    summary="own block and the summary positions of earlier ones: O(n·√n·d) with a stride of about √n",
    reference="Child et al. 2019, §4.2, arXiv 1904.10509",
    parameters=(
        Parameter("stride", 128, "positions in a block", minimum=1, example=4),
        Parameter(
            "summary",
            8,
            "positions of a block that later blocks see, at most the stride",
            minimum=1,
            example=1,
        ),
        Parameter("per_head", False, "each head reads another run of summary positions"),
    ),
    attributes={"exact": False, "causal": "only", "cross": False, "signed": False},
)


def attend(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    causal: bool = True,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    stride: int = 128,
    summary: int = 8,
    per_head: bool = False,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Attend block by block: gathered summaries of the earlier blocks, then the block itself. See `Variant.attend`."""
    ENTRY.check(stride=stride, summary=summary)
    check_lengths(query, key, value, key_mask)
    _check(query.shape[2], key.shape[2], causal, stride, summary)
    heads = query.shape[1]
    if per_head:
        key, value = repeat_kv(key, heads), repeat_kv(value, heads)
    inputs = stack(query, key, value, key_mask)
    runs = heads if per_head else 1
    longest = max(key.shape[2], 1)
    stride, summary = min(stride, longest), min(summary, longest)  # a block is no longer than the text
    columns = summary_columns(runs, key.shape[2], stride, summary).to(query.device)
    columns = columns.repeat(len(inputs.key) // runs, 1)
    key_summaries, value_summaries = _gather(inputs.key, columns), _gather(inputs.value, columns)
    padding_summaries = None if inputs.padding is None else _gather(inputs.padding.mT, columns)
    triangle = closed(
        torch.ones(stride, stride, dtype=torch.bool, device=query.device).tril(), inputs.key.dtype
    )
    tiles = list(_tiles(query.shape[2], stride, summary))
    blocks = [block for _, block, _ in tiles]
    own_keys, own_values = cut(inputs.key, blocks), cut(inputs.value, blocks)
    outputs = []
    for tile, tile_query, own_key, own_value in zip(
        tiles, inputs.rows([rows for rows, _, _ in tiles]), own_keys, own_values, strict=True
    ):
        rows, block, seen = tile
        own = triangle[rows.start - block.start : rows.stop - block.start, : extent(block)]
        padding = None
        if inputs.padding is not None and padding_summaries is not None:
            padding = torch.cat((padding_summaries[:, :seen], inputs.padding.mT[:, block]), dim=1).mT
        output = attend_tile(
            tile_query,
            torch.cat((key_summaries[:, :seen], own_key), dim=1),
            torch.cat((value_summaries[:, :seen], own_value), dim=1),
            inputs.spread(F.pad(own, (seen, 0))),
            padding,
        )
        outputs.append(inputs.unstack(output))
    return torch.cat(outputs, dim=2).to(query.dtype)


def _gather(
    tensor: Float[Tensor, "stacks key dim"], columns: Int[Tensor, "stacks columns"]
) -> Float[Tensor, "stacks columns dim"]:
    """Put each stack's summary positions side by side."""
    return tensor[torch.arange(len(tensor), device=tensor.device).unsqueeze(-1), columns]


def weights(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    *,
    causal: bool = True,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    stride: int = 128,
    summary: int = 8,
    per_head: bool = False,
) -> Float[Tensor, "batch heads query key"]:
    """Return the softmax over the pattern's keys. See `Variant.weights`."""
    ENTRY.check(stride=stride, summary=summary)
    _check(query.shape[2], key.shape[2], causal, stride, summary)
    runs = range(query.shape[1]) if per_head else range(1)
    pattern = torch.stack([_pattern(key.shape[2], stride, summary, run) for run in runs])
    return pattern_weights(query, key, pattern, key_mask)


def mask(
    query_len: int,
    key_len: int,
    *,
    causal: bool = True,
    stride: int = 128,
    summary: int = 8,
    per_head: bool = False,
) -> Bool[Tensor, "query key"]:
    """Allow the own block and earlier summaries (those of head 0).

    Raises:
        ValueError: Not causal, queries and keys differ in number, or there are more summaries than positions.

    >>> mask(5, 5, stride=2, summary=1).int()
    tensor([[1, 0, 0, 0, 0],
            [1, 1, 0, 0, 0],
            [0, 1, 1, 0, 0],
            [0, 1, 1, 1, 0],
            [0, 1, 0, 1, 1]], dtype=torch.int32)
    """
    ENTRY.check(stride=stride, summary=summary)
    _check(query_len, key_len, causal, stride, summary)
    return _pattern(key_len, stride, summary, 0)


def reach(
    query_len: int,
    key_len: int,
    *,
    causal: bool = True,
    stride: int = 128,
    summary: int = 8,
    per_head: bool = False,
) -> Reach:
    """Describe `mask` as the own block up to the row, and the summaries of the blocks before it."""
    ENTRY.check(stride=stride, summary=summary)
    _check(query_len, key_len, causal, stride, summary)
    longest = max(key_len, 1)
    stride, summary = min(stride, longest), min(summary, longest)
    row = np.arange(query_len)
    block = row // stride * stride
    own = segments(query_len, block, row + 1)
    summed_up = segments(query_len, stride - summary, block, step=stride, width=summary)
    notes = ("shown is head 0; each head reads another run of summary positions",) if per_head else ()
    return Reach(query_len, key_len, (own, summed_up), causal=True, notes=notes)


def _pattern(length: int, stride: int, summary: int, run: int) -> Bool[Tensor, "query key"]:
    query, key = torch.arange(length).unsqueeze(-1), torch.arange(length)
    end = stride - summary * (run % (stride // summary))
    own = query // stride == key // stride
    summed_up = (key % stride >= end - summary) & (key % stride < end)
    return (own | summed_up) & (key <= query)


def summary_columns(runs: int, length: int, stride: int, summary: int) -> Int[Tensor, "runs columns"]:
    """Return the summary positions of the whole blocks of a sequence, for each run counted from a block's end.

    >>> summary_columns(2, 9, 4, 1)
    tensor([[3, 7],
            [2, 6]])
    """
    ends = torch.arange(1, length // stride + 1) * stride
    run = torch.arange(runs).unsqueeze(-1) % (stride // summary)
    columns = (ends - summary * run).unsqueeze(-1) - torch.arange(summary, 0, -1)
    return columns.flatten(1)


def _tiles(length: int, stride: int, summary: int) -> Iterator[tuple[slice, slice, int]]:
    """Yield blocks of rows, the keys of their own block, and how many summary positions they see."""
    for start in range(0, length, stride):
        stop = min(start + stride, length)
        for row in range(start, stop, ROWS):
            rows = slice(row, min(row + ROWS, stop))
            yield rows, slice(start, rows.stop), start // stride * summary


def _pairs(rows: slice, block: slice, seen: int) -> int:
    return extent(rows) * (seen + extent(block))


def _check(query_len: int, key_len: int, causal: bool, stride: int, summary: int) -> None:
    check_self_attention("sparse-fixed", query_len, key_len)
    if not causal:
        raise ValueError("sparse-fixed is defined for causal attention only, got causal=False")
    if summary > stride:
        raise ValueError(f"summary must be at most the stride, got summary={summary} and stride={stride}")
