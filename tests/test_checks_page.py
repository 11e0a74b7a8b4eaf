"""The script of docs/checks.md is run as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import tiny

PAGE = Path(__file__).parent.parent / "docs" / "checks.md"


def _run(folder: Path, model: Path, mask: str) -> subprocess.CompletedProcess[str]:
    script = re.search(r"checks:begin -->\n```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert script is not None
    (folder / "texts.txt").write_text("the animal was tired\nit did cross\nthe animal was too tired .\n")
    (folder / "bin").mkdir(exist_ok=True)
    command = folder / "bin" / "attncli"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m attncli "$@"\n')
    command.chmod(0o755)
    known = os.environ | {"MODEL": str(model), "MASK": mask, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(["bash", "-c", script[1]], cwd=folder, env=known, capture_output=True, text=True)


def test_the_script_passes_on_a_model_that_is_as_expected(tmp_path) -> None:
    done = _run(tmp_path, tiny.write_llama(tmp_path / "model"), "causal")
    assert done.returncode == 0, done.stderr
    assert "3 texts padded on either side" in done.stderr and (tmp_path / "heads.json").exists()


def test_it_ends_with_3_at_a_wrong_mask(tmp_path) -> None:
    done = _run(tmp_path, tiny.write_llama(tmp_path / "model"), "full")
    assert done.returncode == 3 and "layer 0 is not full" in done.stderr
