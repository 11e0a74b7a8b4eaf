"""A command line that is read without Typer is read as Typer reads it, and whatever is not plain is left to Typer."""

import shlex
from typing import Any

import pytest
import typer
from commandline import Cli
from hypothesis import given
from hypothesis import strategies as st

from attncli.cli import _function, _module, command_names
from attncli.commands._parsing import _declared, plain_values

NAMES = command_names()
WORDS = [
    "a b",
    "",
    "-",
    "--",
    "3",
    "-3",
    "0",
    "1.5",
    "9999999",
    "x.npz",
    "--json",
    "-f",
    "-qq",
    "-q",
    "table",
    "--no-causal",
]


def by_typer(name: str, arguments: list[str]) -> dict[str, Any] | None:
    """Give what Typer reads; None where it refuses."""
    found: dict[str, Any] = {}
    function = _function(name)

    def record(**values: Any) -> None:
        found.update(values)

    record.__signature__, record.__annotations__ = function.__signature__, function.__annotations__
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(record)
    try:
        typer.main.get_command(app).main(args=arguments, standalone_mode=False)
    except typer.TyperException:
        return None
    return found


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Compare; an option that may be given again and was not is None here and there may be an empty list."""
    return {k: v or None for k, v in ours.items()} == {k: v or None for k, v in theirs.items()} and all(
        type(v) is type(theirs[k]) for k, v in ours.items() if v
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_plain_and_read_alike(name: str) -> None:
    for example in _module(name).EXAMPLES:
        line = example.partition("| ")[2] if "| attncli" in example else example
        arguments = shlex.split(line)[2:]
        ours = plain_values(_function(name), arguments)
        assert ours is not None and same(ours, by_typer(name, arguments) or {}), example


@given(st.data())
def test_any_line_is_read_as_typer_reads_it_or_left_to_it(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["show", "render", "mask", "bench"]))
    declared = _declared(_function(name))
    assert declared is not None
    words = st.sampled_from([*declared[1], *WORDS])
    arguments = data.draw(st.lists(words | words.map(lambda word: f"{word}=4"), max_size=6))
    ours = plain_values(_function(name), arguments)
    if ours is not None:
        theirs = by_typer(name, arguments)
        assert theirs is not None and same(ours, theirs), arguments


def test_mistakes_help_and_numbers_out_of_range_are_left_to_typer(cli: Cli) -> None:
    show = _function("show")
    for arguments in (
        ["--help"], ["x", "--tpo", "3"], ["x", "--top", "0"], ["x", "--top", "three"], ["x", "--top"], ["x", "y"],
        ["x", "-ftable"], ["x", "--json=yes"], ["x", "--dpi", "5000"],
    ):  # fmt: skip
        assert plain_values(show, arguments) is None, arguments
    assert plain_values(_function("render"), []) is None  # FILE is missing
    assert "must be at least 1" in cli("show", "x", "--top", "0").err
    assert 'did you mean "--top"' in cli("show", "x", "--tpo", "3").err


def test_short_options_may_be_doubled_and_values_may_start_with_a_dash() -> None:
    found = plain_values(
        _function("show"), ["x", "-qq", "-q", "--query", "-1", "--layer=-1", "--set", "a=1", "--set", "b=2"]
    )
    assert found is not None and (found["quiet"], found["query"], found["layer"]) == (3, "-1", "-1")
    assert found["set"] == ["a=1", "b=2"] and found["text"] == "x"


def test_drawing_a_saved_run_builds_no_validators(cli: Cli, tmp_path) -> None:
    import subprocess
    import sys

    path = str(tmp_path / "run.npz")
    cli("show", "a b", "-q", "-o", path)
    script = f"""
import sys
from attncli.cli import main
assert main(["render", {path!r}, "-q", "--query", "0"]) == 0
found = {{"pydantic", "importlib.metadata", "matplotlib", "pygments", "markdown_it"}} & set(sys.modules)
assert not found, found
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
