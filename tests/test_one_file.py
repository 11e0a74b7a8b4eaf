"""A variant, a metric, a format, a command, a kind of input is one file: put into a copy of the package, it works."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tiny import write_bert

import attncli

VARIANT = '''
"""Self attention: each position attends to itself alone."""

import torch

from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="self-only",
    summary="each position attends to itself",
    parameters=(Parameter("sharpness", 1.0, "changes nothing", minimum=0.0),),
    attributes={"exact": False, "causal": True, "cross": False, "signed": False},
)


def attend(query, key, value, *, causal=False, key_mask=None, sharpness=1.0):
    return value.repeat_interleave(query.shape[1] // value.shape[1], dim=1).clone()


def weights(query, key, *, causal=False, key_mask=None, sharpness=1.0):
    return torch.eye(query.shape[2], dtype=query.dtype).expand(*query.shape[:3], key.shape[2])


def mask(query_len, key_len, *, causal=False, sharpness=1.0):
    return torch.eye(query_len, key_len, dtype=torch.bool)
'''

METRIC = '''
"""Minimum: the smallest weight of a row."""

from attncli.registry import Entry

ENTRY = Entry(
    name="minimum",
    summary="the smallest weight of a row",
    attributes={"kinds": ("encoder", "decoder", "cross"), "unit": "weight", "per": "row", "null": "shuffled"},
)


def measure(block, batch):
    return block.weights.amin(dim=-1)
'''

FORMAT = '''
"""The title of a view alone."""

from attncli.registry import Entry

ENTRY = Entry(
    name="title",
    summary="the title alone",
    attributes={"suffixes": (".title",), "views": ("MatrixGrid", "Table", "HeadRanking"), "binary": False},
)


def render(view, options):
    return (view.header.title + "\\n").encode()
'''

COMMAND = '''
"""attncli greet: Greet somebody.

Nothing else.
"""

from dataclasses import dataclass
from typing import Annotated

import typer

from attncli.cli.command import spread

EXAMPLES = ("attncli greet you",)


@dataclass(frozen=True)
class Name:
    name: Annotated[str, typer.Argument(help="Whom to greet.")]


@spread
def greet(name: Name) -> None:
    print(f"greet: hello {name.name}")
'''

INPUT = '''
"""A text in a file that is read backwards."""

from pathlib import Path

from attncli.maps import OpenedInput
from attncli.models.opening import load_options
from attncli.registry import Entry

ENTRY = Entry(
    name="backwards",
    summary="a text that is read backwards",
    attributes={"suffixes": (".txet",), "models": "BERT", "example": "a.txet", "takes": ("input_ids",)},
)


def open_input(path, choice, model, output, writing, formats):
    from attncli.models.pretrained import open_model

    text = " ".join(reversed(Path(path).read_text().split()))
    return OpenedInput(open_model(model.model, text, None, options=load_options(model)), choice)
'''


def run(folder: Path, file: str, text: str, *commands: list[str]) -> list[str]:
    """Add a file to a copy of the package and return what it prints, each command after its exit code."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(attncli.__file__).parent, folder / "attncli", ignore=ignored)
    (folder / "attncli" / file).write_text(text)
    call = "print('code', main(command), flush=True)"
    script = f"from attncli.cli.main import main\nfor command in {commands!r}:\n    {call}"
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.count("code 0\n") == len(commands), done.stdout + done.stderr
    return done.stdout.split("code 0\n")


def test_a_variant_is_known_to_every_command(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        "attention/variants/self_only.py",
        VARIANT,
        ["list", "variants"],
        ["show", "a b c", "--variant", "self-only", "--set", "sharpness=2", "--format", "csv"],
        ["compare", "a b c", "--variants", "full,self-only", "--format", "table"],
        ["mask", "self-only", "--seq-len", "6"],
        ["bench", "--seq-len", "32,64", "--variants", "self-only", "--max-time", "0.2", "--format", "table"],
    )
    assert "".join(said).count("self-only") >= 5


def test_a_metric_ranks_heads(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        "heads/metrics/minimum.py",
        METRIC,
        ["list", "metrics"],
        ["heads", "a b c a b c", "--by", "minimum", "--format", "csv"],
    )
    assert "the smallest weight of a row" in said[0] and ",minimum," in said[1]


def test_a_format_is_written_to_stdout_and_picked_by_its_ending(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        "render/title.py",
        FORMAT,
        ["list", "formats"],
        ["show", "a b c", "-o", "run.json", "-o", "run.title"],
        ["render", "run.json", "--format", "title"],
    )
    assert "the title alone" in said[0]
    assert said[2] == (tmp_path / "run.title").read_text()


def test_a_command_has_help_and_runs(tmp_path: Path) -> None:
    said = run(tmp_path, "commands/greet.py", COMMAND, ["--help"], ["greet", "--help"], ["greet", "you"])
    assert "Greet somebody." in said[0] and "Whom to greet." in said[1] and said[2] == "greet: hello you\n"


def test_an_input_kind_is_shown_by_its_ending(tmp_path: Path) -> None:
    model = write_bert(tmp_path / "bert")
    (tmp_path / "words.txet").write_text("tired animal")
    shown = ["show", "words.txet", "-m", str(model), "--layer", "0", "--head", "0", "--format", "csv"]
    said = run(tmp_path, "maps/backwards.py", INPUT, ["list", "inputs"], shown)
    assert "a text that is read backwards" in said[0]
    assert [line.split(",")[-2] for line in said[1].splitlines()[1:5]] == [
        "[CLS]",
        "animal",
        "tired",
        "[SEP]",
    ]
