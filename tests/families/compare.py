"""Captures a tiny model as attncli does and holds every layer and head against transformers' own eager attention."""

from __future__ import annotations

from typing import Any

import torch
from families.configs import NotBuildable, tiny_model
from families.eager import compare, tensors_of
from families.inputs import inputs_that_run
from families.observing import Everything, First, source_of
from families.outcome import Outcome, Wrong
from torch import Tensor

from attncli.errors import AttnCliError, CaptureError
from attncli.models.pretrained import PretrainedSource, without_cache
from attncli.record import Run


def examine(family: str) -> Outcome:
    """Build a family's tiny model, capture it without and with padding, and compare."""
    try:
        model = tiny_model(family)
    except NotBuildable as error:
        return Outcome(family, "unbuildable", str(error))
    outcome = Outcome(family, "right")
    for side in (None, "left", "right"):
        inputs, plain = inputs_that_run(family, model, side)
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


def _one_pass(
    outcome: Outcome, model: Any, inputs: dict[str, Tensor], plain: Any, side: str | None
) -> Outcome | None:
    """Run one pass; give the final outcome if it ends here."""
    family = outcome.family
    try:
        everything, run = _captured(model, inputs, plain)
        compare(outcome, model, inputs, everything, run)
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
    made = source_of(model, inputs)
    everything = Everything()
    seen: list[Any] = []
    forward = made._forward
    made._forward = lambda *args, **more: seen.append(forward(*args, **more))  # type: ignore[method-assign]
    torch.manual_seed(0)
    run = made.run([everything])
    try:
        _same(plain, seen[0])
    except Wrong:  # without a cache some round otherwise
        with torch.inference_mode(), without_cache(model):
            torch.manual_seed(0)
            _same(model(**inputs), seen[0])
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


def _same(plain: Any, observed: Any) -> None:
    for name, tensor in tensors_of(plain):
        other = dict(tensors_of(observed)).get(name)
        if other is not None and not torch.equal(tensor.nan_to_num(), other.nan_to_num()):
            raise Wrong(f"observing changes the model's output {name}")
