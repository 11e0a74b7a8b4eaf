"""Finds the commands, runs one, and turns what goes wrong into a line on stderr and an exit code."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from attncli.cli.usage_errors import unknown_command, usage_error
from attncli.errors import AttnCliError, ClosedPipe
from attncli.labels import as_utf8
from attncli.terminal import silence

EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 usage, 3 a check failed, 4 model not available, 5 too large, "
    "70 internal error, 130 interrupted, 141 closed pipe."
)
ABOUT = """See attention, measure it, check it: your own, from scratch, or any pretrained model's."""
EXAMPLES = (
    'attncli show "The animal didn\'t cross the street because it was too tired."',
    'attncli show "…" --model ./all-minilm-l6-v2 --layer 0-5 --head all -o heads.png',
    'attncli explain "…" --query it',
    "attncli heads --file corpus.txt --model ./all-minilm-l6-v2",
    "attncli mask causal --seq-len 8",
)


def run() -> None:
    """Run the command line and exit with its code."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: As typed, without the program's name.

    Returns:
        The exit code.
    """
    if "_ATTNCLI_COMPLETE" in os.environ:
        return _complete(os.environ.get("_TYPER_COMPLETE_ARGS", ""))
    arguments = list(arguments)
    if arguments in (["--version"], ["-V"]):
        return _print_version()
    debug = "--debug" in arguments
    try:
        return run_command(arguments)
    except ClosedPipe as closed:
        if sys.stdout is not None:
            silence(sys.stdout)
        return closed.exit_code
    except AttnCliError as error:
        if debug:
            raise
        _report(error, arguments)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if debug:
            raise
        return _report_unexpected(error)


def command_names() -> list[str]:
    """Name the commands, in alphabetical order."""
    folder = Path(__file__).parent.parent / "commands"
    # A file whose name would hide a builtin has a trailing underscore.
    return sorted(path.stem.rstrip("_") for path in folder.glob("*.py") if not path.stem.startswith("_"))


def run_command(arguments: list[str]) -> int:
    """Run one command, and let its errors through.

    Args:
        arguments: As typed, without the program's name.

    Raises:
        AttnCliError: What went wrong.
    """
    if not arguments:
        return run_command(["--help"]) or 2  # nothing was asked for, which in a script is a mistake
    if arguments[0] == "help":
        arguments = [*arguments[1:2], "--help"]
    names = command_names()
    first = arguments[0]
    if first and not first.startswith("-") and first not in names:
        raise unknown_command(arguments, names)
    from attncli.cli import options as _options

    _options.ARGV.set(tuple(map(as_utf8, arguments)))
    app = _app([first] if first in names else names)

    import typer

    try:
        result = typer.main.get_command(app).main(args=arguments, prog_name="attncli", standalone_mode=False)
    except typer.Exit as stop:
        return int(stop.exit_code)
    except typer.Abort:
        return 130
    except typer.TyperException as error:
        raise usage_error(error, first if first in names else "", arguments) from error
    except SystemExit as stop:
        # Typer's own answer to a pipe that closed while it wrote the help.
        if isinstance(stop.__context__, BrokenPipeError):
            raise ClosedPipe("stdout is closed") from stop
        raise
    return result if isinstance(result, int) else 0


def _complete(line: str) -> int:
    """Answer a shell's question for what may follow; whatever goes wrong is nothing to write at a prompt.

    Args:
        line: The command line up to the cursor.
    """
    names = command_names()
    known = [word for word in line.split(" ")[1:-1][:1] if word in names]  # the last word may go on
    with suppress(Exception, SystemExit):
        import typer

        from attncli.cli.completion import learn_shells

        learn_shells()
        command = typer.main.get_command(_app(known or names))
        command.main(args=[], prog_name="attncli", standalone_mode=False)
    return 0


def _app(names: Sequence[str]) -> Any:
    """Make a Typer program of some commands, importing no others."""
    import typer

    from attncli.cli.help import Command, Group

    app = typer.Typer(
        name="attncli",
        cls=Group,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        epilog=EPILOG,
        help=_with_examples(ABOUT, EXAMPLES),
    )

    def version(value: bool) -> None:
        if value:
            raise typer.Exit(_print_version())

    @app.callback()
    def callback(
        version: bool = typer.Option(
            False, "--version", "-V", callback=version, is_eager=True, help="Show the version."
        ),
    ) -> None:
        pass

    for name in names:
        text = help_text(name)
        short = text.partition("\n")[0]
        app.command(name, cls=Command, help=text, short_help=short, epilog=EPILOG)(_function(name))
    return app


def help_text(name: str) -> str:
    """Return a command's help: its module's docstring after the name, and its examples."""
    module = _module(name)
    return _with_examples((module.__doc__ or "").partition(": ")[2].strip(), module.EXAMPLES)


def _module(name: str) -> ModuleType:
    suffix = "_" if hasattr(builtins, name) else ""
    return import_module(f"attncli.commands.{name}{suffix}")


def _function(name: str) -> Callable[..., None]:
    module = _module(name)
    function: Callable[..., None] = getattr(module, module.__name__.rpartition(".")[2])
    return function


def _with_examples(text: str, examples: Sequence[str]) -> str:
    """Put a command's examples after its first line, one to a line and not wrapped."""
    first, _, rest = text.partition("\n")
    lines = "\n".join(f"  {example}" for example in examples)
    return f"{first}\n\n\b\nExamples:\n{lines}\n{rest}"


def _report(error: AttnCliError, arguments: Sequence[str]) -> None:
    if sum(argument in ("-qq", "--quiet-errors") for argument in arguments):
        return
    _complain(error.message, error.hint)


def _report_unexpected(error: Exception) -> int:
    from attncli.memory import is_out_of_memory

    if is_out_of_memory(error):
        _complain("out of memory", "ask for fewer layers and heads, or for some rows (--query)")
        return 5
    from attncli.versions import too_old

    if old := too_old():
        _complain(f"attncli {old}", None)
        return 1
    what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    _complain(f"internal error: {what}", "run it again with --debug and report what it prints")
    return 70


def _complain(message: str, hint: str | None) -> None:
    from attncli.cli.output import say

    say(f"error: {message}")
    if hint:
        say(hint if hint.startswith("try: ") else f"hint: {hint}")


def _print_version() -> int:
    from attncli import __version__

    print(f"attncli {__version__}")
    return 0
