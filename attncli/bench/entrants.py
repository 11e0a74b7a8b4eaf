"""Who takes part: variants and peers, by name, with their settings checked before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attncli import registry
from attncli.bench.inputs import Workload
from attncli.errors import UsageError, did_you_mean
from attncli.registry import Entry, Value

TRIAL = 1024
"""Longest input on which a contender is tried out before the work starts."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A variant or peer with its settings.

    Args:
        name: As shown; the entry's own unless one variant takes part twice.
        module: Offers `attncli.attention.variants.Variant`'s functions.
        peer: Whether it is there for comparison only.
    """

    name: str
    entry: Entry
    module: Any
    settings: Mapping[str, Value] = field(default_factory=dict)
    peer: bool = False

    @property
    def exact(self) -> bool:
        """Whether its output must be full attention's."""
        return bool(self.entry.attributes["exact"])

    def attend(self, query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
        """Return the output."""
        output: Tensor = self.module.attend(query, key, value, causal=causal, **self.settings)
        return output

    def plain(self, query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor | None:
        """Return the output by the plain form, ``weights @ value``; None for what is no attention."""
        if not hasattr(self.module, "weights"):
            return None
        weights: Tensor = self.module.weights(query, key, causal=causal, **self.settings)
        return weights @ value

    def call(self, workload: Workload, inputs: tuple[Tensor, Tensor, Tensor]) -> Callable[[], Tensor]:
        """Return what is timed: attention, and the gradients of query, key and value where the workload has them."""
        query, key, value = inputs
        if not workload.backward:
            return lambda: self.attend(query, key, value, workload.causal)
        leaves = [tensor.detach().requires_grad_() for tensor in inputs]
        gradient = torch.ones_like(value)

        def forward_and_backward() -> Tensor:
            for leaf in leaves:
                leaf.grad = None
            output = self.attend(leaves[0], leaves[1], leaves[2], workload.causal)
            output.backward(gradient)  # type: ignore[no-untyped-call]
            return output

        return forward_and_backward

    def about(self, workload: Workload, seq_len: int) -> str | None:
        """Return what really runs for these inputs, where a peer knows."""
        if not hasattr(self.module, "about"):
            return None
        query, key, value = workload.inputs(min(seq_len, TRIAL))
        told: str = self.module.about(query, key, value, workload.causal, **self.settings)
        return told


def names() -> list[str]:
    """Name everything that can be measured: variants, then peers."""
    return [*registry.entries("variants"), *registry.entries("peers")]


def find_contender(name: str, assignments: Sequence[str] = (), *, label: str | None = None) -> Contender:
    """Find a variant or peer.

    Args:
        assignments: Its settings, ``name=value``.

    Raises:
        UsageError: There is none of that name, or a setting does not fit it.
    """
    kind = "peers" if name in registry.entries("peers") else "variants"
    entry = registry.entries(kind).get(name)
    if entry is None:
        raise UsageError(f"no variant named {name!r}", did_you_mean(name, names()))
    settings = entry.settings(assignments)
    return Contender(label or name, entry, registry.load(kind, name), settings, peer=kind == "peers")


def choose_contenders(
    wanted: str | None, assignments: Sequence[str], workload: Workload, lengths: Sequence[int], reference: str
) -> tuple[list[Contender], list[str]]:
    """Find who takes part, the reference first.

    Args:
        wanted: Names with commas between them; everybody that fits where None.
        assignments: ``variant.name=value``, or ``name=value`` for all that know the name.

    Returns:
        The contenders, and for each that does not fit and was not asked for, why.

    Raises:
        UsageError: A name is unknown, a setting does not fit, or who was asked for cannot do what is to be measured.
    """
    asked = None if wanted is None else _split(wanted)
    chosen = list(dict.fromkeys([reference, *(asked or names())]))
    settings = _settings_by_name(assignments, chosen)
    found, left_out = [], []
    for name in chosen:
        contender = find_contender(name, settings.get(name, ()))
        reason = _misfit(contender, workload, lengths)
        if reason is None:
            found.append(contender)
        elif asked is not None or settings.get(name) or name == reference:
            raise UsageError(f"{name}: {reason[0]}", reason[1])
        else:
            left_out.append(f"{name}: {reason[0]}")
    return found, left_out


def _split(wanted: str) -> list[str]:
    parts = [part.strip() for part in wanted.split(",")]
    if not all(parts):
        raise UsageError(f"--variants {wanted}: a name is missing", "write --variants full,flash,linear")
    for name in parts:
        if name not in names():
            raise UsageError(f"no variant named {name!r}", did_you_mean(name, names()))
    return parts


def _settings_by_name(assignments: Sequence[str], chosen: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for assignment in assignments:
        left, equals, value = assignment.partition("=")
        name, dot, parameter = left.partition(".")
        if not equals or (not parameter and dot):
            raise UsageError(f"--set {assignment}: expected variant.name=value")
        if not dot:
            for known in _who_knows(left, chosen):
                found.setdefault(known, []).append(assignment)
            continue
        if name not in names():
            raise UsageError(f"--set {assignment}: no variant named {name!r}", did_you_mean(name, names()))
        if name not in chosen:
            raise UsageError(
                f"--set {assignment}: {name} does not take part", f"add it to --variants: {name}"
            )
        found.setdefault(name, []).append(f"{parameter}={value}")
    return found


def _who_knows(parameter: str, chosen: Sequence[str]) -> list[str]:
    entries = {**registry.entries("variants"), **registry.entries("peers")}
    known = {name: [one.name for one in entries[name].parameters] for name in chosen if name in entries}
    found = [name for name, parameters in known.items() if parameter in parameters]
    if not found:
        every = sorted({one for parameters in known.values() for one in parameters})
        raise UsageError(f"nobody here has a parameter {parameter!r}", did_you_mean(parameter, every))
    return found


def _misfit(
    contender: Contender, workload: Workload, lengths: Sequence[int]
) -> tuple[str, str | None] | None:
    """Return why a contender cannot do this, and what would help; None where it can."""
    form = contender.entry.attributes["causal"]
    if workload.causal and form is False:
        return "has no causal form", "use --no-causal, or leave it out of --variants"
    if not workload.causal and form == "only":
        return "has only a causal form", "use --causal, or leave it out of --variants"
    return _first_error(_trials(contender, workload, lengths))


def _trials(
    contender: Contender, workload: Workload, lengths: Sequence[int]
) -> Iterable[Callable[[], object]]:
    """Yield what shows whether the settings fit the lengths."""
    if lengths[0] <= TRIAL:
        # Not the workload itself: one small batch on the CPU tells as much. It also loads what is loaded at first use.
        query, key, value = (tensor[:1].cpu() for tensor in workload.inputs(lengths[0], dtype=torch.float32))
        yield lambda: contender.attend(query, key, value, workload.causal)


def _first_error(trials: Iterable[Callable[[], object]]) -> tuple[str, str | None] | None:
    for trial in trials:
        try:
            with torch.no_grad():
                trial()
        except ValueError as error:
            return str(error), None
        except (NotImplementedError, RuntimeError):
            continue  # no matter of settings; the check before timing says what it is
    return None
