"""What `show --each-line` costs, as a Markdown table.

    python benchmarks/each_line.py [--folder ~/.cache/attncli-test-models/all-minilm-l6-v2] [--texts 1000] [--rounds 5]

A record of the five strongest keys of each row of one head (`--layer 4 --head 2 --top 5 -f ndjson`) for each of many
sentences of Python's own documentation, against plain batched forward passes over the same sentences. The two take
turns in one process, CPU time on one thread; the ratio is that of the least times. Memory is the peak of a process of
its own, over these sentences and over the same ones ten times: of other sentences, tokenizers keep the words.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from heads import FOLDER, alone, least, own_peak, sentences
from table import Row, print_table

from attncli.cli.common import plan_output
from attncli.cli.each_line import LineOptions, LineRun
from attncli.cli.options import OutputOptions
from attncli.cli.record_file import RecordFile
from attncli.inputs.corpus import CorpusFile
from attncli.maps.each_line import EachLine
from attncli.maps.options import ShowOptions
from attncli.maps.show import MapRequest, Question
from attncli.models.loading import Loaded, load
from attncli.models.opening import Opened
from attncli.models.text_batches import TextReader
from attncli.observers.selection import parse_selection


def show_each(loaded: Loaded, texts: list[str], folder: Path) -> None:
    """Do what ``attncli show --each-line`` does, once the model is loaded."""
    corpus, records = folder / "texts.txt", folder / "records.ndjson"
    corpus.write_text("".join(f"{text}\n" for text in texts))
    output = OutputOptions(output=[str(records)], quiet=1)
    plan = plan_output(output, "MatrixGrid", top=5)
    run = LineRun(CorpusFile(str(corpus)), plan, LineOptions(True), RecordFile(records))
    layer, head = parse_selection("4", "layer"), parse_selection("2", "head")

    def ask(source: Opened) -> tuple[Question, int]:
        request = MapRequest(source, source.kinds[0], layer, head, ShowOptions(top=5))
        return request.question(run.documents), 1

    reader = TextReader(loaded)
    run.through(EachLine(reader.open, ask, 32, reader).answers)


def peak_memory(folder: Path, count: int, times: int) -> float:
    """Return the peak memory of a process that shows so many texts so many times, in MiB."""
    command = [sys.executable, __file__, "--folder", str(folder), "--texts", str(count), "--peak", str(times)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def rows(folder: Path, count: int, rounds: int, scratch: Path) -> Iterator[Row]:
    """Measure every line of the table."""
    loaded, texts = load(str(folder)), sentences(count)
    show_each(loaded, texts[:64], scratch)
    shown, plain = least(
        [lambda: show_each(loaded, texts, scratch), lambda: alone(loaded, texts, 32)], rounds
    )
    yield Row("a record a text", f"{count:,} texts, batched forwards", shown / plain, 1.6)
    small, large = peak_memory(folder, count, 1), peak_memory(folder, count, 10)
    yield Row("peak memory", f"{10 * count:,} texts, {count:,} texts ({small:.0f} MiB)", large / small, 1.1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if not (given.folder / "config.json").is_file():
        print(f"no model in {given.folder}: python tests/models/fetch.py gets it")
        return
    with tempfile.TemporaryDirectory() as name:
        if given.peak:
            show_each(load(str(given.folder)), sentences(given.texts) * given.peak, Path(name))
            print(own_peak())
            return
        table = rows(given.folder, given.texts, given.rounds, Path(name))
        print_table("each line", ("work", "against"), table)


if __name__ == "__main__":
    main()
