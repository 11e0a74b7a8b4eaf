"""Before anything is timed: does it compute what it says? Whoever does not is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attncli.attention.variants import full
from attncli.bench.entrants import Contender
from attncli.bench.inputs import Workload

LENGTH = 331
"""Long enough for a few blocks of any pattern, and no multiple of any block."""

TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "bfloat16": 4e-2, "float16": 4e-3}
"""Largest difference, as a share of the output's largest value."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the check found.

    Args:
        status: ``ok``, ``wrong``, or ``unsupported``: it says itself that it cannot do this.
        max_abs_error: Largest difference of the output in the workload's own type from float64; for an exact variant
            from full attention, for an approximation from its own plain form. None for what is no attention.
        reason: Why not, where it is not ok.
    """

    status: str
    max_abs_error: float | None = None
    reason: str = ""


def check(contender: Contender, workload: Workload, longest: int) -> Verdict:
    """Hold a contender against full attention, or an approximation against its own plain form, in float64.

    In float64 the two must agree to the last digits. In the workload's own type an exact variant may be off by
    rounding; of an approximation that chooses keys by their scores, rounding may change the choice in some rows, so
    there the typical row counts.

    Args:
        longest: The longest length that will be measured; a shorter check than that is enough.
    """
    small = replace(workload, batch=1)
    length = min(LENGTH, longest)
    try:
        with torch.no_grad():
            return _compare(contender, small, length)
    except (NotImplementedError, RuntimeError, ValueError) as error:
        return Verdict("unsupported", reason=_first_line(error))


def _compare(contender: Contender, workload: Workload, length: int) -> Verdict:
    query, key, value = workload.inputs(length)
    exact_inputs = query.double(), key.double(), value.double()
    wanted = _reference(contender, exact_inputs, workload.causal)
    output = contender.attend(query, key, value, workload.causal)
    if wanted is None:
        return Verdict("ok")
    size = max(1.0, float(wanted.abs().max()))
    error = (output.double() - wanted).abs()
    worst = float(error.max())
    typical = worst if contender.exact else float(error.amax(dim=-1).median())
    if not typical <= TOLERANCE[workload.dtype] * size:
        return _wrong(contender, worst)
    in_float64 = (contender.attend(*exact_inputs, workload.causal) - wanted).abs()
    if not float(in_float64.max()) <= TOLERANCE["float64"] * size:
        return _wrong(contender, float(in_float64.max()))
    return Verdict("ok", worst)


def _reference(contender: Contender, inputs: tuple[Tensor, Tensor, Tensor], causal: bool) -> Tensor | None:
    query, key, value = inputs
    if contender.exact:
        return full.weights(query, key, causal=causal) @ value
    return contender.plain(query, key, value, causal)


def _wrong(contender: Contender, error: float) -> Verdict:
    than = "full attention" if contender.exact else "its own plain form"
    return Verdict("wrong", error, f"differs from {than} in float64 by {error:.1g}, so it is not timed")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:120] if lines else type(error).__name__


def can_differentiate(contender: Contender, workload: Workload) -> str | None:
    """Return why a contender gives no gradient; None where it does."""
    query, key, value = (tensor.requires_grad_() for tensor in workload.inputs(min(LENGTH, 8)))
    try:
        contender.attend(query, key, value, workload.causal).sum().backward()  # type: ignore[no-untyped-call]
    except (NotImplementedError, RuntimeError, ValueError) as error:
        return f"no gradient: {_first_line(error)}"
    return None
