"""What each variant promises of its speed, beside what it does: CPU time against PyTorch's SDPA in the same run.

    python benchmarks/variants.py [--quick] [flash|windows|chunks|sparse|plain|dsa …]

One thread, float32, 8 heads × 64, batch 1. All that a table compares ran once a round, in shuffled order; a ratio is
the median of the rounds' ratios. Without names, everything is measured, which takes some ten minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from table import Row, print_table

from attncli.attention.masks.causal import create_causal_mask
from attncli.attention.variants import full
from attncli.bench.entrants import Contender, find_contender
from attncli.bench.environment import look_around
from attncli.bench.findings import fits
from attncli.bench.footprint import peak_extra_bytes
from attncli.bench.inputs import Workload
from attncli.bench.results import BenchRequest, BenchResults
from attncli.bench.run import run_bench
from attncli.errors import UsageError
from attncli.registry import Entry

WORKLOAD = Workload()
MIB = 2**20


def measure(
    contenders: Sequence[Contender], lengths: Sequence[int], max_time: float, **changes: object
) -> BenchResults:
    """Measure contenders, the first being whom the others are compared with."""
    workload = replace(WORKLOAD, **changes)  # type: ignore[arg-type]
    question = BenchRequest(workload, tuple(lengths), tuple(contenders), "cpu", 0.01, max_time, budget=3600.0)
    ledger = BenchResults(question, ENVIRONMENT)
    run_bench(
        ledger,
        lambda text: print(f"\r\x1b[K{text}", end="", file=sys.stderr) if sys.stderr.isatty() else None,
    )
    return ledger


def ratio(ledger: BenchResults, name: str, seq_len: int, bar: float, about: str = "") -> Row:
    """Give a ratio and its bar."""
    causal = "causal" if ledger.question.workload.causal else "full"
    at = f"n = {seq_len:,}, {about or f'{causal} SDPA'}"
    cell = next((one for one in ledger.cells if one.variant == name and one.seq_len == seq_len), None)
    if cell is None or cell.ratio is None:
        return Row(name, at, None, bar, why=cell.reason if cell else "not measured")
    return Row(name, at, cell.ratio, bar, cell.ratio_interval)


def exponent(ledger: BenchResults, name: str, bar: float) -> Row:
    """Give the exponent of a fitted time and its bar."""
    fit = fits(ledger).get(name)
    if fit is None:
        return Row(name, "exponent", None, bar, why="no fit")
    interval = fit.exponent - 2 * fit.stderr, fit.exponent + 2 * fit.stderr
    return Row(name, f"exponent from n = {fit.from_seq_len:,}", fit.exponent, bar, interval, unit="")


def flash(max_time: float) -> Iterator[Row]:
    """Exact tiles: time, time with gradients, memory."""
    sdpa, ours = find_contender("sdpa"), find_contender("flash")
    for causal, bar in ((False, 1.6), (True, 1.7)):
        ledger = measure((sdpa, ours), (2048, 4096), max_time, causal=causal)
        yield from (ratio(ledger, "flash", n, bar) for n in (2048, 4096))
    for causal in (False, True):
        ledger = measure((sdpa, ours), (1024, 2048), max_time, causal=causal, backward=True)
        yield ratio(ledger, "flash", 2048, 1.8, f"{'causal' if causal else 'full'}, forward + backward")
    for n in (1024, 4096, 16384):
        query, key, value = WORKLOAD.inputs(n)
        with torch.no_grad():
            peak = peak_extra_bytes(lambda q=query, k=key, v=value: ours.attend(q, k, v, True), "cpu")
        output = query.numel() * query.element_size()
        extra = None if peak is None else (peak - output) / MIB
        yield Row("flash", f"n = {n:,}, memory beside the output", extra, 16, unit=" MiB")


def windows(max_time: float) -> Iterator[Row]:
    """Sliding windows, Longformer's and BigBird's patterns."""
    sdpa = find_contender("sdpa")
    longformer = find_contender(
        "sliding-window", ("window=129", "global_tokens=2"), label="sliding-window ±128 + 2 globals"
    )
    bigbird = find_contender("bigbird", ("block=64", "random_blocks=3"))
    window = find_contender("sliding-window", ("window=256",))
    ledger = measure((sdpa, window), (1024, 2048, 4096, 8192), max_time)
    yield ratio(ledger, "sliding-window", 4096, 0.25)
    yield ratio(ledger, "sliding-window", 8192, 0.18)
    yield exponent(ledger, "sliding-window", 1.15)
    ledger = measure((sdpa, longformer, bigbird), (4096,), max_time, causal=False)
    yield ratio(ledger, longformer.name, 4096, 0.25)
    yield ratio(ledger, "bigbird", 4096, 0.36)


def chunks(max_time: float) -> Iterator[Row]:
    """Linear attention and retention."""
    sdpa, linear, retention = map(find_contender, ("sdpa", "linear", "retention"))
    ledger = measure((sdpa, linear), (1024, 2048, 4096), max_time, causal=False)
    yield ratio(ledger, "linear", 4096, 0.12)
    yield exponent(ledger, "linear", 1.15)
    ledger = measure((sdpa, linear, retention), (1024, 2048, 4096, 8192), max_time)
    yield ratio(ledger, "linear", 4096, 0.30)
    yield exponent(ledger, "linear", 1.15)
    yield ratio(ledger, "retention", 4096, 0.13)
    yield ratio(ledger, "retention", 8192, 0.09)
    yield exponent(ledger, "retention", 1.15)


def sparse(max_time: float) -> Iterator[Row]:
    """The fixed and strided patterns."""
    names = "sparse-fixed", "sparse-strided"
    ledger = measure([find_contender(name) for name in ("sdpa", *names)], (4096, 8192), max_time)
    for name in names:
        yield ratio(ledger, name, 4096, 0.75)
        yield ratio(ledger, name, 8192, 0.6)


def plain(max_time: float) -> Iterator[Row]:
    """Full attention, beside the three lines that one would write."""
    functions = SimpleNamespace(attend=three_lines, weights=full.weights)
    lines = Contender("three lines", Entry("three lines", "", attributes=full.ENTRY.attributes), functions)
    for causal in (False, True):
        ledger = measure((lines, find_contender("full")), (1024, 2048), max_time, causal=causal)
        yield from (
            ratio(ledger, "full", n, 1.05, f"{'causal' if causal else 'full'}, three lines")
            for n in (1024, 2048)
        )


def three_lines(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, causal: bool) -> torch.Tensor:
    scores = query @ key.mT * query.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(~create_causal_mask(query.shape[2]), -torch.inf)
    return scores.softmax(-1) @ value


def dsa(max_time: float) -> Iterator[Row]:
    """The three parts of DeepSeek's sparse attention, each as a share of causal SDPA's time; no promise."""
    from attncli.attention.variants import dsa as variant

    parts = {"lightning_index": "index", "select": "top-k", "gather_attend": "attend"}
    spent = dict.fromkeys(parts, 0.0)

    def timed(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **settings: object) -> object:
            start = time.process_time()
            result = function(*arguments, **settings)
            spent[name] += time.process_time() - start
            return result

        return call

    originals = {name: getattr(variant, name) for name in parts}
    try:
        for name, function in originals.items():
            setattr(variant, name, timed(name, function))
        for n in (1024, 4096):
            yield from _dsa_at(n, spent, parts)
    finally:
        for name, function in originals.items():
            setattr(variant, name, function)


def _dsa_at(n: int, spent: dict[str, float], parts: dict[str, str]) -> Iterator[Row]:
    sdpa, ours = find_contender("sdpa"), find_contender("dsa", ("top_k=256",))
    inputs = WORKLOAD.inputs(n)
    seconds: dict[str, list[float]] = {name: [] for name in ("sdpa", *parts)}
    with torch.no_grad():
        sdpa.attend(*inputs, True)
        for _ in range(3):
            start = time.process_time()
            sdpa.attend(*inputs, True)
            seconds["sdpa"].append(time.process_time() - start)
            spent.update(dict.fromkeys(parts, 0.0))
            ours.attend(*inputs, True)
            for name in parts:
                seconds[name].append(spent[name])
    base = sorted(seconds["sdpa"])[1]
    for name, word in parts.items():
        yield Row("dsa, top-k 256", f"n = {n:,}, {word}", sorted(seconds[name])[1] / base)


TABLES = {function.__name__: function for function in (flash, windows, chunks, sparse, plain, dsa)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", metavar="NAME", help=", ".join(TABLES))
    parser.add_argument("--quick", action="store_true", help="few rounds, for a first look")
    arguments = parser.parse_args()
    unknown = set(arguments.tables) - set(TABLES)
    if unknown:
        parser.error(f"no table {', '.join(sorted(unknown))}; choose from {', '.join(TABLES)}")
    for name in arguments.tables or TABLES:
        try:
            rows = list(TABLES[name](2.0 if arguments.quick else 20.0))
        except UsageError as error:  # a variant that is not there yet
            print(f"{name}: {error.message}", file=sys.stderr)
            continue
        print_table(TABLES[name].__doc__ or name, ("variant", "against"), rows)


torch.set_num_threads(1)
ENVIRONMENT = look_around("cpu", "float32")

if __name__ == "__main__":
    speed = f"{ENVIRONMENT.peak_flops / 1e9:.0f} GFLOP/s in one thread"
    print(f"{ENVIRONMENT.processor}, torch {ENVIRONMENT.torch}, {speed}, load {ENVIRONMENT.load}")
    main()
