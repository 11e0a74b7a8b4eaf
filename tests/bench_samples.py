"""A ledger made by hand, contenders that compute what one can foresee, and a clock that tells what it is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from attncli.attention.variants import full
from attncli.bench.clock import Reading
from attncli.bench.cost import Cost
from attncli.bench.entrants import Contender, find_contender
from attncli.bench.environment import Environment
from attncli.bench.inputs import Workload
from attncli.bench.results import BenchRequest, BenchResults, Cell
from attncli.registry import Entry

ENVIRONMENT = Environment("a processor", "a system", "3", "2", "cpu", "a processor", 4, 1, (0, 1), 0.5, 1e11)
SMALL = Workload(heads=2, head_dim=6)


def contender(name: str, attend: Any = full.attend, *, exact: bool = True, **functions: Any) -> Contender:
    """Make a contender of functions; what is not given is full attention's."""
    parts = {"attend": attend, "weights": full.weights}
    entry = Entry(name, "", attributes={"exact": exact, "causal": True, "cross": True, "signed": False})
    return Contender(name, entry, SimpleNamespace(**(parts | functions)))


def cell(
    variant: str, seq_len: int, seconds: list[float], reference: list[float] | None = None, **more: Any
) -> Cell:
    """Make a cell of times, with its ratio to others."""
    ratios = sorted(a / b for a, b in zip(seconds, reference or seconds, strict=True))
    readings = tuple(Reading(time, time) for time in seconds)
    return Cell(
        variant, seq_len, clock="cpu", readings=readings, ratio=ratios[len(ratios) // 2],
        ratio_interval=(ratios[0], ratios[-1]), flops=seq_len**2, **more,
    )  # fmt: skip


def ledger(
    cells: list[Cell] | None = None, names: tuple[str, ...] = ("sdpa", "full", "linear")
) -> BenchResults:
    """Make a ledger in which linear overtakes sdpa at n = 1024 and full at n = 256."""
    question = BenchRequest(Workload(), (256, 1024, 4096), tuple(map(find_contender, names)), "cpu")
    made = BenchResults(question, ENVIRONMENT, complete=True, timed_seconds=8.0, elapsed_seconds=10.0)
    if cells is None:
        cells = []
        for n in (256, 1024, 4096):
            base = [1e-8 * n**2 * noise for noise in (1.0, 1.01, 0.99)]
            linear = [1e-8 * 1024 * n * noise for noise in (1.0, 1.01, 0.99)]
            cells += [
                cell("sdpa", n, base, peak_bytes=n * 4096, max_abs_error=3e-7),
                cell("full", n, [4 * time for time in base], base, peak_bytes=n * n * 64),
                cell("linear", n, linear, base, peak_bytes=n * 8192),
            ]
    made.cells = cells
    costs = Cost(512, 2 * 8 * 512**2 * 128, 512), Cost(1024, 2 * 8 * 1024**2 * 128, 1024)
    made.costs = dict.fromkeys(names, costs)
    return made
