"""Sliding-window attention: each position attends to its neighbours, and perhaps to a few global positions.

Key j is allowed for query i, whose position is ``p = i + (key − query)``, where

    |p − j| < window·dilation, and dilation divides p − j      (causal: and j ≤ p)
    or p < global_tokens, or j < global_tokens                 (causal: and j ≤ p)

so that ``window`` counts the keys that a row sees to its left, itself included, and to its right likewise where it is
not causal: ``window`` keys in all, or ``2·window − 1``. Others count otherwise:

    Mistral, Gemma: sliding_window=w       window = w          flash-attn, ONNX: left=w        window = w + 1
    Longformer: attention_window=w         window = w/2 + 1    ModernBERT: local_attention=w   window = w/2 + 1

Reference:
    Beltagy et al. 2020, Longformer, §3.1, arXiv 2004.05150. As a decoder's: Jiang et al. 2023, Mistral 7B, §2,
    arXiv 2310.06825. With first tokens that all see (StreamingLLM): Xiao et al. 2023, arXiv 2309.17453.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from attncli.attention.core import precise
from attncli.attention.inputs import stack
from attncli.attention.patterns.key_runs import Reach, own_positions, segments
from attncli.attention.plain_form import pattern_weights
from attncli.attention.strided_views import cut
from attncli.attention.tiles.flash import flash_attention
from attncli.attention.tiles.partial import attend_tile, closed
from attncli.attention.tiles.window_tiles import Band
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="sliding-window",
    summary="neighbours within a window, and global tokens: O(n·w·d) time, O(n·d) memory",
    reference="Beltagy et al. 2020, §3.1, arXiv 2004.05150; Jiang et al. 2023, §2, arXiv 2310.06825",
    parameters=(
        Parameter(
            "window",
            256,
            "keys a row sees to its left, itself included; to its right likewise",
            minimum=1,
            example=3,
        ),
        Parameter("dilation", 1, "distance from key to key within the window, in positions", minimum=1),
        Parameter("global_tokens", 0, "leading positions that see all and that all see", minimum=0),
    ),
    attributes={"exact": False, "causal": True, "cross": False, "signed": False},
)


def attend(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    window: int = 256,
    dilation: int = 1,
    global_tokens: int = 0,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Attend within the window, block of queries by block of queries. See `Variant.attend`.

    Global rows are full attention. Global columns stand in front of every other block's keys; the window leaves them
    out, so that they count once.
    """
    ENTRY.check(window=window, dilation=dilation, global_tokens=global_tokens)
    _check(query.shape[2], key.shape[2])
    inputs = stack(query, key, value, key_mask)
    band = Band(query.shape[2], key.shape[2], causal, window, dilation, global_tokens)
    outputs = [_global_rows(precise(query), precise(key), precise(value), key_mask, band)]
    columns = min(global_tokens, key.shape[2])
    tiles = list(band.tiles())
    rows, stretches = inputs.rows([tile.rows for tile in tiles]), [tile.keys for tile in tiles]
    keys, values = _columns(inputs.key, stretches, columns), _columns(inputs.value, stretches, columns)
    padding = (
        repeat(None, len(tiles))
        if inputs.padding is None
        else _columns(inputs.padding.mT, stretches, columns)
    )
    shape, bias = None, inputs.key
    for tile, tile_query, tile_key, tile_value, hidden in zip(
        tiles, rows, keys, values, padding, strict=True
    ):
        if tile.shape != shape:
            shape, allowed = tile.shape, F.pad(band.allowed(tile), (columns, 0), value=True)
            bias = inputs.spread(closed(allowed.to(query.device), inputs.key.dtype))
        output = attend_tile(tile_query, tile_key, tile_value, bias, None if hidden is None else hidden.mT)
        outputs.append(inputs.unstack(output))
    return _in_order(outputs, band).to(query.dtype)


def _global_rows(
    query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None, band: Band
) -> Float[Tensor, "batch heads rows value_dim"]:
    """Return the output of the rows that see everything, or everything before them."""
    rows, seen = band.first_row, _seen(band)
    real = None if key_mask is None else key_mask[:, :seen]
    return flash_attention(
        query[:, :, :rows], key[:, :, :seen], value[:, :, :seen], causal=band.causal, key_mask=real
    )[0]


def _seen(band: Band) -> int:
    """Return how many keys the global rows see."""
    return band.first_row + band.offset if band.causal else band.key_len


def _columns(
    tensor: Float[Tensor, "stacks key dim"], stretches: Sequence[slice], columns: int
) -> Iterator[Float[Tensor, "stacks keys dim"]]:
    """Return each tile its keys: the global ones and those of its window."""
    front, windows = tensor[:, :columns], cut(tensor, stretches)
    return (torch.cat((front, window), dim=1) if columns else window for window in windows)


def _in_order(outputs: list[Tensor], band: Band) -> Float[Tensor, "batch heads query value_dim"]:
    order = band.order()
    if order is None:
        return torch.cat(outputs, dim=2)
    return torch.cat((outputs[0], torch.cat(outputs[1:], dim=2)[:, :, order.to(outputs[0].device)]), dim=2)


def weights(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    window: int = 256,
    dilation: int = 1,
    global_tokens: int = 0,
) -> Float[Tensor, "batch heads query key"]:
    """Return the softmax over the window's keys. See `Variant.weights`."""
    ENTRY.check(window=window, dilation=dilation, global_tokens=global_tokens)
    pattern = mask(
        query.shape[2],
        key.shape[2],
        causal=causal,
        window=window,
        dilation=dilation,
        global_tokens=global_tokens,
    )
    return pattern_weights(query, key, pattern, key_mask)


def mask(
    query_len: int,
    key_len: int,
    *,
    causal: bool = False,
    window: int = 256,
    dilation: int = 1,
    global_tokens: int = 0,
) -> Bool[Tensor, "query key"]:
    """Allow the window's keys, and the global rows and columns.

    Raises:
        ValueError: There are more queries than keys.

    >>> mask(4, 4, causal=True, window=2).int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0],
            [0, 1, 1, 0],
            [0, 0, 1, 1]], dtype=torch.int32)
    """
    ENTRY.check(window=window, dilation=dilation, global_tokens=global_tokens)
    _check(query_len, key_len)
    position = torch.arange(key_len - query_len, key_len).unsqueeze(-1)
    key = torch.arange(key_len)
    distance = position - key
    allowed = (distance.abs() < window * dilation) & (distance % dilation == 0)
    allowed |= (position < global_tokens) | (key < global_tokens)
    return allowed & (distance >= 0) if causal else allowed


def reach(
    query_len: int,
    key_len: int,
    *,
    causal: bool = False,
    window: int = 256,
    dilation: int = 1,
    global_tokens: int = 0,
) -> Reach:
    """Describe `mask` as the global keys (all keys in a global row), and the window's other keys."""
    ENTRY.check(window=window, dilation=dilation, global_tokens=global_tokens)
    _check(query_len, key_len)
    position = own_positions(query_len, key_len)
    step, first = min(dilation, max(key_len, 1)), min(global_tokens, key_len)
    far = min(window - 1, key_len // step) * step
    is_global = position < first
    ends = position + 1 if causal else np.full_like(position, key_len)
    lead = segments(query_len, 0, np.where(is_global, ends, first))
    low = np.maximum(position - far, first + (position - first) % step)
    high = np.minimum(position + (0 if causal else far) + 1, key_len)
    near = segments(query_len, low, np.where(is_global, 0, high), step=step)
    return Reach(query_len, key_len, (lead, near), causal)


def _check(query_len: int, key_len: int) -> None:
    if query_len > key_len:
        raise ValueError(
            f"sliding-window needs a key for each query, got {query_len} queries and {key_len} keys"
        )
