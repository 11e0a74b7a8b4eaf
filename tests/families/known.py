"""Families whose ``output_attentions`` is not, or not alone, the weights that the model computes with."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Restore = Callable[[Tensor, Tensor, dict[str, Tensor]], Tensor]


def _softmax(theirs: Tensor, ours: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    theirs = theirs[:, :, : ours.shape[2]]
    are_weights = bool((theirs >= 0).all()) and bool(((theirs.sum(dim=-1) - 1).abs() < 1e-3).all())
    return theirs if are_weights else torch.softmax(theirs, dim=-1)


def _with_sink(theirs: Tensor, ours: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    return theirs * ours.sum(dim=-1, keepdim=True)


def _unbanded(theirs: Tensor, ours: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """Put each column of a banded row where its key is, one by one, as the model's documentation says."""
    if theirs.shape == ours.shape:
        return theirs
    n, window = ours.shape[2], theirs.shape[-1] // 2
    full = torch.zeros_like(ours)
    for row in range(n):
        for column in range(theirs.shape[-1]):
            key = row + column - window
            if 0 <= key < n:
                full[:, :, row, key] = theirs[:, :, row, column]
    return full


def _head_axis(theirs: Tensor, ours: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    return theirs.reshape(ours.shape)


def _averaged(theirs: Tensor, ours: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """Give what is as far from ours as eager's average over heads is from our average."""
    return ours + theirs - ours.mean(dim=1, keepdim=True)


RESTORED: dict[str, tuple[str, Restore]] = {
    "squeezebert": ("eager returns scores before softmax; compared after one", _softmax),
    "prophetnet": ("eager returns scores before softmax, of other streams too; compared after one", _softmax),
    "granite_swa": ("eager leaves out the sink, which scales the output; compared with it", _with_sink),
    "granitemoe_swa": ("eager leaves out the sink, which scales the output; compared with it", _with_sink),
    "longformer": ("eager returns columns by distance; compared with each put where its key is", _unbanded),
    "sam_vision_model": ("eager returns batch and heads in one axis", _head_axis),
    "sam_hq_vision_model": ("eager returns batch and heads in one axis", _head_axis),
    "wavlm": (
        "eager returns the average over heads, once for each head; compared with ours averaged",
        _averaged,
    ),
    "led": ("eager returns columns by distance; compared with each put where its key is", _unbanded),
}
"""By family: what eager returns instead, and how the weights are had from it."""

WITH_OTHERS = {"minimax": "eager also returns what lightning attention computes, which is no softmax"}
"""Families whose eager attention returns something for layers without softmax too."""

ANOTHER_MODEL = {
    "aimv2": "without padding eager runs another mask (causal) than the model's own attention (bidirectional)",
    "diffusion_gemma": "eager returns the attention of the canvas of noise; what reads the text is not compared",
    "paligemma": "eager runs another mask (causal) than the model's own attention (bidirectional): not compared",
}
"""Families whose eager attention computes something else than the model does."""
