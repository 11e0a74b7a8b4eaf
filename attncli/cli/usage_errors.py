"""Slips of the command line, each with what was probably meant."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from attncli.errors import UsageError, did_you_mean
from attncli.labels import quoted_for_shell


def unknown_command(arguments: Sequence[str], names: Sequence[str]) -> UsageError:
    """Return the error for a first word that is no command: a slip of the hand, or a text.

    Args:
        names: The commands.
    """
    first, close = arguments[0], did_you_mean(arguments[0], names)
    words = list(takewhile(lambda word: not word.startswith("-"), arguments))
    if len(" ".join(words).split()) > 1 and not (close or "").startswith("did you mean"):
        return UsageError(f"no command {first!r}", _quotes_hint("show", words))
    return UsageError(f"no command {first!r}", close or "try: attncli --help")


def usage_error(error: Any, command: str, arguments: Sequence[str]) -> UsageError:
    """Return a usage error of Typer's in our words.

    Args:
        command: Its name; empty where none was found.
    """
    option, parameter = getattr(error, "option_name", None), getattr(error, "param", None)
    hint = None
    if option and hasattr(error, "possibilities"):
        message = f"no such option: {option}"
        hint = _similar_option(error, option, arguments) or _dash_hint(error, option, command)
    elif parameter is not None and "Input should be" in error.format_message():
        message = f"{max(parameter.opts, key=len)}: {_plain(error.format_message())}"
    elif "unexpected extra argument" in error.format_message() and _takes_text(error):
        given = [error.ctx.params.get("name"), error.ctx.params["text"]]
        typed = [word for word in arguments[1:] if not word.startswith("-")]
        text = typed[typed.index(given[1]) :] if given[1] in typed else typed
        message = f"{command} takes one text, and several words came"
        before = [given[0]] if given[0] else []
        hint = _quotes_hint(" ".join([command, *before]), text)
    else:
        message = error.format_message().strip().rstrip(".")
        message = message[:1].lower() + message[1:]
    return UsageError(message, hint or f"try: attncli {command} --help".replace("  ", " "))


def _quotes_hint(command: str, words: Sequence[str]) -> str:
    return f"put the text in quotes: attncli {command} {quoted_for_shell(' '.join(words))}"


def _similar_option(error: Any, name: str, arguments: Sequence[str]) -> str | None:
    command = error.ctx.command if error.ctx else None
    options = [option for parameter in command.params for option in parameter.opts] if command else []
    long = [option for option in options if option.startswith("--")]
    if not name.startswith("--"):  # an option's first letter, if it stands alone: "-x is less" is a text
        alone = any(word == name or word[2:].isdigit() for word in arguments if word.startswith(name))
        meant = next((option for option in long if option[2] == name[1]), None)
        return f"did you mean {meant}?" if alone and meant else None
    close = did_you_mean(name.lstrip("-"), [option[2:] for option in long])
    return close.replace('"', '"--', 1) if close and close.startswith("did you mean") else None


def _dash_hint(error: Any, option: str, command: str) -> str | None:
    """Return how a text that begins with a dash is given, where it was taken for an option."""
    if option.startswith("--") or not _takes_text(error):
        return None
    return f'put -- before a text that begins with a dash: attncli {command} -- "{option} …"'


def _takes_text(error: Any) -> bool:
    parameters = error.ctx.command.params if error.ctx else []
    return any(parameter.name == "text" for parameter in parameters)


def _plain(message: str) -> str:
    """Return what a value must be, without the validator's words around it.

    >>> _plain("Invalid value for '-n': Input should be a valid integer, unable to parse string as an integer")
    'must be a whole number'
    >>> _plain("Invalid value for '-n': Input should be greater than or equal to 1")
    'must be at least 1'
    """
    wanted = message.partition("Input should be ")[2].partition(",")[0]
    for theirs, ours in {
        "a valid integer": "a whole number",
        "a valid number": "a number",
        "greater than or equal to": "at least",
        "less than or equal to": "at most",
    }.items():
        wanted = wanted.replace(theirs, ours)
    return f"must be {wanted}"
