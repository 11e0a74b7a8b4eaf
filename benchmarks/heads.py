"""What measuring every head of a corpus costs, as a Markdown table.

    python benchmarks/heads.py [--folder ~/.cache/attncli-test-models/all-minilm-l6-v2] [--texts 1000] [--rounds 3]

All metrics, their nulls and the overlap of each two heads, over sentences of Python's own documentation (pydoc_data),
against plain batched forward passes over the same sentences and against one sentence at a time. Watched and alone take
turns in one process, CPU time on one thread; the ratio is that of the least times. Memory is the peak of a process of
its own, over a corpus and over one ten times as long.
"""

from __future__ import annotations

import argparse
import itertools
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from table import Row, print_table

from attncli.heads.corpus_run import CorpusRun, PassSettings
from attncli.heads.corpus_state import CorpusState
from attncli.heads.corpus_sums import CorpusSums
from attncli.heads.metrics_of_block import Measures
from attncli.heads.similarity import HeadOverlap
from attncli.inputs.corpus import Line, cut_into_batches
from attncli.models.batches import BatchedModel, Encoded
from attncli.models.loading import Loaded, load
from attncli.models.pretrained import without_cache
from attncli.observers.selection import Selection

FOLDER = Path.home() / ".cache" / "attncli-test-models" / "all-minilm-l6-v2"


def sentences(count: int) -> list[str]:
    """Give lines of Python's documentation, shuffled; again from the start where there are too few."""
    import pydoc_data.topics

    lines = [line.strip() for topic in pydoc_data.topics.topics.values() for line in topic.splitlines()]
    long = sorted({line for line in lines if len(line) > 20})
    random.Random(0).shuffle(long)
    return list(itertools.islice(itertools.cycle(long), count))


def measure(loaded: Loaded, texts: list[str], batch_size: int, null_texts: int = 64) -> CorpusState:
    """Do what ``attncli heads --file`` does, without the table."""
    model = BatchedModel(loaded)
    kind = model.kinds[0]
    everything = Selection("layer"), Selection("head")
    ledger = CorpusState(
        CorpusSums(kind, Measures.of_kind(kind), *everything, model.depth(kind)),
        HeadOverlap(kind, *everything, model.depth(kind)),
    )
    run = CorpusRun(
        model,
        ledger,
        PassSettings(batch_size, null_texts, 0),
        lambda bad: None,
        lambda bad: None,
        lambda size, done: None,
    )
    run.over_lines((Line(number, text), None) for number, text in enumerate(texts, 1))
    return ledger


def alone(loaded: Loaded, texts: list[str], batch_size: int) -> None:
    """Run the model over the same batches and look at nothing."""
    model = BatchedModel(loaded)
    for start in range(0, len(texts), 512):
        window = [(Line(number, text), None) for number, text in enumerate(texts[start : start + 512], 1)]
        encoded = [one for one in model.encode(window, start) if isinstance(one, Encoded)]
        for part in cut_into_batches(encoded, batch_size):
            with torch.inference_mode(), without_cache(loaded.model):
                loaded.model(**model.feed(part).inputs)


def least(ways: list[Callable[[], object]], rounds: int) -> list[float]:
    """Run each in turns; give each one's least CPU time."""
    best = [float("inf")] * len(ways)
    for _ in range(rounds):
        for number, way in enumerate(ways):
            begin = time.process_time()
            way()
            best[number] = min(best[number], time.process_time() - begin)
    return best


def peak_memory(folder: Path, count: int) -> float:
    """Give the peak memory of a process that measures so many texts, in MiB."""
    done = subprocess.run(
        [sys.executable, __file__, "--folder", str(folder), "--peak", str(count)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def own_peak() -> float:
    """Give this process's peak memory in MiB.

    From Linux' own account where there is one: `ru_maxrss` includes what the parent had when it forked.
    """
    status = Path("/proc/self/status")
    text = status.read_text() if status.exists() else ""
    if "VmHWM:" in text:
        return float(text.partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rows(folder: Path, count: int, rounds: int) -> Iterator[Row]:
    """Measure every line of the table."""
    torch.set_num_threads(1)
    loaded, texts = load(str(folder)), sentences(count)
    part = texts[: max(count // 10, 1)]
    measure(loaded, part, 32)
    watched, plain = least([lambda: measure(loaded, texts, 32), lambda: alone(loaded, texts, 32)], rounds)
    yield Row("every head", f"{count:,} texts, batched forwards", watched / plain, 1.5)
    batched, single = least(
        [lambda: measure(loaded, part, 32, 0), lambda: measure(loaded, part, 1, 0)], rounds
    )
    yield Row("every head, in batches", f"{len(part):,} texts, one at a time", batched / single, 0.25)
    small, large = peak_memory(folder, count), peak_memory(folder, 10 * count)
    yield Row("peak memory", f"{10 * count:,} texts, {count:,} texts ({small:.0f} MiB)", large / small, 1.1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        torch.set_num_threads(1)
        measure(load(str(given.folder)), sentences(given.peak), 32)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 512)
        return
    if not (given.folder / "config.json").is_file():
        print(f"no model in {given.folder}: python tests/models/fetch.py gets it")
        return
    print_table("heads", ("work", "against"), rows(given.folder, given.texts, given.rounds))


if __name__ == "__main__":
    main()
