"""A variant is one file: dropped into a copy of the package, every command knows it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

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

COMMANDS = [
    ["list", "variants"],
    ["show", "a b c", "--variant", "self-only", "--set", "sharpness=2", "--format", "csv"],
    ["compare", "a b c", "--variants", "full,self-only", "--format", "table"],
    ["mask", "self-only", "--seq-len", "6"],
    ["bench", "--seq-len", "32,64", "--variants", "self-only", "--max-time", "0.2", "--format", "table"],
]


def test_a_variant_that_is_one_file_is_known_to_every_command(tmp_path: Path) -> None:
    shutil.copytree(
        Path(attncli.__file__).parent, tmp_path / "attncli", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "attncli" / "attention" / "variants" / "self_only.py").write_text(VARIANT)
    script = f"from attncli.cli.main import main\nfor command in {COMMANDS!r}:\n    print(command[0], main(command))"
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout.splitlines()
    assert [f"{command[0]} 0" in said for command in COMMANDS] == [True] * len(COMMANDS), (
        done.stdout + done.stderr
    )
    assert done.stdout.count("self-only") >= 5
