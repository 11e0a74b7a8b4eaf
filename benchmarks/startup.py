"""How long a command line takes to start, in CPU time of whole processes, beside the least that does the same.

    python benchmarks/startup.py [--rounds N]

Both programs of a pair run once a round, in changing order; the ratio is the median of the rounds' ratios. The model
is the folder all-minilm-l6-v2 in $ATTNCLI_TEST_MODELS, or in ~/.cache/attncli-test-models.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from table import Row, print_table

from attncli.bench.statistics import median, paired_ratio, paired_ratio_interval

TEXT = "The animal didn't cross the street because it was too tired."

BARE = """
import typer
app = typer.Typer(add_completion=False)
@app.command()
def show(text: str) -> None:
    "Show a text."
app()
"""

BY_HAND = """
import sys, torch
from transformers import AutoModel, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModel.from_pretrained(sys.argv[1], attn_implementation="eager")
with torch.no_grad():
    print(model(**tokenizer(sys.argv[2], return_tensors="pt"), output_attentions=True).attentions[4][0, 7])
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """Our command, the least that does the same, and how many times as long ours may take."""

    name: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    bar: float


def pairs(model: Path, run: Path) -> list[Pair]:
    """List what is compared; the model's only where its folder is.

    Args:
        run: Where a run is saved, to be drawn again.
    """
    python, attncli = sys.executable, (sys.executable, "-m", "attncli")
    libraries = (python, "-c", "import torch, rich")
    found = [
        Pair(
            "`attncli --help` / a bare Typer program",
            (*attncli, "--help"),
            (python, "-c", BARE, "--help"),
            1.5,
        ),
        Pair("`attncli show TEXT` / `import torch, rich`", (*attncli, "show", TEXT), libraries, 1.3),
        Pair(
            "`attncli render run.npz` / `import numpy, typer`",
            (*attncli, "render", str(run)),
            (python, "-c", "import numpy, typer"),
            2.2,
        ),
    ]
    if not (model / "config.json").is_file():
        print(f"no model in {model}: the last pair is left out", file=sys.stderr)
        return found
    show = (*attncli, "show", TEXT, "--model", str(model), "--layer", "4", "--head", "7")
    by_hand = (python, "-c", BY_HAND, str(model), TEXT)
    return [*found, Pair("`attncli show TEXT --model all-minilm-l6-v2` / by hand", show, by_hand, 1.25)]


def cpu_seconds(command: Sequence[str]) -> float:
    """Run a program and give the CPU time of its process and of those it waited for."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stderr is not None
        told = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)[:200]}: exit code {process.returncode}\n{told.decode()}")
    return usage.ru_utime + usage.ru_stime


def measure(pair: Pair, rounds: int, shuffle: random.Random) -> Row:
    """Run both programs of a pair once a round."""
    commands = {"ours": pair.ours, "theirs": pair.theirs}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for name in commands:
        cpu_seconds(commands[name])  # files come into memory
    for _ in range(rounds):
        for name in shuffle.sample(sorted(commands), 2):
            seconds[name].append(cpu_seconds(commands[name]))
    ratio = paired_ratio(seconds["ours"], seconds["theirs"])
    interval = paired_ratio_interval(seconds["ours"], seconds["theirs"])
    times = f"{median(seconds['ours']):.2f} s / {median(seconds['theirs']):.2f} s"
    return Row(pair.name, times, ratio, pair.bar, interval)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    folder = os.environ.get("ATTNCLI_TEST_MODELS") or Path.home() / ".cache" / "attncli-test-models"
    shuffle = random.Random(0)
    with TemporaryDirectory() as scratch:
        run = Path(scratch) / "run.npz"
        subprocess.run(
            [sys.executable, "-m", "attncli", "show", TEXT, "--heads", "4", "-q", "-o", run], check=True
        )
        compared = pairs(Path(folder) / "all-minilm-l6-v2", run)
        rows = [measure(pair, rounds, shuffle) for pair in compared]
    print_table("Start-up: CPU time of whole processes", ("programs", "medians"), rows)


if __name__ == "__main__":
    main()
