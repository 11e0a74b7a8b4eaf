"""Opens a source whose observers see what heads carry in place of where they look: ``show --measure``."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import torch

from attncli.capture.layer_parts import PartsFinder
from attncli.capture.measures import MEASURES, Measure, MeasureName
from attncli.capture.projections import Leaves
from attncli.errors import UsageError, did_you_mean
from attncli.maps.show import MapRequest
from attncli.models.generation import GeneratedSource
from attncli.models.opening import Opened
from attncli.models.pretrained import PretrainedSource
from attncli.models.scratch import ScratchSource
from attncli.models.trained import TrainedSource
from attncli.models.windows import StridedSource
from attncli.observers.selection import parse_selection
from attncli.record import Kind

_Whole = PretrainedSource | TrainedSource | ScratchSource


def measured_request(request: MapRequest) -> MapRequest:
    """Return a request for what ``--measure`` asks for, in place of the weights.

    Raises:
        AttnCliError: There is no such measure, or not of this.
    """
    name, heads = request.wanted.measure, request.heads
    if name not in MEASURES:
        raise UsageError(f"--measure {name}: no such measure", did_you_mean(name, MEASURES))
    if name == "contribution":
        if request.wanted.head != "all":
            raise UsageError(
                "--measure contribution is of a whole layer: its heads' vectors are added up first",
                "leave out --head, or ask for --measure norm",
            )
        heads = parse_selection("all", "head")
    source, measure = measured(request.source, request.kind, name, raw=request.wanted.raw)
    return replace(request, source=source, measure=measure, heads=heads)


def measured(source: Opened, kind: Kind, name: MeasureName, *, raw: bool) -> tuple[Opened, Measure]:
    """Return a source that shows a measure, and the measure itself; one pass more finds the output projections.

    Raises:
        UsageError: There is no such measure of this kind of attention, or of a text read in this way.
    """
    if name == "contribution":
        _check_contribution(source, kind)
    measure = Measure(name, raw, from_start=not isinstance(source, StridedSource))
    whole = copy(_whole(source))
    if name != "value":
        leaves = Leaves(whole.network, every=True)
        finder, once = PartsFinder(kind, leaves), whole
        if isinstance(source, StridedSource):
            once = source.of_window(source.windows[0])
        with leaves.watching(), torch.inference_mode():
            once.run([finder])
            measure.parts = finder.finish()
    whole.measure = measure
    if isinstance(source, StridedSource | GeneratedSource):
        assert isinstance(whole, PretrainedSource)
        parted = {"first" if isinstance(source, StridedSource) else "whole": whole}
        return replace(source, **parted), measure  # type: ignore[arg-type]  # each has its own field
    return whole, measure


def _check_contribution(source: Opened, kind: Kind) -> None:
    if kind == "cross":
        raise UsageError(
            "--measure contribution: in cross-attention the residual belongs to none of the keys",
            "--measure norm",
        )
    if isinstance(source, StridedSource | GeneratedSource):
        raise UsageError(
            "--measure contribution reads a whole text at once, not windows or steps", "--measure norm"
        )


def _whole(source: Opened) -> _Whole:
    """Return the model that windows or steps are read with."""
    if isinstance(source, StridedSource):
        return source.first
    whole = source.whole if isinstance(source, GeneratedSource) else source
    if not isinstance(whole, _Whole):
        raise UsageError("--measure: not of what is read in this way", "leave out --measure")
    return whole
