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

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attncli.attention.block_layout import BlockLayout
from attncli.attention.core import repeat_kv
from attncli.attention.flash import flash_attention
from attncli.attention.inputs import check_lengths, check_self_attention, precise, without_padding
from attncli.attention.patterns import pattern_weights
from attncli.attention.tiles import attend_tile, closed, part_numbers
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="bigbird",
    summary="window, global and random blocks: O(n·d) time and memory for a fixed block",
    reference="Zaheer et al. 2020, §2, arXiv 2007.14062",
    parameters=(
        Parameter("block", 64, "positions in a block", minimum=1),
        Parameter("random_blocks", 3, "key blocks drawn for each query block and head", minimum=0),
        Parameter("global_blocks", 1, "blocks at each end that see all and that all see", minimum=0),
        Parameter("window_blocks", 1, "neighbouring blocks seen on each side", minimum=0),
        Parameter("seed", 0, "of the random blocks", minimum=0),
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
    _check(query.shape[2], key.shape[2], causal)
    layout = BlockLayout(key.shape[2], block, random_blocks, global_blocks, window_blocks, seed)
    heads, queries = query.shape[1], precise(query)
    keys = repeat_kv(without_padding(precise(key), key_mask), heads)
    values = repeat_kv(without_padding(precise(value), key_mask), heads)
    padding = None
    if key_mask is not None:
        padding = closed(key_mask[:, None, :, None], keys.dtype).expand(-1, heads, -1, -1)
    drawn = layout.drawn(heads).to(query.device)
    outputs = []
    for index in range(layout.blocks):
        rows = layout.positions(index, index + 1)
        if layout.is_global(index):
            output, _ = flash_attention(queries[:, :, rows], keys, values, key_mask=key_mask)
        else:
            random = layout.random_positions(drawn[:, index])
            output = attend_tile(
                queries[:, :, rows],
                _picked(keys, layout, index, random),
                _picked(values, layout, index, random),
                layout.beyond_end(random, keys.dtype),
                None if padding is None else _picked(padding, layout, index, random).mT,
            )
        outputs.append(output)
    return torch.cat(outputs, dim=2).to(query.dtype)


def _picked(
    tensor: Float[Tensor, "batch heads key dim"],
    layout: BlockLayout,
    index: int,
    random: Int[Tensor, "heads keys"],
) -> Float[Tensor, "batch heads keys dim"]:
    """Put side by side what a query block reads: the stretches that all heads share, then each head's own blocks."""
    pieces = [tensor[:, :, stretch] for stretch in layout.stretches(index)]
    if random.shape[1]:
        head = torch.arange(len(random), device=tensor.device).unsqueeze(-1)
        pieces.append(tensor[:, head, random.clamp(max=layout.length - 1)])
    return torch.cat(pieces, dim=2)


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
    """Give the softmax over the pattern's keys. See `Variant.weights`."""
    _check(query.shape[2], key.shape[2], causal)
    layout = BlockLayout(key.shape[2], block, random_blocks, global_blocks, window_blocks, seed)
    return pattern_weights(query, key, layout.pattern(query.shape[1]), key_mask)


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
    _check(query_len, key_len, causal)
    return BlockLayout(key_len, block, random_blocks, global_blocks, window_blocks, seed).pattern(1)[0]


def flops(
    *,
    batch: int,
    heads: int,
    query_len: int,
    key_len: int,
    head_dim: int,
    value_dim: int,
    causal: bool,
    block: int = 64,
    random_blocks: int = 3,
    global_blocks: int = 1,
    window_blocks: int = 1,
    seed: int = 0,
) -> int:
    """Count both products: all pairs of global rows, and ``block·(2·global + 2·window + 1 + random)`` of others."""
    layout = BlockLayout(key_len, block, random_blocks, global_blocks, window_blocks, seed)
    pairs = sum(layout.height(index) * layout.width(index) for index in range(layout.blocks))
    return 2 * batch * heads * pairs * (head_dim + value_dim)


def extra_bytes(
    *,
    batch: int,
    heads: int,
    query_len: int,
    key_len: int,
    head_dim: int,
    value_dim: int,
    causal: bool,
    block: int = 64,
    random_blocks: int = 3,
    global_blocks: int = 1,
    window_blocks: int = 1,
    seed: int = 0,
) -> int:
    """Predict the output in pieces and put together, and the largest tile."""
    layout = BlockLayout(key_len, block, random_blocks, global_blocks, window_blocks, seed)
    inner = [index for index in range(layout.blocks) if not layout.is_global(index)]
    tile = max(
        (part_numbers(layout.height(index), layout.width(index), head_dim, value_dim) for index in inner),
        default=0,
    )
    draw = layout.blocks * layout.blocks
    return 4 * batch * heads * (2 * query_len * value_dim + tile) + 4 * draw


def _check(query_len: int, key_len: int, causal: bool) -> None:
    check_self_attention("bigbird", query_len, key_len)
    if causal:
        raise ValueError("bigbird has no causal form: its global blocks read the whole text")
