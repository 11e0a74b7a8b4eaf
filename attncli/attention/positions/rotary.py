"""Rotary position encoding (RoPE): each pair of dimensions turns with the position."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Float64
from torch import Tensor

Layout = Literal["half", "interleaved"]


def apply_rotary(
    x: Float[Tensor, "*batch length head_dim"],
    frequencies: Float64[Tensor, " pairs"],
    *,
    layout: Layout = "half",
    offset: int = 0,
    attention_factor: float = 1.0,
) -> Float[Tensor, "*batch length head_dim"]:
    """Turn the t-th pair of dimensions by the angle ``position · frequency_t``.

    A query and a key turned so compare as ``q·R(j−i)·k``: only how far apart they are counts. Keys are turned before
    they are cached, at their own absolute positions. The same weights give other scores in the other layout.

    Args:
        x: Queries or keys. The first ``2 · pairs`` dimensions turn, the others pass through (partial rotary).
        layout: Which dimensions make a pair: ``interleaved`` takes (2t, 2t+1), as in the paper and GPT-J; ``half``
            takes (t, t + pairs), as in GPT-NeoX, Llama and most others.
        offset: Position of the first row.
        attention_factor: Multiplies what turns (`yarn_attention_factor`).

    Raises:
        ValueError: More dimensions are to turn than there are, or there is no such layout.

    Reference:
        Su et al. 2021, §3.4, arXiv 2104.09864.

    >>> apply_rotary(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.ones(1, dtype=torch.float64))
    tensor([[1.0000, 0.0000],
            [0.5403, 0.8415]])
    """
    if layout not in ("half", "interleaved"):
        raise ValueError(f"expected the layout 'half' or 'interleaved', got {layout!r}")
    rotary_dim = 2 * frequencies.shape[0]
    if rotary_dim > x.shape[-1]:
        raise ValueError(f"expected at least {rotary_dim} dimensions to rotate, got {x.shape[-1]}")
    turning, still = x[..., :rotary_dim], x[..., rotary_dim:]
    # bfloat16 cannot even tell position 257 from 256, so angles are float64 and the product is at least float32.
    position = torch.arange(offset, offset + x.shape[-2], dtype=torch.float64, device=x.device)
    angle = position.unsqueeze(-1) * frequencies.to(x.device)  # (length, pairs)
    precise = torch.promote_types(x.dtype, torch.float32)
    cos = (angle.cos() * attention_factor).to(precise)
    sin = (angle.sin() * attention_factor).to(precise)
    turned = _rotate(turning.to(precise), cos, sin, layout).to(x.dtype)
    return torch.cat((turned, still), dim=-1) if still.shape[-1] else turned


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    if layout == "interleaved":
        first, second = x[..., ::2], x[..., 1::2]
        return torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(-2)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
