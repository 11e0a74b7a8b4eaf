"""How a logit comes from a decoder's last residual stream: final norm, unembedding, a scale or a soft-cap."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attncli.capture.frozen_maps import Frozen, freeze
from attncli.capture.projections import Leaf, same, shaped, tolerance
from attncli.errors import CaptureError, UsageError
from attncli.models.opening import Opened
from attncli.models.pretrained import PretrainedSource
from attncli.models.trained import TrainedSource

SUM_TOLERANCE = 1e-4
"""How far the parts' sum may be from the model's own logit, relative to it where that is over 1."""


@dataclass(frozen=True)
class Unembedding:
    """How logits are made: ``vector · (what the module is given) + bias`` for one token.

    Args:
        module: Is given the last vectors, after the final norm.
    """

    module: nn.Module
    vector: Float[Tensor, " model_dim"]
    bias: float


def unembedding(source: Opened, token: int) -> tuple[nn.Module, Unembedding]:
    """Return a source's network, and how it makes a token's logit.

    Raises:
        UsageError: It predicts no tokens.
    """
    if isinstance(source, TrainedSource) and "decoder" in source.kinds:
        model = source.model
        vector = model.embedding.weight[token] @ model.head.weight * model.shape.d_model**-0.5
        return model, Unembedding(model.head, vector.detach(), 0.0)
    head = None
    if isinstance(source, PretrainedSource) and "decoder" in source.kinds:
        head = source.network.get_output_embeddings()  # type: ignore[operator]
    if not isinstance(getattr(head, "weight", None), Tensor):
        raise UsageError(
            "--to: this model predicts no next token", "name a decoder with a language-model head"
        )
    assert head is not None and isinstance(source, PretrainedSource)
    bias = getattr(head, "bias", None)
    vector = head.weight[token].detach()
    return source.network, Unembedding(head, vector, 0.0 if bias is None else float(bias.detach()[token]))


def refused(what: str, hint: str | None = None) -> CaptureError:
    """Return the error of a logit that is no sum of parts."""
    return CaptureError(f"this logit cannot be written as a sum of the model's parts: {what}", hint)


@dataclass(frozen=True)
class Ending:
    """How a logit comes from the last stream: ``logit = direction · stream + rest``.

    Args:
        stream: All positions' last vectors, before the final norm.
    """

    stream: Tensor
    direction: Tensor
    rest: float
    logits: Tensor
    token: int
    scale: float | None
    factor: float
    how: str

    @classmethod
    def of(
        cls, ran: tuple[Leaf, ...], unembedding: Unembedding, logits: Tensor, token: int, position: int
    ) -> Ending:
        """Find what ran after the last layer.

        Args:
            logits: The model's own, at the position.

        Raises:
            CaptureError: It is something else than a norm, an unembedding, a scale or a soft-cap.
        """
        given = next((leaf.input for leaf in reversed(ran) if leaf.module is unembedding.module), None)
        if given is None or given.dim() != 3:
            raise refused("what the unembedding is given was not seen")
        given = given[0].float()
        norm, stream, times = _final_norm(ran, given)
        vector = unembedding.vector.double().to(given.device)
        made = float(vector @ given[position].double()) + unembedding.bias
        factor, how = _changed_after(ran, unembedding, logits, token, position, made)
        scale, rest, direction = None, unembedding.bias, times * vector
        if norm is not None:
            scale = float(norm.scales[position])
            rest += times * float(vector @ norm.bias)
            direction = times * norm.back(vector) / scale
        return cls(stream, factor * direction, factor * rest, logits, token, scale, factor, how)


def _final_norm(ran: tuple[Leaf, ...], given: Tensor) -> tuple[Frozen | None, Tensor, float]:
    """Find the norm before the unembedding, what it was given, and what its output was multiplied by."""
    for leaf in reversed(ran):
        made, before = shaped(leaf.output, given.shape), shaped(leaf.input, given.shape)
        if made is None or before is None:
            continue
        times = float((made * given).sum() / made.square().sum().clamp(min=1e-30))
        if not same(times * made, given, tolerance(leaf.output)):
            continue
        norm = freeze(leaf, given.shape)
        if norm is not None and not same(made, before, tolerance(leaf.output)):
            return norm, before, times
    return None, given, 1.0


def _changed_after(
    ran: tuple[Leaf, ...], unembedding: Unembedding, logits: Tensor, token: int, position: int, made: float
) -> tuple[float, str]:
    """Return what a logit was multiplied by after the unembedding, and by what kind of step."""
    logit = float(logits[token])
    if abs(logit - made) <= SUM_TOLERANCE * max(1.0, abs(logit)):
        return 1.0, ""
    output = next(leaf.output for leaf in reversed(ran) if leaf.module is unembedding.module)
    before = output[0, position].double()
    if before.shape != logits.shape or abs(float(before[token]) - made) > SUM_TOLERANCE * max(1.0, abs(made)):
        raise refused("its unembedding does something else besides")
    factor = logit / made
    near = SUM_TOLERANCE * float(before.abs().max())
    if bool(((before * factor - logits) / factor).abs().max() <= near):
        return factor, "scale"
    # A soft-cap c·tanh(z / c) keeps signs, and bends large numbers only: c is found from the largest.
    largest = int(before.abs().argmax())
    cap = _cap(abs(float(before[largest])), abs(float(logits[largest])))
    if cap is not None and bool((cap * (before / cap).tanh() - logits).abs().max() <= near):
        return factor, "soft-cap"
    raise refused("what becomes of its logits after the unembedding is neither a scale nor a soft-cap")


def _cap(before: float, after: float) -> float | None:
    """Solve ``after = cap · tanh(before / cap)`` for the cap, which the left side rises with."""
    if not 0 < after < before:
        return None
    low, high = after, 1e9
    for _ in range(200):
        cap = (low * high) ** 0.5
        low, high = (cap, high) if cap * torch.tensor(before / cap).tanh().item() < after else (low, cap)
    return high
