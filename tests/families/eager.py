"""Holds captured weights against transformers' own eager attention."""

from __future__ import annotations

import copy
from typing import Any

import torch
from families.known import ANOTHER_MODEL, RESTORED, WITH_OTHERS
from families.observing import Everything
from families.outcome import Outcome, Wrong
from torch import Tensor

from attncli.record import KINDS, Kind, Run

TOLERANCE = 2e-5
FIELDS = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}


def compare(
    outcome: Outcome, model: Any, inputs: dict[str, Tensor], everything: Everything, run: Run
) -> None:
    reference = eager(model, inputs)
    two_stacks = bool(getattr(model.config, "is_encoder_decoder", False))
    outcome.capture = sorted({*outcome.capture, *(report.capture for report in run.reports)})
    outcome.others = sum(1 for layer in run.attention_layers if layer.stack)
    for kind in KINDS:
        layers = [layer.index for layer in run.attention_layers if layer.kind == kind and not layer.stack]
        if not layers:
            continue
        if len(set(layers)) != len(layers):
            raise Wrong(f"{kind} layers {layers}: an index came twice")
        outcome.layers[kind] = layers
        order = [(layer.kind, layer.index) for layer in run.attention_layers if not layer.stack]
        theirs = _reference_layers(reference, kind, two_stacks, len(order))
        _compare_kind(outcome, kind, layers, theirs, everything, inputs, order)
    if outcome.compared == 0 and outcome.status == "right":
        _check_by_output(outcome, run)


def _check_by_output(outcome: Outcome, run: Run) -> None:
    outcome.status = (
        "checked" if all(report.output_error is not None for report in run.reports) else "uncompared"
    )
    outcome.why = ANOTHER_MODEL.get(outcome.family, "eager gives no weights to compare with")


def _reference_layers(reference: Any, kind: Kind, two_stacks: bool, operations: int) -> list[Tensor | None]:
    names = [FIELDS[kind]]
    if not two_stacks:
        names += ["attentions", "language_attentions"]
    for name in names:
        found = getattr(reference, name, None)
        for inner in ("text_model_output", "language_model_outputs"):
            if found is None and hasattr(reference, inner):
                found = getattr(getattr(reference, inner), name, None)
        if name == "attentions" and kind == "cross" and len(found or ()) != operations:
            continue  # the self-attention alone
        if isinstance(found, (tuple, list)) and len(found):
            return [layer if isinstance(layer, Tensor) and layer.dim() > 2 else None for layer in found]
    return []


def _compare_kind(
    outcome: Outcome, kind: Kind, layers: list[int], theirs: list[Tensor | None], everything: Everything,
    inputs: dict[str, Tensor], order: list[tuple[Kind, int]],
) -> None:  # fmt: skip
    if outcome.family in ANOTHER_MODEL:
        return
    present = [(index, layer) for index, layer in enumerate(theirs) if layer is not None]
    if len(present) == len(order) != len(layers):
        # Some families return all kinds in one row, in the order in which they run.
        present = [pair for pair, (other, _) in zip(present, order, strict=True) if other == kind]
        theirs = []
    if outcome.family in WITH_OTHERS:
        present = [(index, layer) for index, layer in present if index in layers]
    if not present:
        outcome.why = f"eager returns no {kind} attention, so that is not compared"
        return
    if len(present) != len(layers):
        raise Wrong(f"{kind}: {len(layers)} layers captured {layers}, eager returns {len(present)}")
    if len(theirs) == max(layers) + 1 and [index for index, _ in present] != sorted(layers):
        raise Wrong(f"{kind}: captured layers {layers}, eager has {[index for index, _ in present]}")
    for (index, layer), mine in zip(present, layers, strict=True):
        ours = everything.weights(kind, mine)
        if outcome.family in RESTORED:
            outcome.why, restore = RESTORED[outcome.family]
            layer = restore(layer.float(), ours, inputs)
        if tuple(ours.shape) != tuple(layer.shape):
            raise Wrong(f"{kind} layer {mine}: {tuple(ours.shape)}, eager has {tuple(layer.shape)}")
        difference = _difference(ours, layer.float(), kind, inputs)
        outcome.difference = max(outcome.difference, difference)
        outcome.compared += 1
        if not difference <= TOLERANCE:
            raise Wrong(f"{kind} layer {mine}: weights differ from eager (layer {index}) by {difference:.2g}")


def _difference(ours: Tensor, theirs: Tensor, kind: Kind, inputs: dict[str, Tensor]) -> float:
    """Give the largest difference over rows of real tokens: for padded ones models compute what they like."""
    empty = (ours == 0).all(dim=-1, keepdim=True)  # no key at all: there eager gives NaN, or an average
    difference = (ours - torch.where(empty & theirs.isnan(), 0.0, theirs)).abs()
    mask = inputs.get("attention_mask")
    if (
        kind != "cross"
        and mask is not None
        and mask.shape == (ours.shape[0], ours.shape[2])
        and mask.dim() == 2
    ):
        difference = difference * mask.bool()[:, None, :, None]
    return float(difference.max())


def eager(model: Any, inputs: dict[str, Tensor]) -> Any:
    """Run the same weights once more in a model built for eager attention, which returns what it computes.

    Built anew: some families cannot be switched over, and go wrong where one tries. None where it is refused.
    """
    outputs = None
    for make in (twin, _switched):
        try:
            with torch.inference_mode():
                other = make(model)
                torch.manual_seed(0)
                outputs = other(**inputs, output_attentions=True)
        except Exception:  # some families have no eager attention, or no output_attentions
            continue
        if any(bool(tensor.isnan().all()) for _, tensor in tensors_of(outputs)):
            return None
        if any("attentions" in name and len(value or ()) for name, value in _items(outputs)):
            return outputs
    return outputs


def twin(model: Any) -> Any:
    """Build the same model again, for eager attention."""
    made = type(model)._from_config(copy.deepcopy(model.config), attn_implementation="eager").eval()
    made.load_state_dict(model.state_dict())
    return made


def _switched(model: Any) -> Any:
    twin = copy.deepcopy(model)
    twin.set_attn_implementation("eager")
    return twin


def _items(outputs: Any) -> list[tuple[str, Any]]:
    return list(outputs.items()) if hasattr(outputs, "items") else []


def tensors_of(outputs: Any) -> list[tuple[str, Tensor]]:
    pairs = (
        outputs.items()
        if hasattr(outputs, "items")
        else enumerate(outputs)
        if isinstance(outputs, tuple)
        else ()
    )
    return [(str(name), value) for name, value in pairs if isinstance(value, Tensor)]
