"""Opens a source whose observers see what heads carry in place of where they look: ``show --measure``."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Protocol, cast

import torch
from torch import nn

from attncli.capture.layer_parts import PartsFinder
from attncli.capture.measures import Measure, MeasureName
from attncli.capture.projections import Leaves
from attncli.errors import UsageError
from attncli.models.generation import GeneratedSource
from attncli.models.opening import Opened
from attncli.models.windows import StridedSource
from attncli.record import Kind


class _Watchable(Opened, Protocol):
    """A source whose modules can be watched while it runs."""

    measure: Measure | None

    @property
    def network(self) -> nn.Module:
        """What holds all its modules."""


def measured(source: Opened, kind: Kind, name: MeasureName, *, raw: bool) -> tuple[Opened, Measure]:
    """Return a source that shows a measure, and the measure itself; one pass more finds the output projections.

    Raises:
        UsageError: There is no such measure of this kind of attention, or of a text read in this way.
    """
    if name == "contribution":
        _check_contribution(source, kind)
    measure = Measure(name, raw, from_start=not isinstance(source, StridedSource))
    if name != "value":
        network = cast(_Watchable, _whole(source))
        leaves = Leaves(network.network)
        finder = PartsFinder(kind, leaves)
        with leaves.watching(), torch.inference_mode():
            network.run([finder])
            finder.close()
        measure.parts = finder.found
    return _showing(source, measure), measure


def _check_contribution(source: Opened, kind: Kind) -> None:
    other = "leave out {}, or ask for --measure norm"
    if kind == "cross":
        raise UsageError(
            "--measure contribution: in cross-attention the residual belongs to none of the keys",
            "--measure norm",
        )
    for type_, option in ((StridedSource, "--stride"), (GeneratedSource, "--generate")):
        if isinstance(source, type_):
            raise UsageError(
                f"--measure contribution reads a whole text at once, and {option} does not",
                other.format(option),
            )


def _whole(source: Opened) -> Opened:
    """Return what runs once: of windows the first, of steps all together. Output projections are the same in all."""
    if isinstance(source, StridedSource):
        return source.first
    return source.whole if isinstance(source, GeneratedSource) else source


def _showing(source: Opened, measure: Measure) -> Opened:
    whole = copy(_whole(source))
    cast(_Watchable, whole).measure = measure
    if isinstance(source, StridedSource):
        return replace(source, first=whole)
    return replace(source, whole=whole) if isinstance(source, GeneratedSource) else whole
