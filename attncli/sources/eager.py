"""For models that do not go through transformers' attention interface: their own weights, from eager attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from attncli.errors import CaptureError
from attncli.record import Kind, Site
from attncli.sources.capture import depth
from attncli.sources.emission import Emitter

_FIELDS = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}


def run_eager(model: Any, forward: Callable[..., Any], emitter: Emitter, kinds: Sequence[Kind]) -> str:
    """Run the model with eager attention, which returns its weights, and show those.

    Returns:
        A note that says so.

    Raises:
        CaptureError: It returns none, or not one for each layer, so that a layer's index would be a guess.
    """
    family = model.config.model_type
    before = model.config._attn_implementation
    try:
        model.set_attn_implementation("eager")
        outputs = forward(model, output_attentions=True)
    finally:
        model.set_attn_implementation(before)
    for kind in kinds:
        layers = _weights(outputs, kind, len(kinds) > 1)
        if len(layers) != depth(model.config, kind):
            raise CaptureError(
                f"{family}: {len(layers)} of {depth(model.config, kind)} {kind} layers give attention weights, "
                "so their indices are not known"
            )
        for layer, weights in enumerate(layers):
            _emit(emitter, kind, layer, weights, family)
    return f"{family} does not go through transformers' attention interface: weights are its own, from eager attention"


def _weights(outputs: Any, kind: Kind, several: bool) -> Sequence[Tensor]:
    found = getattr(outputs, _FIELDS[kind], None) if several else None
    if found is None:
        found = getattr(outputs, "attentions", None)
    return tuple(found or ())


def _emit(emitter: Emitter, kind: Kind, layer: int, weights: Tensor, family: str) -> None:
    if not isinstance(weights, Tensor) or weights.dim() != 4:
        shape = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise CaptureError(f"{family} {kind} layer {layer}: weights of a form that is not known ({shape})")
    heads, queries, keys = weights.shape[1:]
    if kind != "cross" and queries != keys:
        raise CaptureError(
            f"{family} {kind} layer {layer}: the weights' {keys} columns are not the {queries} tokens"
        )
    # The model's mask is not seen here. A pair on which all heads put exactly nothing was masked.
    allowed = (weights != 0).any(dim=1, keepdim=True)
    mask = None if bool(allowed.all()) else allowed
    emitter.emit_weights(Site(kind, layer, heads, heads), weights, mask, "eager")
