"""attncli heads in several processes: the same numbers, printed once, and an end where one is lost."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commandline import Cli

from attncli.errors import UsageError
from attncli.heads.ranks import Ranks, ranks_from

TEXTS = [
    "the animal was too tired .",
    "it was tired",
    "was it",
    "too tired too tired",
    "the the animal",
    "it .",
]


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def start(rank: int, count: int, port: int, *options: str, body: str = "") -> subprocess.Popen[bytes]:
    """Start one rank, as torchrun does; `body` is Python that runs before the command does."""
    meeting = {
        "RANK": rank,
        "WORLD_SIZE": count,
        "LOCAL_RANK": rank,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    environ = {**os.environ, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in meeting.items()}}
    code = f"import sys\n{body}\nfrom attncli.cli.main import main\nsys.exit(main({['heads', *options]!r}))"
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def numbers(document: Any) -> dict[tuple[int, int, str, str], float | None]:
    return {
        (head["layer"], head["head"], name, part): value
        for head in document["heads"]
        for name, number in head["metrics"].items()
        for part, value in number.items()
    }


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return str(path)


def test_two_ranks_find_what_one_finds_and_the_first_prints(cli: Cli, corpus: str, tiny_bert: str) -> None:
    options = ("--file", corpus, "-m", tiny_bert, "--batch-size", "2", "--null-texts", "3", "--json")
    port = free_port()
    first, second = (start(rank, 2, port, *options) for rank in (0, 1))
    out, err = first.communicate(timeout=120)
    other, _ = second.communicate(timeout=120)
    assert (first.returncode, second.returncode) == (0, 0), err
    assert other == b""
    two, one = json.loads(out), cli("heads", *options).json
    assert numbers(two) == pytest.approx(numbers(one), abs=1e-9) and two["corpus"] == one["corpus"]
    assert two["clusters"] == one["clusters"]


def test_a_lost_rank_ends_the_others_with_one_error(corpus: str, tiny_bert: str) -> None:
    options = ("--file", corpus, "-m", tiny_bert, "--rank-timeout", "60")
    port = free_port()
    dies = "from attncli.commands import _corpus_run\nimport os\n_corpus_run.CorpusState.take = lambda *a: os._exit(9)"
    first, second = start(0, 2, port, *options), start(1, 2, port, *options, body=dies)
    out, err = first.communicate(timeout=120)
    second.communicate(timeout=120)
    lines = [line for line in err.decode().splitlines() if line.startswith("error: ")]
    assert first.returncode == 1 and out == b"" and len(lines) == 1
    assert "rank 0 of 2 has lost another rank" in lines[0]


@pytest.mark.parametrize("environ", [{"RANK": "x", "WORLD_SIZE": "2"}, {"RANK": "2", "WORLD_SIZE": "2"}])
def test_a_meeting_that_makes_no_sense_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        ranks_from(environ)


def test_without_torchrun_there_is_one_rank() -> None:
    assert ranks_from({}) == Ranks(0, 1, 0) and ranks_from({}).is_first
