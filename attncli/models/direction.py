"""Whether a model with one stack of layers reads one way or both: seen by the mask of its first attention operation."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any

import torch

from attncli.capture.blocks import BlockFeed
from attncli.capture.forward_pass import Enough, Watch
from attncli.capture.layers import Stacks
from attncli.errors import CaptureError
from attncli.models.influence import small_inputs
from attncli.record import AttentionLayer, Kind, WeightBlock


def kind_of_single_stack(model: Any) -> Kind:
    """Return ``decoder`` where a model hides the future, otherwise ``encoder``.

    The model reads a few tokens, as far as its first attention. Where it does not run on these alone, its config and
    its classes tell.
    """
    stacks = Stacks(model)
    return _seen(model, stacks) or _guess(model, stacks)


def _seen(model: Any, stacks: Stacks) -> Kind | None:
    """Return what the first attention between the tokens of the main stack shows; None where there is none."""
    may_stop = not hasattr(model, "hf_device_map")  # accelerate wants to clear up after each module
    first = _First(may_stop)
    inputs = next(small_inputs(model))
    if "input_ids" in inputs and "attention_mask" in inspect.signature(model.forward).parameters:
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    watch = Watch(model, BlockFeed([first], verify=False), ("encoder", "decoder"), 1, stacks=stacks)
    try:
        with torch.inference_mode(), watch.watching(), suppress(Enough):
            model(**inputs)
    except torch.OutOfMemoryError:
        raise
    except (CaptureError, TypeError, ValueError, LookupError, AttributeError, RuntimeError):
        return None
    return first.kind


class _First:
    """Notes the kind of the first attention of a text to itself, and stops the model there."""

    def __init__(self, may_stop: bool) -> None:
        self.kind: Kind | None = None
        self._may_stop = may_stop

    def request(self, layer: AttentionLayer) -> None:
        """Look at no weights."""
        if layer.kind == "cross":
            return
        self.kind = self.kind or layer.kind
        if self._may_stop:
            raise Enough

    def update(self, block: WeightBlock) -> None:
        """Take no notice: nothing was asked for."""

    def inspect(self, *seen: object) -> None:
        """Be there, so that operations are shown at once."""


def _guess(model: Any, stacks: Stacks) -> Kind:
    """Return what config and classes say."""
    if getattr(model.config.get_text_config(), "is_decoder", False):
        return "decoder"
    inside = (module for name, module in model.named_modules() if stacks.in_root(name))
    if any(getattr(module, "is_causal", None) is True for module in inside):
        return "decoder"
    base = getattr(model, "base_model", model)  # the model without its head
    return "decoder" if type(base).__name__ in _causal_bases() else "encoder"


def _causal_bases() -> frozenset[str]:
    """Return the base models of all families that transformers also offers as a causal language model only."""
    from transformers.models.auto import modeling_auto as auto

    masked = set(auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)
    causal = set(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) - masked
    names = (auto.MODEL_MAPPING_NAMES.get(family) for family in causal)
    return frozenset(name for name in names if isinstance(name, str))
