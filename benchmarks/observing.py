"""What observing costs: a model that is watched against the same model alone, as a Markdown table.

    python benchmarks/observing.py [--lengths 2048,4096,8192] [--rounds 3] [--folder all-minilm-l6-v2]

The model has the shape of a small Llama with random weights: 8 heads, 4 of them for keys and values, head_dim 64,
MLP 1,408, float32. Watched and alone take turns in one process; the ratio is that of the least times, CPU time on one
thread and wall time on several. Peak memory is taken in a process of its own for each, above that of the loaded model.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attncli.heads.corpus_sums import CorpusSums
from attncli.heads.metrics_of_block import Measures
from attncli.models.loading import Loaded, LoadOptions, load
from attncli.models.prepared_text import from_inputs, prepare
from attncli.models.pretrained import PretrainedSource, without_cache
from attncli.observers.selection import Selection, parse_selection
from attncli.observers.strongest import StrongestKeys
from attncli.observers.weights import FullWeights
from attncli.record import Axis, Batch, Kind, Observer

STATISTICS_BARS = {2048: 1.35, 4096: 1.45, 8192: 1.6}
TOP_BARS = {2048: 1.5, 4096: 1.6, 8192: 1.75}
LAYERS = {2048: 3, 4096: 3, 8192: 2}
FAST = (
    ("Mistral", "window 1,024", 16384, 0.36),
    ("Gemma2", "Gemma 2", 4096, 0.27),
    ("GptOss", "gpt-oss", 4096, 0.27),
)
ALL = Selection("layer"), Selection("head")


@dataclass(frozen=True)
class Measured:
    """One line of the table."""

    work: str
    value: float
    bar: float
    unit: str = ""

    def line(self) -> str:
        """Write the line in Markdown."""
        verdict = "pass" if self.value <= self.bar else "**miss**"
        return f"| {self.work} | {self.value:.2f}{self.unit} | ≤ {self.bar:g}{self.unit} | {verdict} |"


def llama(length: int) -> PretrainedSource:
    """Make the random model, and an input of a length."""
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=LAYERS.get(length, 2),
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=length,
    )
    loaded = Loaded("llama", LlamaModel(config).eval(), None, LoadOptions(), None)
    inputs = {"input_ids": torch.randint(1000, (1, length))}
    return PretrainedSource(loaded, from_inputs(loaded, inputs, {"decoder": (length, length)}))


def slow_by_itself(family: str, length: int) -> PretrainedSource:
    """Make a random model of a family whose own kernel is slow on long texts, with `llama`'s shape and two layers."""
    import transformers

    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": 1000,
        "hidden_size": 512,
        "intermediate_size": 1408,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "max_position_embeddings": length,
    }
    own: dict[str, dict[str, Any]] = {
        "Mistral": {"sliding_window": 1024},
        "Gemma2": {"sliding_window": 4096, "query_pre_attn_scalar": 64},
        "GptOss": {"sliding_window": 128, "num_local_experts": 2, "num_experts_per_tok": 1},
    }
    config = getattr(transformers, f"{family}Config")(**sizes, **own[family])
    model = getattr(transformers, f"{family}Model")(config).eval()
    loaded = Loaded(family, model, None, LoadOptions(), None)
    inputs = {"input_ids": torch.randint(1000, (1, length))}
    prepared = from_inputs(loaded, inputs, {"decoder": (length, length)})
    return PretrainedSource(loaded, prepared, fast=True)


def statistics(source: PretrainedSource) -> list[Observer]:
    """Ask for all metrics of every head, as `attncli heads` does."""
    return [_metrics(source, *ALL)]


def with_top(source: PretrainedSource) -> list[Observer]:
    """Ask for the eight strongest keys of every row besides."""
    kind, depth, length = _sizes(source)
    return [*statistics(source), StrongestKeys(kind, 8, *ALL, depth, length)]


def one_head(source: PretrainedSource) -> list[Observer]:
    """Ask for the metrics of one head of the last layer, before which the model is not stopped."""
    return [_metrics(source, parse_selection("-1", "layer"), parse_selection("3", "head"))]


def _metrics(source: PretrainedSource, layers: Selection, heads: Selection) -> CorpusSums:
    kind, depth, length = _sizes(source)
    tallies = CorpusSums(kind, Measures.of_kind(kind), layers, heads, depth)
    ids, none = torch.arange(length)[None], torch.zeros(1, length, dtype=torch.bool)
    axis = Axis(ids, ~none, none, none)
    tallies.begin(Batch(axis, axis, ~none))
    return tallies


def all_weights(source: PretrainedSource) -> list[Observer]:
    """Ask for all weights."""
    kind, depth, length = _sizes(source)
    return [FullWeights(kind, *ALL, depth, length, length)]


def _sizes(source: PretrainedSource) -> tuple[Kind, int, int]:
    kind = source.kinds[0]
    return kind, source.depth(kind), len(source.axes(kind)[0])


Ask = Callable[[PretrainedSource], list[Observer]]


def ratios(
    source: PretrainedSource, asks: Sequence[Ask], rounds: int, clock: Callable[[], float]
) -> list[float]:
    """Run the model alone and with each set of observers in turns; give each one's least time over the model's."""
    ways: list[Callable[[], Any]] = [lambda: alone(source)]
    ways += [lambda ask=ask: source.run(ask(source)) for ask in asks]
    best = [float("inf")] * len(ways)
    for way in ways:
        way()
    for _ in range(rounds):
        for number, way in enumerate(ways):
            start = clock()
            way()
            best[number] = min(best[number], clock() - start)
    return [time_taken / best[0] for time_taken in best[1:]]


@torch.inference_mode()
def alone(source: PretrainedSource) -> torch.Tensor:
    """Run the model as it is, without anybody watching."""
    with without_cache(source.loaded.model):
        output: torch.Tensor = source.loaded.model(**source.prepared.inputs).last_hidden_state
    return output


def same_output(source: PretrainedSource) -> bool:
    """Say whether the model's output is bit for bit the same while it is watched."""
    seen: list[torch.Tensor] = []
    hook = source.loaded.model.register_forward_hook(lambda *call: seen.append(call[2].last_hidden_state))
    source.run(with_top(source))
    hook.remove()
    return torch.equal(seen[0], alone(source))


def peak_memory(length: int, watched: bool) -> float:
    """Give the peak memory of one pass over that of the loaded model, in MB, from a process of its own."""
    options = ["--peak", str(length), *(["--watched"] if watched else [])]
    done = subprocess.run([sys.executable, __file__, *options], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout))


def _own_peak(length: int, watched: bool) -> float:
    source = llama(length)
    small = PretrainedSource(
        source.loaded,
        from_inputs(
            source.loaded, {"input_ids": torch.ones(1, 600, dtype=torch.long)}, {"decoder": (600, 600)}
        ),
    )
    small.run(with_top(small))  # so that what a first call loads is not counted
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kept = with_top(source) if watched else []
    source.run(kept) if watched else alone(source)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 1e6


def table(lengths: Sequence[int], rounds: int, folder: Path | None) -> Iterator[Measured]:
    """Measure every line that can be measured here, and give each as soon as it is there."""
    torch.set_num_threads(1)
    for length in lengths:
        found = ratios(llama(length), [statistics, with_top, one_head], rounds, time.process_time)
        yield Measured(f"statistics of every head ÷ forward, n = {length}", found[0], STATISTICS_BARS[length])
        yield Measured(f"the same with top-8 keys of every row, n = {length}", found[1], TOP_BARS[length])
        yield Measured(f"one head of one layer ÷ forward, n = {length}", found[2], 1.1)
    for family, name, length, bar in FAST:
        if length <= 2 * max(lengths):
            (found_fast,) = ratios(slow_by_itself(family, length), [statistics], 1, time.process_time)
            yield Measured(f"--fast, {name}, all statistics ÷ forward, n = {length}", found_fast, bar)
    if folder is not None:
        yield _minilm(folder, rounds)
    if 4096 in lengths:
        torch.set_num_threads(2)
        (found_two,) = ratios(llama(4096), [with_top], rounds, time.perf_counter)
        yield Measured("two threads, top-8, n = 4096 (wall time)", found_two, 1.7)
        torch.set_num_threads(1)
    longest = max(lengths)
    extra = peak_memory(longest, True) - peak_memory(longest, False)
    yield Measured(f"extra peak memory, results included, n = {longest}", extra, 60, " MB")
    differs = float(not same_output(llama(2048)))
    yield Measured("output differs from the unobserved (torch.equal)", differs, 0)


def _fetched() -> Path | None:
    """Give the folder where the tests' models are fetched to, if MiniLM is there."""
    cache = os.environ.get("ATTNCLI_TEST_MODELS", Path.home() / ".cache" / "attncli-test-models")
    folder = Path(cache) / "all-minilm-l6-v2"
    return folder if folder.is_dir() else None


def _minilm(folder: Path, rounds: int) -> Measured:
    loaded = load(str(folder))
    text = "The animal did not cross the street because it was too tired"
    source = PretrainedSource(loaded, prepare(loaded, text))
    length = len(source.axes("encoder")[0])
    (found,) = ratios(source, [all_weights], 40 * rounds, time.process_time)
    return Measured(f"all weights of {folder.name}, {length} tokens ÷ forward", found, 1.1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", default="2048,4096,8192")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--folder",
        type=Path,
        default=_fetched(),
        help="a MiniLM model's folder, for the line about short texts",
    )
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--watched", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        print(json.dumps(_own_peak(given.peak, given.watched)))
        return
    print("| work | measured | bar | |\n|---|--:|--:|---|")
    for line in table([int(length) for length in given.lengths.split(",")], given.rounds, given.folder):
        print(line.line(), flush=True)


if __name__ == "__main__":
    main()
