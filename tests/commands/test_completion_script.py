import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import Cli

from attncli.commands.completion import SHELLS, completion_script
from attncli.errors import UsageError
from attncli.registry import entries

ASK_BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_LINE=${COMP_LINE/ = /=}; COMP_POINT=${#COMP_LINE}
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file, and with a folder."""
    made = tmp_path / "here"
    (made / "my models").mkdir(parents=True)
    (made / "corpus.txt").touch()
    return made


def ask(shell: str, program: str, path: str, folder: Path, *words: str) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    script = folder.parent / "script"
    script.write_text(completion_script(shell))
    done = subprocess.run(
        [shell, "-c", program, *([shell] if shell == "bash" else []), str(script), *words],
        env=os.environ | {"PATH": path, "HF_HUB_CACHE": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line.partition("\t")[0] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (("attncli", "to"), {"tokens"}),
        (("attncli", ""), {"tokens", "list", "schema", "doctor", "completion"}),
        (("attncli", "tokens", "--mo"), {"--model"}),
        (("attncli", "show", "x", "--format", "=", "js"), {"json"}),
        (("attncli", "compare", "--variants", "full,fl"), {"full,flash"}),
        (("attncli", "tokens", "-m", ""), {"tiny-decoder", "my models"}),
        (("attncli", "find", "--examples", "co"), {"coreference", "corpus.txt"}),
        (("attncli", "mask", "bigbird", "--set", "b"), {"block="}),
        (("attncli", "compare", "--set", "dsa."), {"dsa.top_k="}),
    ],
)
def test_bash_completes_commands_options_and_values(
    words: tuple[str, ...], some: set[str], path: str, folder: Path
) -> None:
    found = set(ask("bash", ASK_BASH, path, folder, *words))
    assert some <= found
    assert all(word.startswith(words[-1]) for word in found)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("attncli tok", ["tokens"]),
        ("attncli show x --format=js", ["--format=json"]),
        ("attncli compare --variants full,fl", ["full,flash"]),
        ("attncli find --examples co", ["coreference", "corpus.txt"]),
        ("attncli show x --layer ", []),
    ],
)
def test_fish_completes_them_too(line: str, found: list[str], path: str, folder: Path) -> None:
    program = "source $argv[1]; complete -C $argv[2]"
    assert ask("fish", program, path, folder, line) == found


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


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("show -f j", ["json"]),
        ("show --format=j", ["json"]),
        ("show -m tiny-e", ["tiny-encoder", ":folders"]),
        ("tokens x --model scr", ["scratch", ":folders"]),
        ("show --variant sl", ["sliding-window"]),
        ("show --kind ", ["encoder", "decoder", "cross"]),
        ("show --pool ", ["max", "mean"]),
        ("show --color ", ["auto", "always", "never"]),
        ("show --colormap v", ["viridis"]),
        ("show --dtype b", ["bfloat16"]),
        ("show --device-map a", ["auto"]),
        ("show --offload-folder ", [":folders"]),
        ("show spee", [":files"]),
        ("show x -o run", [":files"]),
        ('show "it\'s" --layer ', []),
        ("tokens ", []),
        ("explain ", ["scaling", "order"]),
        ("heads --by pre", ["previous_token"]),
        ("heads --by ro", ["role"]),
        ("heads --probe ", ["induction"]),
        ("heads --resume ", [":files"]),
        ("mask sl", ["sliding-window"]),
        ("mask pad", ["padding"]),
        ("compare --variants full,linear,fl", ["full,linear,flash"]),
        ("compare --variants full,fu", []),
        ("bench --variants sdpa,fle", ["sdpa,flex"]),
        ("bench --dtype float6", ["float64"]),
        ("find --examples ", ["coreference", "verb-object", ":files"]),
        ("render ", [":files"]),
        ("list met", ["metrics"]),
        ("schema sh", ["show"]),
        ("completion z", ["zsh"]),
        ("completion", ["completion"]),
        ("completion bash --nonsense", []),
        ("compare 'it", []),
    ],
)
def test_values_are_offered_where_they_are_known(
    line: str, offered: list[str], cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("_ATTNCLI_COMPLETE", "complete_bash")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", f"attncli {line}")
    asked = cli()
    assert [one.partition("\t")[0] for one in asked.out.split("\n") if one] == offered
    assert (asked.code, asked.err) == (0, "")


def test_values_come_with_their_meaning_and_a_name_that_is_twice_is_offered_once(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_ATTNCLI_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "attncli mask ful")
    assert cli().out == f"full\t{entries('masks')['full'].summary}\n"


def test_what_goes_wrong_is_not_written_at_the_prompt(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("no right to look")

    monkeypatch.setattr("attncli.registry.entries", broken)
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "attncli show -f ")
    monkeypatch.setenv("_ATTNCLI_COMPLETE", "complete_bash")
    found = cli()
    assert (found.code, found.out, found.err) == (0, "", "")


def test_values_are_known_without_torch(tmp_path: Path) -> None:
    """Those of every option that has any."""
    script = """
import sys
from attncli.cli.main import _function, command_names
import inspect
seen = 0
for name in command_names():
    for parameter in inspect.signature(_function(name)).parameters.values():
        for choices in getattr(parameter.annotation, "__metadata__", ())[1:]:
            seen += len(list(choices.offer("")))
assert seen > 100, seen
found = {"torch", "transformers", "numpy", "tokenizers", "matplotlib", "huggingface_hub"} & set(sys.modules)
assert not found, found
"""
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_an_unknown_shell_gets_a_hint() -> None:
    with pytest.raises(UsageError) as caught:
        completion_script("bsh")
    assert (caught.value.message, caught.value.hint) == (
        "no completion for the shell 'bsh'",
        'did you mean "bash"?',
    )
