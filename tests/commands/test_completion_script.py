import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attncli.commands.completion import SHELLS, completion_script
from attncli.errors import UsageError

ASK_BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_attncli_completion attncli
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A search path on which `attncli` is this one."""
    program = tmp_path / "attncli"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m attncli "$@"\n')
    program.chmod(0o755)
    return f"{tmp_path}{os.pathsep}{os.environ['PATH']}"


def completions(path: str, tmp_path: Path, *words: str) -> list[str]:
    script = tmp_path / "completion.bash"
    script.write_text(completion_script("bash"))
    command = ["bash", "-c", ASK_BASH, "bash", str(script), *words]
    done = subprocess.run(
        command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("words", "some"),
    [
        (("attncli", "to"), {"tokens"}),
        (("attncli", ""), {"tokens", "list", "schema", "doctor", "completion"}),
        (("attncli", "tokens", "--mo"), {"--model"}),
    ],
)
def test_bash_completes_commands_and_options(
    words: tuple[str, ...], some: set[str], path: str, tmp_path: Path
) -> None:
    found = set(completions(path, tmp_path, *words))
    assert some <= found
    assert all(word.startswith(words[-1]) for word in found)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_asks_attncli_for_its_completions(shell: str) -> None:
    script = completion_script(shell)
    assert f"_ATTNCLI_COMPLETE=complete_{shell}" in script
    assert script.endswith("\n")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_that_is_here_can_read_its_script(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    script = tmp_path / "script"
    script.write_text(completion_script(shell))
    subprocess.run([shell, "-n", str(script)], check=True)


def test_an_unknown_shell_gets_a_hint() -> None:
    with pytest.raises(UsageError) as caught:
        completion_script("bsh")
    assert (caught.value.message, caught.value.hint) == (
        "no completion for the shell 'bsh'",
        'did you mean "bash"?',
    )
