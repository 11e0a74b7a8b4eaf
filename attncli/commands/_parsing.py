"""Reads plain command lines by a command's own declarations, so that Typer need not build its validators.

Typer makes a Pydantic adapter for each option, which takes longer than drawing a saved run. Whatever is not plain (a
mistake, --help, options run together) is left to Typer, which has the words for it.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin

from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

_WHOLE, _NUMBER = re.compile(r"\d{1,15}"), re.compile(r"\d{1,15}(\.\d{1,15})?")


@dataclass(frozen=True, slots=True)
class _Parameter:
    """One option or argument.

    Args:
        kind: ``str``, ``int``, ``float`` or ``bool``.
        many: Whether it may be given again, each time with one more value.
        count: Whether it is counted how often it is given.
    """

    name: str
    kind: type
    many: bool
    count: bool
    low: float | None = None
    high: float | None = None

    def value(self, text: str) -> Any:
        """Give what a text stands for; None where Typer must decide."""
        if self.kind is str:
            return text
        if not (_WHOLE if self.kind is int else _NUMBER).fullmatch(text):
            return None
        number = self.kind(text)
        fits = (self.low is None or number >= self.low) and (self.high is None or number <= self.high)
        return number if fits else None


def plain_values(command: Callable[..., None], arguments: Sequence[str]) -> dict[str, Any] | None:
    """Give a command's parameters by name, or None where the command line is not plain.

    Args:
        command: As `spread` made it.
        arguments: Without the command's name.
    """
    declared = _declared(command)
    if declared is None:
        return None
    values, options, positional = declared
    found: dict[str, Any] = {}
    rest = list(arguments)
    texts: list[str] = []
    while rest:
        word = rest.pop(0)
        if word == "--":
            texts += rest
            break
        if not word.startswith("-") or word == "-":
            texts.append(word)
        elif not _take(word, rest, options, found):
            return None
    if len(texts) > len(positional):
        return None
    found |= dict(zip(positional, texts, strict=False))
    values |= found
    return None if inspect.Parameter.empty in values.values() else values


def _take(
    word: str, rest: list[str], options: Mapping[str, tuple[_Parameter, bool]], found: dict[str, Any]
) -> bool:
    """Take an option, and its value from the words that follow; say whether that was plain."""
    name, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
    if name not in options and re.fullmatch(r"-(\w)\1+", name) and options.get(name[:2]):
        times, name = len(name) - 1, name[:2]
    else:
        times = 1
    if name not in options:
        return False
    parameter, on = options[name]
    if parameter.count or parameter.kind is bool:
        found[parameter.name] = found.get(parameter.name, 0) + times if parameter.count else on
        return not equals and (times == 1 or parameter.count)
    if times > 1 or (not equals and not rest):
        return False
    value = parameter.value(text if equals else rest.pop(0))
    if parameter.many:
        found.setdefault(parameter.name, []).append(value)
    else:
        found[parameter.name] = value
    return value is not None


def _declared(
    command: Callable[..., None],
) -> tuple[dict[str, Any], dict[str, tuple[_Parameter, bool]], list[str]] | None:
    """Give a command's defaults, its options by each of their names, and its arguments in order.

    Returns:
        None where something is declared that only Typer knows what to do with.
    """
    values: dict[str, Any] = {}
    options: dict[str, tuple[_Parameter, bool]] = {}
    positional = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind, info = (*get_args(parameter.annotation), None, None)[:2]
        inner, many = _plain_kind(kind)
        if (
            inner is None
            or not isinstance(info, ParameterInfo)
            or info.parser
            or info.callback
            or info.envvar
            or getattr(info, "prompt", False)
        ):
            return None
        values[name] = parameter.default
        if isinstance(info, ArgumentInfo):
            if inner is not str or many:
                return None
            positional.append(name)
            continue
        assert isinstance(info, OptionInfo)
        made = _Parameter(name, inner, many, bool(info.count), info.min, info.max)
        spellings = _spellings(info)
        if inner is bool and not spellings:
            return None  # Typer adds a --no- form
        for spelled in spellings or (f"--{name.replace('_', '-')}",):
            yes, _, no = spelled.partition("/")
            options[yes] = made, True
            if no:
                options[no] = made, False
    return values, options, positional


def _spellings(info: OptionInfo) -> tuple[str, ...]:
    """Give an option's names as declared; the first of them stands where Typer without Annotated has the default."""
    first = (info.default,) if isinstance(info.default, str) and info.default.startswith("-") else ()
    return (*first, *(info.param_decls or ()))


def _plain_kind(kind: Any) -> tuple[type | None, bool]:
    """Give the type behind ``X | None`` and ``list[X]``, and whether it is a list; None where it is another."""
    if get_origin(kind) in (Union, types.UnionType):
        parts = [part for part in get_args(kind) if part is not type(None)]
        if len(parts) != 1:
            return None, False
        kind = parts[0]
    many = get_origin(kind) is list
    inner = get_args(kind)[0] if many else kind
    return (inner if inner in (str, int, float, bool) else None), many
