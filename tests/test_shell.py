"""What a shell sees: pipes, terminals, environment variables, and what a light command must not import."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

import pexpect
import pytest

ATTNCLI = (sys.executable, "-m", "attncli")
ESC = re.compile(r"\x1b\[[0-9;]*([A-Za-z])")
HOSTILE = "bell\a \x1b[31mred [red]x[/] :smile: $\\bad$ <script> e\u0301 \u202egnp 日本 👩\u200d💻"


def environment(**changes: str) -> dict[str, str]:
    clean = {
        k: v
        for k, v in os.environ.items()
        if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "COLORTERM", "CI")
    }
    return clean | {"TERM": "xterm-256color", "PYTHONWARNINGS": "error"} | changes


def shell(command: str, **changes: str) -> subprocess.CompletedProcess[str]:
    run = f'set -o pipefail; attncli() {{ {" ".join(ATTNCLI)} "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-c", run], env=environment(**changes), capture_output=True, text=True, check=False
    )


def on_terminal(arguments: Sequence[str], columns: int = 80, **changes: str) -> tuple[int, str]:
    child = pexpect.spawn(
        ATTNCLI[0], [*ATTNCLI[1:], *arguments], env=environment(**changes), dimensions=(50, columns),
        encoding="utf-8", timeout=120,
    )  # fmt: skip
    text = child.read()
    child.close()
    return child.exitstatus, text


def widest(text: str) -> int:
    from rich.cells import cell_len

    return max(cell_len(line) for line in ESC.sub("", text).splitlines())


def test_a_pipe_gets_no_escape() -> None:
    piped = shell('attncli show "a b" | cat')
    assert (piped.returncode, piped.stderr) == (0, "") and "\x1b" not in piped.stdout


def test_a_pipe_that_closes_early_ends_the_command_cleanly() -> None:
    arguments = [
        "show",
        "a b " * 40,
        "--json",
        "--causal",
        "--heads",
        "16",
        "--layers",
        "2",
    ]  # megabytes: more than a pipe holds
    child = subprocess.Popen(
        [*ATTNCLI, *arguments], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stderr is not None
    assert child.stdout.readline() == "{\n"
    child.stdout.close()
    assert (child.stderr.read(), child.wait(timeout=60)) == ("", 141)
    child.stderr.close()


@pytest.mark.parametrize("arguments", [("--help",), ("show", "--help")])
def test_help_that_nobody_reads_ends_as_any_closed_pipe(arguments: Sequence[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*ATTNCLI, *arguments],
        env=environment(),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_closed_streams_are_no_bug_of_ours(tmp_path: Path) -> None:
    closed = shell("attncli list >&-")
    assert (closed.returncode, closed.stderr.splitlines()[0]) == (1, "error: stdout is closed")
    assert shell(f"attncli list -o {tmp_path}/list.json >&- 2>&-").returncode == 0
    assert (tmp_path / "list.json").exists()


def test_a_closed_stderr_takes_notes_and_errors_and_changes_no_exit_code(tmp_path: Path) -> None:
    nobody, (reader, writer) = tmp_path / "out.csv", os.pipe()
    os.close(reader)
    for arguments, code in ((("mask", "causal", "-n", "6000", "-o", str(nobody.with_suffix(".png"))), 0),
                            (("show", "a b", "-m", "scratch", "-f", "csv"), 0), (("shw",), 2)):  # fmt: skip
        with nobody.open("wb") as out:
            done = subprocess.run(
                [*ATTNCLI, *arguments], env=environment(), stdout=out, stderr=writer, check=False
            )
        assert done.returncode == code, arguments
    os.close(writer)
    done = shell("attncli bench -n 16 --variants full -q 2>&- | tail -1")
    assert done.returncode == 0 and done.stdout.startswith("full")


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("attncli show - <&-", 2, "error: stdin is closed"),
        ("attncli show <&-", 2, "error: no text was given"),
        ("attncli tokens - <&-", 2, "error: stdin is closed"),
        ("attncli heads - <&-", 2, "error: stdin is closed"),
        ("attncli render - <&-", 2, "error: stdin is closed"),
        ("attncli tokens - 0>/dev/null", 1, "error: stdin: Bad file descriptor"),
    ],
)
def test_no_stdin_at_all_is_told(command: str, code: int, told: str) -> None:
    done = shell(command)
    assert (done.returncode, done.stdout, done.stderr.splitlines()[0]) == (code, "", told)


def test_an_argument_is_utf8_whatever_the_locale_says() -> None:
    posix = {"LC_ALL": "POSIX", "PYTHONUTF8": "0"}
    done = shell('attncli show "añb ñd" -m scratch --query ñd --json', **posix)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [token["text"] for token in document["query_tokens"]] == ["ñd"]
    assert document["provenance"]["argv"][1] == "añb ñd"
    broken = shell("attncli tokens $'a\\xff'", **posix)
    assert broken.returncode == 2 and "the text is not UTF-8: byte 0xff at character 1" in broken.stderr


def test_help_has_its_options_in_groups_and_bold_headings_on_a_terminal_alone() -> None:
    piped = shell("attncli show --help").stdout
    groups = ["Options:", "Model:", "Generation (with --model):", "Output:"]
    assert [line for line in piped.splitlines() if line in groups] == groups
    assert "<str>" not in piped and "\x1b" not in piped
    code, seen = on_terminal(["show", "--help"])
    assert code == 0 and "\x1b[1mModel:\x1b[0m" in seen and ESC.sub("", seen).split() == piped.split()
    assert "\x1b" not in on_terminal(["show", "--help"], NO_COLOR="1")[1]


def test_nothing_asked_for_and_the_word_help_give_help() -> None:
    general, of_show = shell("attncli --help"), shell("attncli show --help")
    nothing, word, word_show = shell("attncli"), shell("attncli help"), shell("attncli help show")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (2, general.stdout, "")
    assert (word.returncode, word.stdout) == (0, general.stdout)
    assert (word_show.returncode, word_show.stdout) == (0, of_show.stdout)
    assert shell("attncli help shw").stderr.splitlines()[1] == 'hint: did you mean "show"?'
    assert shell("attncli --foo list").stderr.splitlines()[1] == "try: attncli --help"


def test_a_script_can_use_json_and_exit_codes() -> None:
    done = shell(
        'attncli show "a b c" --causal --json | python3 -c "import json, sys; print(json.load(sys.stdin)[\'schema\'])"'
    )
    assert (done.stdout, done.stderr.count("note: weights are random")) == ("1\n", 1)


def test_a_closed_stdout_is_told_and_files_do_without_it(tmp_path: Path) -> None:
    closed = shell('attncli show "a b" >&-')
    assert (closed.returncode, closed.stderr.splitlines()[0]) == (1, "error: stdout is closed")
    assert shell("attncli schema show >&-").stderr == "error: stdout is closed\nhint: -o FILE writes a file\n"
    file = tmp_path / "run.csv"
    assert shell(f'attncli show "a b" -q -o {file} >&-').returncode == 0 and file.stat().st_size


def test_a_table_in_a_pipe_is_bare_rows_and_its_notes_are_on_stderr() -> None:
    piped = shell('attncli heads "it was it" | cat')
    assert "note" not in piped.stdout and "note: rows: content tokens" in piped.stderr
    wide = shell('attncli heads "it was it" --width 80 | cat')
    assert "note: rows: content tokens" in wide.stdout and not wide.stderr


def test_force_color_colours_a_pipe_without_moving_its_cursor() -> None:
    forced = shell('attncli show "a b" | cat', FORCE_COLOR="1").stdout
    assert {match[1] for match in ESC.finditer(forced)} == {"m"}


@pytest.mark.parametrize(
    "changes",
    [{"FORCE_COLOR": "0"}, {"TERM": "dumb"}, {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "LANG": "C"}],
    ids=lambda changes: next(iter(changes)),
)
def test_poor_surroundings_get_a_plain_answer(changes: dict[str, str]) -> None:
    done = shell('attncli show "añb 日本"', **changes)
    assert done.returncode == 0 and "\x1b" not in done.stdout
    if "PYTHONIOENCODING" in changes:
        assert done.stdout.isascii()


def test_a_terminal_gets_colour_within_its_width_and_no_color_takes_every_escape_away() -> None:
    text = "the animal didn't cross the street because it was too tired"
    code, shown = on_terminal(["show", text, "--causal", "--heads", "4"], 40, COLORTERM="truecolor")
    assert code == 0 and "\x1b[" in shown and ";2;" in shown and widest(shown) <= 40
    code, plain = on_terminal(["show", HOSTILE], 80, NO_COLOR="1")
    assert (
        code == 0
        and "\x1b" not in plain
        and "\a" not in plain
        and "\u202e" not in plain
        and widest(plain) <= 80
    )
    code, wide = on_terminal(["mask", "causal", "-n", "150"], 200)
    assert code == 0 and widest(wide) <= 200


def test_no_text_on_a_terminal_gives_examples_and_exit_code_2() -> None:
    code, text = on_terminal(["show"], 100)
    assert code == 2 and "no text was given" in text and text.count("attncli show") >= 2


LIGHT = [
    ("--version",),
    ("--help",),
    ("show", "--help"),
    ("mask", "--help"),
    ("list",),
    ("list", "variants", "--json"),
    ("schema", "show"),
    ("completion", "bash"),
    ("tokens", "a b"),
    ("tokens", "a b", "--json"),
    ("shw",),
]


def test_light_commands_import_nothing_heavy() -> None:
    script = f"""
import sys
from attncli.cli.main import main
heavy = {{"torch", "transformers", "matplotlib", "numpy.linalg", "pandas"}}
for arguments in {LIGHT!r}:
    main(arguments)
    found = heavy & set(sys.modules)
    assert not found, (arguments, found)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_entry_point_and_the_module_are_the_same_program() -> None:
    (script,) = entry_points(group="console_scripts", name="attncli")
    assert script.value == "attncli.cli.main:run"
    done = shell("attncli --version")
    assert re.fullmatch(r"attncli \d+\.\d+\.\d+\S*\n", done.stdout)


def test_a_file_reached_through_a_link_or_a_pipe_is_written(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    done = shell(
        f"cd {tmp_path}; mkfifo pipe.json; timeout 60 cat pipe.json > copy & "
        "attncli show 'a b' -q -o link.json -o pipe.json; code=$?; wait; exit $code"
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "link.json").is_symlink()
    assert (
        json.loads((tmp_path / "real.json").read_text())["attention"]
        == json.loads((tmp_path / "copy").read_text())["attention"]
    )
