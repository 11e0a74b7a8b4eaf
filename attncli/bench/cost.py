"""What a call will cost: operations and memory, measured at short lengths and extrapolated to long ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from attncli.bench.entrants import Contender
from attncli.bench.footprint import peak_extra_bytes
from attncli.bench.inputs import Workload

SHORT = 256
LONG = 1024
"""The first length that is measured where all lengths are short, and where some are long; the second is twice that."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one call costs.

    Args:
        flops: Operations of its matrix products.
        peak: Largest memory allocated during the call, in bytes, output included, inputs not.
    """

    seq_len: int
    flops: int
    peak: int


Costs = tuple[Cost, Cost]
"""Of the two longest texts that were measured, the shorter first."""


def predicted_flops(costs: Costs, seq_len: int) -> float:
    """Predict how many operations a call takes."""
    first, second = costs
    return extrapolate((first.seq_len, first.flops), (second.seq_len, second.flops), seq_len)


def predicted_bytes(costs: Costs, workload: Workload, seq_len: int) -> int:
    """Predict what a call needs at its peak, its inputs included."""
    first, second = costs
    extra = extrapolate((first.seq_len, first.peak), (second.seq_len, second.peak), seq_len)
    return int(extra) + workload.input_bytes(seq_len)


def extrapolate(first: tuple[int, float], second: tuple[int, float], length: int) -> float:
    """Continue ``a·n^b`` through two points; b is between 1 and 2, the powers that attention has.

    >>> extrapolate((1, 3), (2, 12), 4), extrapolate((1, 3), (2, 4), 4)
    (48.0, 8.0)
    """
    (x, y), (x_after, y_after) = first, second
    if min(y, y_after) <= 0:
        return 0.0
    power = math.log(y_after / y) / math.log(x_after / x)
    return float(y_after * (length / x_after) ** min(max(power, 1.0), 2.0))


def measure_costs(contender: Contender, workload: Workload, longest: int) -> Costs:
    """Measure a contender at two short lengths, longer ones where its settings do not fit these.

    Args:
        longest: The longest length that will be asked for.

    Raises:
        ValueError: Its settings fit none of them.
        NotImplementedError: It cannot do this at all.
        RuntimeError: It fails.
    """
    length = LONG if longest > 4 * LONG else SHORT
    while True:
        try:
            return _measure(contender, workload, length), _measure(contender, workload, 2 * length)
        except ValueError:
            if length >= 16 * LONG:
                raise
            length *= 4


def _measure(contender: Contender, workload: Workload, seq_len: int) -> Cost:
    call = contender.call(workload, workload.inputs(seq_len))
    flops = count_flops(contender, workload, seq_len, call)  # it also warms up
    return Cost(seq_len, flops, peak_extra_bytes(call, workload.device) or 0)


def count_flops(contender: Contender, workload: Workload, seq_len: int, call: Callable[[], object]) -> int:
    """Run a call once and count the operations of its matrix products: multiply-adds, times two.

    A peer whose products PyTorch's counter does not see has a formula of its own, ``flops``. The gradients of a call
    take two products for each one forward.
    """
    formula = getattr(contender.module, "flops", None)
    if formula is not None:
        call()
        count: int = formula(**workload.shape(seq_len), **contender.settings)
        return 3 * count if workload.backward else count
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())
