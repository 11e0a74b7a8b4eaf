"""Strided sparse attention: each position attends to those just before it, and to every stride-th position before.

Key j ≤ i is allowed for query i where

    i − j < stride    or    (i − j) mod stride = 0

(the union of the paper's two factors, in one head). The band is gone through as a window. For the columns the sequence
is written as rows of ``stride`` positions and transposed: each column is then a short sequence of its own. The two
parts share one softmax; they are disjoint, since a column leaves out the row itself.

Reference:
    Child et al. 2019, Generating Long Sequences with Sparse Transformers, §4.2, arXiv 1904.10509.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from attncli.attention.inputs import Stacked, check_self_attention, stack
from attncli.attention.patterns.key_runs import Reach, segments
from attncli.attention.plain_form import pattern_weights
from attncli.attention.strided_views import cut
from attncli.attention.tiles.partial import Partial, attend_part, closed, join
from attncli.attention.tiles.window_tiles import Band
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="sparse-strided",
    summary="a window, and every stride-th position before it: O(n·√n·d) with a stride of about √n",
    reference="Child et al. 2019, §4.2, arXiv 1904.10509",
    parameters=(
        Parameter("stride", 128, "positions in the window, and from column to column", minimum=1, example=3),
    ),
    attributes={"exact": False, "causal": "only", "cross": False, "signed": False},
)

COLUMN_SCORES = 1 << 18
"""Scores of the column part that are made at once, over all heads: 1 MiB."""


def attend(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    causal: bool = True,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    stride: int = 128,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Attend to the columns, then to the window, and join the two. See `Variant.attend`."""
    ENTRY.check(stride=stride)
    _check(query.shape[2], key.shape[2], causal)
    inputs = stack(query, key, value, key_mask)
    columns = _columns(inputs, stride)
    band = Band(query.shape[2], key.shape[2], True, stride)
    tiles = list(band.tiles())
    rows, stretches = [tile.rows for tile in tiles], [tile.keys for tile in tiles]
    keys, values = cut(inputs.key, stretches), cut(inputs.value, stretches)
    earlier = repeat(None, len(tiles)) if columns is None else _rows(columns, rows)
    outputs = []
    shape, bias = None, inputs.key
    for tile, tile_query, tile_key, tile_value, column in zip(
        tiles, inputs.rows(rows), keys, values, earlier, strict=True
    ):
        if tile.shape != shape:
            shape = tile.shape
            bias = inputs.spread(closed(band.allowed(tile).to(query.device), inputs.key.dtype))
        hidden = bias if inputs.padding is None else bias + inputs.padding[:, :, tile.keys]
        window = attend_part(tile_query, tile_key, tile_value, hidden)
        joined = window if column is None else join(window, column)
        outputs.append(inputs.unstack(joined.output()))
    return torch.cat(outputs, dim=2).to(query.dtype)


def _rows(columns: Partial, rows: Sequence[slice]) -> Iterator[Partial]:
    """Cut rows out of the columns' results and stack the heads of a group, as the window's rows are."""
    parts = (cut(part, rows) for part in (columns.numerator, columns.denominator, columns.top))
    for part in zip(*parts, strict=True):
        yield Partial(*(tensor.flatten(1, 2) for tensor in part))


def _columns(inputs: Stacked, stride: int) -> Partial | None:
    """Attend to every stride-th position strictly before each row; None where there is none.

    The results are ``(stacks, group, query, …)``.
    """
    stacks, group, length, _ = inputs.query.shape
    count = -(-length // stride)
    if count == 1:
        return None
    query, key, value = (_transposed(x, stride) for x in (inputs.query, inputs.key, inputs.value))
    padding = None if inputs.padding is None else _transposed(inputs.padding.mT, stride).mT
    before = torch.ones(count, count, dtype=torch.bool, device=query.device).tril(-1)
    bias = closed(before, query.dtype).repeat(group, 1)
    width = _width(stacks * group, count, stride)
    queries, keys, values = (
        torch.split(query, width, 2),
        torch.split(key, width, 1),
        torch.split(value, width, 1),
    )
    biases: Iterable[Tensor] = repeat(bias, len(keys))
    if padding is not None:
        biases = (bias + chunk.flatten(0, 1) for chunk in torch.split(padding, width, 1))
    chunks = zip(queries, keys, values, biases, strict=True)
    parts = [
        attend_part(
            chunk_query.transpose(1, 2).flatten(2, 3).flatten(0, 1),
            chunk_key.flatten(0, 1),
            chunk_value.flatten(0, 1),
            chunk_bias,
        )
        for chunk_query, chunk_key, chunk_value, chunk_bias in chunks
    ]
    shape = (stacks, -1, group, count)
    return Partial(
        _restored([part.numerator.view(*shape, value.shape[-1]) for part in parts], length),
        _restored([part.denominator.view(*shape, 1) for part in parts], length),
        _restored([part.top.view(*shape, 1) for part in parts], length),
    )


def _width(heads: int, count: int, stride: int) -> int:
    """Return how many columns at a time make a tile of a good size."""
    return min(max(COLUMN_SCORES // (heads * count * count), 1), stride)


def _transposed(
    tensor: Float[Tensor, "*batch query dim"], stride: int
) -> Float[Tensor, "*batch stride count dim"]:
    """Write a sequence as rows of `stride` positions, and give its columns; the last row is filled up with zeros.

    No row sees what fills up, for it stands after every position.
    """
    short = -tensor.shape[-2] % stride
    filled = F.pad(tensor, (0, 0, 0, short)) if short else tensor
    return filled.reshape(*filled.shape[:-2], -1, stride, filled.shape[-1]).transpose(-3, -2)


def _restored(
    columns: list[Float[Tensor, "stacks columns group count dim"]], length: int
) -> Float[Tensor, "stacks group query dim"]:
    """Undo `_transposed` on the columns' results."""
    return torch.cat(columns, dim=1).permute(0, 2, 3, 1, 4).flatten(2, 3)[:, :, :length]


def weights(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    *,
    causal: bool = True,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    stride: int = 128,
) -> Float[Tensor, "batch heads query key"]:
    """Return the softmax over the pattern's keys. See `Variant.weights`."""
    ENTRY.check(stride=stride)
    return pattern_weights(
        query, key, mask(query.shape[2], key.shape[2], causal=causal, stride=stride), key_mask
    )


def mask(
    query_len: int, key_len: int, *, causal: bool = True, stride: int = 128
) -> Bool[Tensor, "query key"]:
    """Allow the window and the columns.

    Raises:
        ValueError: Not causal, or queries and keys differ in number.

    >>> mask(5, 5, stride=2).int()
    tensor([[1, 0, 0, 0, 0],
            [1, 1, 0, 0, 0],
            [1, 1, 1, 0, 0],
            [0, 1, 1, 1, 0],
            [1, 0, 1, 1, 1]], dtype=torch.int32)
    """
    ENTRY.check(stride=stride)
    _check(query_len, key_len, causal)
    distance = torch.arange(query_len).unsqueeze(-1) - torch.arange(key_len)
    return (distance >= 0) & ((distance < stride) | (distance % stride == 0))


def reach(query_len: int, key_len: int, *, causal: bool = True, stride: int = 128) -> Reach:
    """Describe `mask` as the window, and the columns before it."""
    ENTRY.check(stride=stride)
    _check(query_len, key_len, causal)
    row, stride = np.arange(query_len), min(stride, max(key_len, 1))
    window = segments(query_len, np.maximum(row - stride + 1, 0), row + 1)
    columns = segments(query_len, row % stride, row - stride + 1, step=stride)
    return Reach(query_len, key_len, (window, columns), causal=True)


def _check(query_len: int, key_len: int, causal: bool) -> None:
    check_self_attention("sparse-strided", query_len, key_len)
    if not causal:
        raise ValueError("sparse-strided is defined for causal attention only, got causal=False")
