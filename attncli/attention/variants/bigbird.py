"""BigBird: blocks of positions attend to neighbouring blocks, to global blocks at both ends, and to random blocks.

Positions are cut into blocks of ``block``. A query block attends to the ``global_blocks`` first and last key blocks, to
itself and ``window_blocks`` neighbours on each side, and to ``random_blocks`` of the others, drawn for each head; the
global query blocks attend to everything. A key counts once, by however many ways it is reached, and random blocks are
drawn from those not reached otherwise. (Other implementations let them coincide and then count a key twice.)

Global blocks that are part of the text are the paper's internal construction (ITC). There is no causal form: global
blocks read the whole text and every block reads them.

Reference:
    Zaheer et al. 2020, Big Bird: Transformers for Longer Sequences, §2, arXiv 2007.14062.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from attncli.attention.core import precise
from attncli.attention.inputs import check_lengths, check_self_attention, without_padding
from attncli.attention.patterns.block_layout import BlockLayout
from attncli.attention.patterns.key_runs import Reach, Segments, segments
from attncli.attention.plain_form import pattern_weights
from attncli.attention.strided_views import cut, pick
from attncli.attention.tiles.flash import flash_attention
from attncli.attention.tiles.partial import attend_tile, closed
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="bigbird",
    summary="window, global and random blocks: O(n·d) time and memory for a fixed block",
    reference="Zaheer et al. 2020, §2, arXiv 2007.14062",
    parameters=(
        Parameter("block", 64, "positions in a block", minimum=1, example=1),
        Parameter("random_blocks", 3, "key blocks drawn for each query block and head", minimum=0, example=1),
        Parameter("global_blocks", 1, "blocks at each end that see all and that all see", minimum=0),
        Parameter("window_blocks", 1, "neighbouring blocks seen on each side", minimum=0),
        Parameter("seed", 0, "of the random blocks", minimum=0, maximum=9223372036854775807),
    ),
    attributes={"exact": False, "causal": False, "cross": False, "signed": False},
)


def attend(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    block: int = 64,
    random_blocks: int = 3,
    global_blocks: int = 1,
    window_blocks: int = 1,
    seed: int = 0,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Attend block by block: stretches that all heads share, then each head's random blocks. See `Variant.attend`."""
    check_lengths(query, key, value, key_mask)
    lengths = query.shape[2], key.shape[2]
    layout = _layout(*lengths, causal, block, random_blocks, global_blocks, window_blocks, seed)
    keys, values = without_padding(precise(key), key_mask), without_padding(precise(value), key_mask)
    pattern = layout.pattern(query.shape[1])
    inner = [index for index in range(layout.blocks) if not layout.is_global(index)]
    reads = [layout.read(pattern, index).to(query.device) for index in inner]
    rows = [layout.rows(index) for index in range(layout.blocks)]
    picked = zip(
        _picked(keys, block, reads),
        _picked(values, block, reads),
        _hidden(key, key_mask, block, reads),
        strict=True,
    )
    open_bias = keys.new_zeros(1)
    outputs = []
    for index, block_query in enumerate(cut(precise(query), rows)):
        if layout.is_global(index):
            output, _ = flash_attention(block_query, keys, values, key_mask=key_mask)
        else:
            block_key, block_value, hidden = next(picked)
            bias = open_bias if hidden is None else hidden.mT
            bias, padding = (bias, None) if key_mask is None else (open_bias, bias)
            output = attend_tile(block_query.flatten(0, 1), block_key, block_value, bias, padding)
            output = output.view(*query.shape[:2], -1, value.shape[-1])
        outputs.append(output)
    return torch.cat(outputs, dim=2).to(query.dtype)


def _picked(
    tensor: Float[Tensor, "batch kv_heads key dim"],
    block: int,
    reads: Sequence[Int[Tensor, "heads _"]],
) -> Iterator[Float[Tensor, "batch_heads keys dim"]]:
    """Put side by side the blocks that each head reads, query block by query block.

    As a selection of long rows, which is a plain copy; an index of positions would take three times as long. A short
    last block is filled up with zeros.
    """
    batch, kv_heads, length, dim = tensor.shape
    short = -length % block
    filled = F.pad(tensor, (0, 0, 0, short)) if short else tensor
    table = filled.reshape(-1, block * dim)
    if not reads:
        return iter(())
    heads = len(reads[0])
    stacks = torch.arange(batch * kv_heads, device=tensor.device).repeat_interleave(heads // kv_heads)
    first = (stacks * (len(table) // (batch * kv_heads))).view(batch, heads, 1)
    picks = pick(table, [(first + read).flatten() for read in reads])
    return (rows.view(batch * heads, -1, dim) for rows in picks)


def _hidden(
    key: Float[Tensor, "batch kv_heads key dim"],
    key_mask: Bool[Tensor, "batch key"] | None,
    block: int,
    reads: Sequence[Int[Tensor, "heads _"]],
) -> Iterator[Float[Tensor, "batch_heads keys 1"] | None]:
    """Return the bias that hides padding, and what fills up a short block; None where there is neither."""
    batch, kv_heads, length, _ = key.shape
    short = -length % block
    if key_mask is None and not short:
        return repeat(None, len(reads))
    real = key.new_ones(batch, length, dtype=torch.bool) if key_mask is None else key_mask
    bias = closed(F.pad(real, (0, short)), precise(key).dtype)
    return _picked(bias[:, None, :, None].expand(-1, kv_heads, -1, -1), block, reads)


def weights(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    block: int = 64,
    random_blocks: int = 3,
    global_blocks: int = 1,
    window_blocks: int = 1,
    seed: int = 0,
) -> Float[Tensor, "batch heads query key"]:
    """Return the softmax over the pattern's keys. See `Variant.weights`."""
    lengths = query.shape[2], key.shape[2]
    layout = _layout(*lengths, causal, block, random_blocks, global_blocks, window_blocks, seed)
    return pattern_weights(query, key, layout.positions(layout.pattern(query.shape[1])), key_mask)


def mask(
    query_len: int,
    key_len: int,
    *,
    causal: bool = False,
    block: int = 64,
    random_blocks: int = 3,
    global_blocks: int = 1,
    window_blocks: int = 1,
    seed: int = 0,
) -> Bool[Tensor, "query key"]:
    """Allow the blocks that head 0 reads.

    Raises:
        ValueError: Causal, or queries and keys differ in number.

    >>> mask(5, 5, block=1, random_blocks=0).int()
    tensor([[1, 1, 1, 1, 1],
            [1, 1, 1, 0, 1],
            [1, 1, 1, 1, 1],
            [1, 0, 1, 1, 1],
            [1, 1, 1, 1, 1]], dtype=torch.int32)
    """
    layout = _layout(query_len, key_len, causal, block, random_blocks, global_blocks, window_blocks, seed)
    return layout.positions(layout.pattern(1))[0]


def reach(
    query_len: int,
    key_len: int,
    *,
    causal: bool = False,
    block: int = 64,
    random_blocks: int = 3,
    global_blocks: int = 1,
    window_blocks: int = 1,
    seed: int = 0,
) -> Reach:
    """Describe `mask` as the global blocks at both ends (everything in a global row), neighbours, and random blocks."""
    layout = _layout(query_len, key_len, causal, block, random_blocks, global_blocks, window_blocks, seed)
    count, index = layout.blocks, np.arange(layout.blocks)
    ends, sides = min(global_blocks, count), min(window_blocks, count)
    is_global = (index < ends) | (index >= count - ends)
    first = (np.zeros_like(index), np.where(is_global, count, ends))
    last = (np.full_like(index, count - ends), np.where(is_global, 0, count))
    low = np.maximum(index - sides, ends)
    near = (low, np.where(is_global, 0, np.minimum(index + sides + 1, count - ends)))
    drawn = [(picked, np.where(picked < 0, -1, picked + 1)) for picked in layout.first_draw().numpy().T]
    parts = tuple(_of_blocks(layout, *part) for part in (first, last, near, *drawn))
    notes = ("shown are the random blocks of head 0; each head draws its own",) if random_blocks else ()
    return Reach(query_len, key_len, parts, causal=False, notes=notes)


def _of_blocks(layout: BlockLayout, first: NDArray[np.int64], stop: NDArray[np.int64]) -> Segments:
    """Write a run of blocks for each block of rows as a run of keys for each row."""
    of_row = np.arange(layout.length) // layout.block
    starts, stops = first[of_row] * layout.block, stop[of_row] * layout.block
    return segments(layout.length, starts, np.minimum(stops, layout.length))


def _layout(
    query_len: int,
    key_len: int,
    causal: bool,
    block: int,
    random_blocks: int,
    global_blocks: int,
    window_blocks: int,
    seed: int,
) -> BlockLayout:
    """Check the settings and lay the blocks out; a block is no longer than the text."""
    numbers = {"random_blocks": random_blocks, "global_blocks": global_blocks, "window_blocks": window_blocks}
    ENTRY.check(block=block, seed=seed, **numbers)
    if causal:
        raise ValueError("bigbird has no causal form: its global blocks read the whole text")
    check_self_attention("bigbird", query_len, key_len)
    return BlockLayout(
        key_len, min(block, max(key_len, 1)), random_blocks, global_blocks, window_blocks, seed
    )
