"""Captures a tiny model as attncli does and holds every layer and head against transformers' own eager attention."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from families.configs import NotBuildable, tiny_model
from families.inputs import candidates
from families.known import ANOTHER_MODEL, RESTORED, WITH_OTHERS
from torch import Tensor

from attncli.errors import AttnCliError, CaptureError
from attncli.record import KINDS, Kind, Request, Run, Site, WeightBlock
from attncli.sources.direction import kind_of_single_stack as kind_of
from attncli.sources.loading import Loaded, LoadOptions
from attncli.sources.preparing import from_inputs
from attncli.sources.pretrained import PretrainedSource

TOLERANCE = 2e-5
FIELDS = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}


@dataclass
class Outcome:
    """What came of one family.

    Args:
        status: ``right``, ``checked`` (nothing to compare with, but the weights give the model's own output),
            ``error`` (one clear error), ``unbuildable``, or ``wrong``.
        why: The reason in one line, for all but ``right``.
        compared: How many layers were compared with eager, padding included.
        difference: The largest difference of any weight.
        sides: On which sides padding was tried.
        capture: Where the attention was seen.
    """

    family: str
    status: str
    why: str = ""
    compared: int = 0
    difference: float = 0.0
    sides: list[str] = field(default_factory=list)
    capture: list[str] = field(default_factory=list)
    layers: dict[str, list[int]] = field(default_factory=dict)
    others: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Wrong(Exception):
    """Captured weights are not what the model computed."""


@dataclass
class Everything:
    """Keeps all weights of the main stack, whole, for every text of the batch."""

    kept: dict[tuple[Kind, int], list[WeightBlock]] = field(default_factory=dict)
    allowed: dict[tuple[Kind, int], bool] = field(default_factory=dict)

    def request(self, site: Site) -> Request:
        return Request()

    def update(self, block: WeightBlock) -> None:
        copied = replace(block, weights=block.weights.clone(), scores=None)
        self.kept.setdefault((block.site.kind, block.site.layer), []).append(copied)

    def weights(self, kind: Kind, layer: int) -> Tensor:
        blocks = self.kept[kind, layer]
        first = min(block.keys.start for block in blocks)
        shape = max(block.rows.stop for block in blocks), max(block.keys.stop for block in blocks) - first
        whole = blocks[0].weights.new_full((len(blocks[0].weights), blocks[0].site.heads, *shape), torch.nan)
        for block in blocks:
            heads, rows = list(block.heads), slice(block.rows.start, block.rows.stop)
            if not bool(whole[:, heads, rows].isnan().all()):
                raise Wrong(f"{kind} layer {layer} rows from {rows.start} were shown twice")
            whole[:, heads, rows] = 0.0
            whole[:, heads, rows, block.keys.start - first : block.keys.stop - first] = block.weights
        return whole


@dataclass
class First(Everything):
    """Keeps one layer, and says so beforehand: the model is stopped behind it."""

    place: tuple[Kind, int] = ("encoder", 0)

    @property
    def sought(self) -> frozenset[tuple[Kind, int]]:
        return frozenset([self.place])

    def request(self, site: Site) -> Request | None:
        return Request() if (site.kind, site.layer) == self.place else None


def examine(family: str) -> Outcome:
    """Build a family's tiny model, capture it without and with padding, and compare."""
    try:
        model = tiny_model(family)
    except NotBuildable as error:
        return Outcome(family, "unbuildable", str(error))
    outcome = Outcome(family, "right")
    for side in (None, "left", "right"):
        inputs, plain = _inputs_that_run(family, model, side)
        if inputs is None:
            if side is None:
                return Outcome(family, "unbuildable", f"does not run on the inputs made: {plain}"[:180])
            break  # this family takes no padding here
        if side is not None and "attention_mask" not in inputs:
            break
        problem = _one_pass(outcome, model, inputs, plain, side)
        if problem is not None:
            return problem
    return outcome


def _inputs_that_run(family: str, model: Any, side: str | None) -> tuple[dict[str, Tensor] | None, Any]:
    """Give inputs and what the unobserved model makes of them; or None and why none of those made fits."""
    why: list[str] = []
    for inputs in candidates(family, model, side):
        try:
            with torch.inference_mode():
                torch.manual_seed(0)
                return inputs, model(**inputs)
        except Exception as error:  # whatever the family's own code raises
            why.append(f"{type(error).__name__}: {' '.join(str(error).split())}")
    return None, why[0] if why else f"no input known for {getattr(model, 'main_input_name', '')}"


def _one_pass(
    outcome: Outcome, model: Any, inputs: dict[str, Tensor], plain: Any, side: str | None
) -> Outcome | None:
    """Run one pass; give the final outcome if it ends here."""
    family = outcome.family
    try:
        everything, run = _captured(model, inputs, plain)
        _compare(outcome, model, inputs, everything, run)
    except Wrong as error:
        return Outcome(family, "wrong", f"{side or 'no'} padding: {error}")
    except CaptureError as error:
        status = "wrong" if "self-check failed" in error.message else "error"
        return Outcome(family, status, error.message, sides=outcome.sides)
    except AttnCliError as error:
        return Outcome(family, "error", error.message)
    if side is not None:
        outcome.sides.append(side)
    return None


def _captured(model: Any, inputs: dict[str, Tensor], plain: Any) -> tuple[Everything, Run]:
    loaded = Loaded(model.config.model_type, model, None, LoadOptions(), None)
    made = PretrainedSource(loaded, from_inputs(loaded, inputs, _lengths(model, inputs)))
    everything = Everything()
    seen: list[Any] = []
    forward = made._forward
    made._forward = lambda *args, **more: seen.append(forward(*args, **more))  # type: ignore[method-assign]
    torch.manual_seed(0)
    run = made.run([everything])
    _same(plain, seen[0])
    _same_alone(made, everything)
    return everything, run


def _same_alone(made: PretrainedSource, everything: Everything) -> None:
    """Ask for the first layer of each kind alone: it must be what it was among all."""
    for kind in {kind: None for kind, _ in everything.kept}:
        first = First(place=next(place for place in everything.kept if place[0] == kind))
        torch.manual_seed(0)
        made.run([first])
        if not torch.equal(first.weights(*first.place), everything.weights(*first.place)):
            raise Wrong(f"{kind} layer {first.place[1]} is another one when it is asked for alone")


def _lengths(model: Any, inputs: Mapping[str, Tensor]) -> dict[Kind, tuple[int, int]]:
    """Give the axes' lengths where tokens are read; 0 where they come of pictures or sound and are not known."""
    source = inputs["input_ids"].shape[1] if "input_ids" in inputs else 0
    target = inputs["decoder_input_ids"].shape[1] if "decoder_input_ids" in inputs else 0
    if getattr(model.config, "is_encoder_decoder", False):
        return {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    return {kind_of(model): (source, source)}


def _same(plain: Any, observed: Any) -> None:
    for name, tensor in _tensors(plain):
        other = dict(_tensors(observed)).get(name)
        if other is not None and not torch.equal(tensor.nan_to_num(), other.nan_to_num()):
            raise Wrong(f"observing changes the model's output {name}")


def _items(outputs: Any) -> list[tuple[str, Any]]:
    return list(outputs.items()) if hasattr(outputs, "items") else []


def _tensors(outputs: Any) -> list[tuple[str, Tensor]]:
    pairs = (
        outputs.items()
        if hasattr(outputs, "items")
        else enumerate(outputs)
        if isinstance(outputs, tuple)
        else ()
    )
    return [(str(name), value) for name, value in pairs if isinstance(value, Tensor)]


def _compare(
    outcome: Outcome, model: Any, inputs: dict[str, Tensor], everything: Everything, run: Run
) -> None:
    reference = _eager(model, inputs)
    two_stacks = bool(getattr(model.config, "is_encoder_decoder", False))
    outcome.capture = sorted({*outcome.capture, *(report.capture for report in run.reports)})
    outcome.others = sum(1 for site in run.sites if site.stack)
    for kind in KINDS:
        layers = [site.layer for site in run.sites if site.kind == kind and not site.stack]
        if not layers:
            continue
        if len(set(layers)) != len(layers):
            raise Wrong(f"{kind} layers {layers}: an index came twice")
        outcome.layers[kind] = layers
        order = [(site.kind, site.layer) for site in run.sites if not site.stack]
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
        if found is None and hasattr(reference, "text_model_output"):
            found = getattr(reference.text_model_output, name, None)
        if name == "attentions" and kind == "cross" and len(found or ()) != operations:
            continue  # the self-attention alone
        if isinstance(found, (tuple, list)) and len(found):
            return [layer if isinstance(layer, Tensor) else None for layer in found]
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


def _eager(model: Any, inputs: dict[str, Tensor]) -> Any:
    """Run the same weights once more in a model built for eager attention, which returns what it computes.

    Built anew: some families cannot be switched over, and go wrong where one tries. None where it is refused.
    """
    outputs = None
    for make in (_twin, _switched):
        try:
            with torch.inference_mode():
                twin = make(model)
                torch.manual_seed(0)
                outputs = twin(**inputs, output_attentions=True)
        except Exception:  # some families have no eager attention, or no output_attentions
            continue
        if any(bool(tensor.isnan().all()) for _, tensor in _tensors(outputs)):
            return None
        if any("attentions" in name and len(value or ()) for name, value in _items(outputs)):
            return outputs
    return outputs


def _twin(model: Any) -> Any:
    from transformers import AutoModel

    twin = AutoModel.from_config(copy.deepcopy(model.config), attn_implementation="eager").eval()
    twin.load_state_dict(model.state_dict())
    return twin


def _switched(model: Any) -> Any:
    twin = copy.deepcopy(model)
    twin.set_attn_implementation("eager")
    return twin
