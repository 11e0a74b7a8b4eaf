"""Attention whose weights a model computes in a form of its own, brought back to ``(batch, heads, query, key)``."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attncli.capture.module_stack import Frame
from attncli.errors import CaptureError

Layout = Callable[[Frame, int], tuple[Tensor, Tensor | None]]


def allowed_by(scores: Tensor, weights: Tensor) -> Tensor | None:
    """Read off scores before softmax which pairs were masked: they have no weight and lie beyond any real score."""
    top = scores.amax(dim=-1, keepdim=True)
    never = max(torch.finfo(scores.dtype).min / 2, -1e9)
    forbidden = (scores <= never) | (scores == -torch.inf) | ((weights == 0) & (scores < top - 9e3))
    forbidden |= top < -5e3
    if not bool(forbidden.any()):
        return None
    allowed = ~forbidden
    first = allowed[:, :1]
    return first if bool((allowed == first).all()) else allowed


def banded(frame: Frame, batch: int) -> tuple[Tensor, Tensor | None]:
    """Put Longformer's columns back where their keys are, and the rows of global tokens in their place.

    A row has G columns for the global keys and then 2w + 1 for the keys from w before to w after it. Tokens with
    global attention have rows of their own, over all keys.

    Reference:
        Beltagy et al. 2020, Longformer, §3, arXiv 2004.05150.
    """
    local = frame.softmaxes[0].weights.float()  # (batch, n, heads, G + 2w + 1)
    scores = frame.softmaxes[0].scores
    n, heads = local.shape[1:3]
    is_global = _flag(frame, "is_index_global_attn", batch, n, local.device)
    masked = _flag(frame, "is_index_masked", batch, n, local.device)
    most = int(is_global.sum(dim=1).max()) if len(frame.softmaxes) > 1 else 0
    window = (local.shape[-1] - most - 1) // 2
    # One spare column at either end takes what lies outside of the text.
    full = local.new_zeros(batch, heads, n, n + 2 * window)
    seen = torch.zeros_like(full, dtype=torch.bool)
    by_head, real = local.transpose(1, 2), (scores > torch.finfo(scores.dtype).min / 2).transpose(1, 2)
    columns = torch.arange(n, device=local.device)[:, None] + torch.arange(
        2 * window + 1, device=local.device
    )
    columns = columns.expand(batch, heads, n, -1)
    full.scatter_(-1, columns, by_head[..., most:])
    seen.scatter_(-1, columns, real[..., most:])
    full, seen = full[..., window : window + n].clone(), seen[..., window : window + n].clone()
    for text in range(batch):
        keys = is_global[text].nonzero().flatten() if most else is_global.new_zeros(0, dtype=torch.long)
        if len(keys):
            full[text, :, :, keys] = by_head[text, :, :, : len(keys)]
            seen[text, :, :, keys] = real[text, :, :, : len(keys)]
            rows = frame.softmaxes[1].weights.reshape(batch, heads, most, n)[text, :, : len(keys)]
            full[text, :, keys] = rows.float()
            seen[text, :, keys] = ~masked[text]
    alive = ~masked[:, None, :, None]
    return full * alive, seen & alive


def _flag(frame: Frame, name: str, batch: int, n: int, device: torch.device) -> Tensor:
    given = frame.inputs.get(name)
    if isinstance(given, Tensor):
        return given.bool()
    return torch.zeros(batch, n, dtype=torch.bool, device=device)


def last_softmax(frame: Frame, batch: int) -> tuple[Tensor, Tensor | None]:
    """Take the last softmax of a module: LiLT computes the layout's attention first and then the text's."""
    return _one(frame, -1)


def first_softmax(frame: Frame, batch: int) -> tuple[Tensor, Tensor | None]:
    """Take the first softmax of a module: ProphetNet's main stream, before those that predict further ahead.

    Where the streams share one softmax the main one has the first rows.
    """
    return _one(frame, 0)


def only_softmax(frame: Frame, batch: int) -> tuple[Tensor, Tensor | None]:
    """Take the softmax of a module that computes one for short texts and approximates longer ones with several.

    Raises:
        CaptureError: There are several.
    """
    if len(frame.softmaxes) > 1:
        raise CaptureError(
            f"{frame.name} ({type(frame.module).__name__}) approximates its attention in {len(frame.softmaxes)} "
            "steps for a text of this length: there is no single map from tokens to tokens"
        )
    return _one(frame, 0)


def _one(frame: Frame, index: int) -> tuple[Tensor, Tensor | None]:
    made = frame.softmaxes[index]
    return made.weights, allowed_by(made.scores, made.weights)


LAYOUTS: dict[str, Layout] = {
    "LongformerSelfAttention": banded,
    "LEDEncoderSelfAttention": banded,
    "LiltSelfAttention": last_softmax,
    "ProphetNetNgramSelfAttention": first_softmax,
    "ProphetNetAttention": first_softmax,
    "NystromformerSelfAttention": only_softmax,
    "BigBirdBlockSparseAttention": only_softmax,
    "BigBirdPegasusBlockSparseAttention": only_softmax,
}
