"""Runs a benchmark, length by length, and keeps what it finds where an interruption cannot take it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from attncli.bench.clock import Reading, no_garbage_collection, synchronize, time_call
from attncli.bench.correctness import Verdict, can_differentiate, check
from attncli.bench.cost import Cost, count_flops, measure_costs, predicted_bytes, predicted_flops
from attncli.bench.entrants import Contender
from attncli.bench.footprint import fits, free_bytes, peak_extra_bytes
from attncli.bench.prediction import affordable, fair_share, predict_seconds, time_for_rounds
from attncli.bench.results import BenchRequest, BenchResults, Cell, Status
from attncli.bench.rounds import CONTROL, FEWEST_IN_HASTE, Call, Readings, Stop, repetitions, run_rounds
from attncli.bench.statistics import is_noise, noise_floor, paired_ratio, paired_ratio_interval
from attncli.bench.views import human_seconds
from attncli.memory import human_bytes

TINY = 8
"""A length at which a call is all overhead."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ready:
    """A contender that is about to be timed at one length."""

    contender: Contender
    call: Call
    repeat: int
    peak_bytes: int | None
    flops: int


def run_bench(ledger: BenchResults, tell: Tell = lambda text: None) -> None:
    """Fill a ledger.

    Args:
        ledger: Holds the question, and after an interruption what was found until then.
        tell: Hears what is being done.
    """
    started = time.perf_counter()
    question = ledger.question
    try:
        with no_garbage_collection(), torch.set_grad_enabled(question.workload.backward):
            verdicts = {one.name: _judge(one, ledger, tell) for one in question.contenders}
            for seq_len in question.lengths:
                _measure_length(ledger, seq_len, verdicts, started + question.budget, tell)
        ledger.complete = True
    finally:
        ledger.elapsed_seconds = time.perf_counter() - started


def _judge(contender: Contender, ledger: BenchResults, tell: Tell) -> Verdict:
    """Check that a contender computes what it says, and measure what it costs at short lengths."""
    question = ledger.question
    tell(f"checking {contender.name}")
    verdict = check(contender, question.workload, question.lengths[-1])
    if verdict.status == "ok" and question.workload.backward:
        reason = can_differentiate(contender, question.workload)
        verdict = verdict if reason is None else Verdict("unsupported", verdict.max_abs_error, reason)
    if verdict.status == "ok":
        try:
            ledger.costs[contender.name] = measure_costs(contender, question.workload, question.lengths[-1])
        except (NotImplementedError, RuntimeError, ValueError) as error:
            return Verdict("unsupported", verdict.max_abs_error, _one_line(error))
    return verdict


def _measure_length(
    ledger: BenchResults, seq_len: int, verdicts: dict[str, Verdict], deadline: float, tell: Tell
) -> None:
    """Measure everybody who is right, fits into memory and into the time that is left."""
    question = ledger.question
    able = _able(ledger, seq_len, verdicts, deadline)
    if not able:
        return
    inputs = question.workload.inputs(seq_len)
    ready = {}
    for contender in able:
        tell(f"n = {seq_len:,}: warming up {contender.name}")
        made = _prepare(contender, ledger, seq_len, inputs)
        if isinstance(made, Ready):
            ready[contender.name] = made
        else:
            ledger.cells.append(replace(made, max_abs_error=verdicts[contender.name].max_abs_error))
    readings: Readings = {}
    try:
        _time(ledger, seq_len, ready, readings, deadline, tell)
    finally:
        _enter(ledger, seq_len, ready, readings, verdicts)


def _able(
    ledger: BenchResults, seq_len: int, verdicts: dict[str, Verdict], deadline: float
) -> list[Contender]:
    """Find who can be measured, and enter the others with the reason."""
    question = ledger.question
    able, skipped = [], []
    for contender in question.contenders:
        verdict = verdicts[contender.name]
        if verdict.status != "ok":
            status: Status = "wrong" if verdict.status == "wrong" else "unsupported"
            skipped.append(_untimed(contender, ledger, seq_len, status, verdict.reason))
            continue
        needed = predicted_bytes(ledger.costs[contender.name], question.workload, seq_len)
        free = free_bytes(question.workload.device)
        if not fits(needed, free):
            reason = f"needs {human_bytes(needed)}, {human_bytes(free or 0)} free"
            skipped.append(_untimed(contender, ledger, seq_len, "too large", reason))
            continue
        able.append(contender)
    seconds = {one.name: predict_seconds(one, ledger, seq_len) for one in able}
    share = fair_share(ledger, seq_len, deadline - time.perf_counter())
    dropped = affordable(seconds, share, question.reference.name)
    for contender in [one for one in able if one.name in dropped]:
        reason = (
            f"takes {human_seconds(dropped[contender.name])}, --budget leaves {human_seconds(share)} here"
        )
        skipped.append(_untimed(contender, ledger, seq_len, "too slow", reason))
    ledger.cells += [replace(cell, max_abs_error=verdicts[cell.variant].max_abs_error) for cell in skipped]
    return [one for one in able if one.name not in dropped]


def _untimed(contender: Contender, ledger: BenchResults, seq_len: int, status: Status, reason: str) -> Cell:
    workload, costs = ledger.question.workload, ledger.costs.get(contender.name)
    return Cell(
        contender.name,
        seq_len,
        status,
        ledger.question.clock,
        predicted_bytes=None if costs is None else predicted_bytes(costs, workload, seq_len),
        flops=None if costs is None else round(predicted_flops(costs, seq_len)),
        reason=reason,
    )


def _prepare(
    contender: Contender,
    ledger: BenchResults,
    seq_len: int,
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> Ready | Cell:
    """Warm a contender up, measuring its memory, and find how often a reading repeats it."""
    question = ledger.question
    device = question.workload.device
    call = contender.call(question.workload, inputs)
    try:
        if contender.name not in ledger.overheads:
            ledger.overheads[contender.name] = _overhead(contender, question)
        flops = count_flops(contender, question.workload, seq_len, call)
        start = time.perf_counter()
        peak = peak_extra_bytes(call, device)
        seconds = time.perf_counter() - start
        if seconds < 0.02:  # the profiler's own time would count for much
            seconds = min(time_call(call, 1, device).wall for _ in range(3))
    except (torch.OutOfMemoryError, MemoryError):
        return _untimed(contender, ledger, seq_len, "too large", "ran out of memory")
    except (NotImplementedError, RuntimeError, ValueError) as error:
        return _untimed(contender, ledger, seq_len, "failed", _one_line(error))
    if contender is question.reference or contender.peer:
        told = contender.about(question.workload, seq_len)
        if told:
            ledger.about[contender.name] = told
    longest = ledger.costs[contender.name][1]
    if peak is not None and seq_len > longest.seq_len:
        ledger.costs[contender.name] = longest, Cost(seq_len, flops, peak)
    return Ready(contender, call, repetitions(seconds), peak, flops)


def _overhead(contender: Contender, question: BenchRequest) -> float:
    """Time next to nothing: what a call costs whatever its length."""
    call = contender.call(question.workload, question.workload.inputs(TINY))
    try:
        call()
        synchronize(question.workload.device)
        times = [time_call(call, 1, question.workload.device).on(question.clock) for _ in range(5)]
    except ValueError:
        return 0.0  # it does not take so short an input
    return min(times)


def _time(
    ledger: BenchResults,
    seq_len: int,
    ready: dict[str, Ready],
    readings: Readings,
    deadline: float,
    tell: Tell,
) -> None:
    question = ledger.question
    calls = {name: one.call for name, one in ready.items()}
    repeat = {name: one.repeat for name, one in ready.items()}
    keep: tuple[str, ...] = ()
    if question.reference.name in ready:
        calls[CONTROL] = calls[question.reference.name]
        repeat[CONTROL] = repeat[question.reference.name]
        keep = (question.reference.name, CONTROL)
    now = time.perf_counter()
    at_last = now + time_for_rounds(ledger, seq_len, deadline - now)
    stop = Stop(question.precision, now + question.max_time, at_last)
    shuffle = random.Random(f"{question.workload.seed} {seq_len}")
    start = time.perf_counter()
    try:
        run_rounds(
            calls, repeat, keep, stop, question.clock, question.workload.device, shuffle, readings,
            tell=lambda count: tell(f"n = {seq_len:,}: round {count}, {time.perf_counter() - start:.0f} s"),
        )  # fmt: skip
    finally:
        ledger.timed_seconds += sum(
            reading.wall * repeat[name] for name, found in readings.items() for reading in found
        )


def _enter(
    ledger: BenchResults,
    seq_len: int,
    ready: dict[str, Ready],
    readings: Readings,
    verdicts: dict[str, Verdict],
) -> None:
    """Enter a cell for each contender that ran often enough."""
    question = ledger.question
    reference = _seconds(readings.get(question.reference.name, []), question)
    if len(reference) >= FEWEST_IN_HASTE:
        control = paired_ratio_interval(_seconds(readings.get(CONTROL, []), question), reference)
        ledger.controls[seq_len], ledger.noise_floors[seq_len] = control, noise_floor(control)
    for name, one in ready.items():
        found = readings.get(name, [])
        if len(found) < FEWEST_IN_HASTE:
            continue
        cell = _untimed(one.contender, ledger, seq_len, "ok", "")
        cell = replace(
            cell,
            readings=tuple(found),
            peak_bytes=one.peak_bytes,
            flops=one.flops,
            max_abs_error=verdicts[name].max_abs_error,
        )
        ledger.cells.append(_compared(cell, reference, ledger))


def _seconds(readings: list[Reading], question: BenchRequest) -> list[float]:
    return [reading.on(question.clock) for reading in readings]


def _compared(cell: Cell, reference: list[float], ledger: BenchResults) -> Cell:
    """Add a cell's ratio to the reference."""
    if cell.variant == ledger.question.reference.name:
        return replace(cell, ratio=1.0, ratio_interval=(1.0, 1.0))
    if len(reference) < FEWEST_IN_HASTE:
        return cell
    ratio = paired_ratio(cell.seconds, reference)
    interval = paired_ratio_interval(cell.seconds, reference)
    floor = ledger.noise_floors.get(cell.seq_len, 0.0)
    return replace(cell, ratio=ratio, ratio_interval=interval, noise=is_noise(ratio, interval, floor))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
