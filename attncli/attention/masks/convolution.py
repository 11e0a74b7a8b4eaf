"""Convolution pattern: each position reads itself and a few before it, further apart in each layer where dilated.

Layer l of a dilated stack reads the keys ``i, i − kˡ, …, i − (k − 1)·kˡ``: L layers reach back kᴸ positions, as L
digits in base k count that far, so that ⌈log_k n⌉ layers are enough. Without dilation it takes ⌈(n − 1)/(k − 1)⌉.

It is no attention; it stands beside the attention patterns so that their path lengths can be compared with its.

Reference:
    Kalchbrenner et al. 2016, Neural Machine Translation in Linear Time (ByteNet), §3.3, arXiv 1610.10099;
    van den Oord et al. 2016, WaveNet, §2.1, arXiv 1609.03499.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from attncli.attention.patterns.key_runs import Layer, Reach, own_positions, segments
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="convolution",
    summary="itself and the kernel's other positions before it: a stack of causal convolutions",
    reference="van den Oord et al. 2016, §2.1, arXiv 1609.03499; Kalchbrenner et al. 2016, arXiv 1610.10099",
    parameters=(
        Parameter("kernel", 3, "keys that a position reads, itself included", minimum=1),
        Parameter("dilated", True, "whether layer l reads every kernel^l-th position"),
        Parameter("layer", 0, "the layer to show, zero-based", minimum=0),
    ),
    attributes={"causal": "only"},
)


def mask(
    query_len: int, key_len: int, *, kernel: int = 3, dilated: bool = True, layer: int = 0
) -> Bool[Tensor, "query key"]:
    """Allow the kernel's keys in one layer.

    >>> mask(5, 5, kernel=2, layer=1).int()
    tensor([[1, 0, 0, 0, 0],
            [0, 1, 0, 0, 0],
            [1, 0, 1, 0, 0],
            [0, 1, 0, 1, 0],
            [0, 0, 1, 0, 1]], dtype=torch.int32)
    """
    ENTRY.check(kernel=kernel, layer=layer)
    step = _step(key_len, kernel, layer if dilated else 0)
    distance = torch.arange(key_len - query_len, key_len).unsqueeze(-1) - torch.arange(key_len)
    return (distance >= 0) & (distance % step == 0) & (distance // step < min(kernel, key_len))


def reach(query_len: int, key_len: int, *, kernel: int = 3, dilated: bool = True, layer: int = 0) -> Reach:
    """See `mask`. Where dilated, the layers end where the next one would see nothing but itself."""
    ENTRY.check(kernel=kernel, layer=layer)
    shown = _layer(query_len, key_len, kernel, layer if dilated else 0)
    layers: tuple[Layer, ...] = ()
    notes: tuple[str, ...] = ()
    if dilated and kernel > 1:
        depth = next(number for number in range(key_len + 1) if kernel**number >= key_len)
        layers = tuple(_layer(query_len, key_len, kernel, number) for number in range(max(depth, 1)))
        notes = (
            f"shown is layer {layer}; the path is through a stack whose layers each reach {kernel} times as far",
        )
    return Reach(query_len, key_len, shown, causal=True, layers=layers, notes=notes)


def _layer(query_len: int, key_len: int, kernel: int, layer: int) -> Layer:
    position, step = own_positions(query_len, key_len), _step(key_len, kernel, layer)
    back = min(kernel - 1, key_len // step) * step
    starts = np.maximum(position - back, position % step)
    return (segments(query_len, starts, position + 1, step=step),)


def _step(key_len: int, kernel: int, layer: int) -> int:
    """Return a layer's dilation, or the number of keys where it is more: both leave nothing but the position itself."""
    step, most = 1, max(key_len, 1)
    for _ in range(layer):
        step *= kernel
        if step == 1 or step >= most:
            break
    return min(step, most)
