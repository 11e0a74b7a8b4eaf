"""Makes a Typer command of a function that takes groups of options."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from attncli.cli.choices import completer
from attncli.cli.rules import GIVEN, check_rules
from attncli.labels import as_utf8

_TEXTS = ("TEXT", "TOKENS", "TOKEN", "WORD")
"""Metavars of options whose values are texts, and no names of files."""


def spread(function: Callable[..., None]) -> Callable[..., None]:
    """Let a command take dataclasses: their fields become its options, and come back to it as the dataclasses.

    A field is declared as Typer wants a parameter: ``layer: Annotated[str, typer.Option(help="…")] = "all"``; after
    that may stand the `Choices` that shells offer for its value.
    """
    hints = get_type_hints(function, include_extras=True)
    hints.pop("return", None)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in groups:
            parameters.extend(_parameters_of(groups[name]))
        else:
            parameters.append(parameter.replace(annotation=_declared(hints[name])))
    texts = [p.name for p in parameters if p.annotation.__metadata__[0].metavar in _TEXTS]
    rules = [rule for group in groups.values() for rule in getattr(group, "rules", ())]

    @functools.wraps(function)
    def command(context: typer.Context, **values: Any) -> None:
        values |= {name: as_utf8(values[name]) for name in texts if values[name] is not None}
        GIVEN.set(_given(context, values))
        check_rules(rules)
        arguments = {}
        for name, group in groups.items():
            arguments[name] = _filled(group, values)
        function(**values, **arguments)

    of_context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    keyword_only = [of_context, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters)]
    command.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in keyword_only}
    del command.__wrapped__
    return command


def _filled(group: Any, values: dict[str, Any]) -> Any:
    """Make a group of its options' values, and the groups in it of theirs."""
    hints = get_type_hints(group)
    return group(
        **{
            f.name: _filled(hints[f.name], values) if is_dataclass(hints[f.name]) else values.pop(f.name)
            for f in fields(group)
        }
    )


def _parameters_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    found = []
    for f in fields(group):
        if is_dataclass(hints[f.name]):
            found += _parameters_of(hints[f.name])
            continue
        default = inspect.Parameter.empty if f.default is MISSING else f.default
        annotation = _declared(hints[f.name], getattr(group, "panel", None))
        found.append(
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    return found


def _declared(annotation: Any, panel: str | None = None) -> Any:
    """Return a parameter's annotation with its panel, and with completion by the choices declared beside it."""
    shared, *choices = annotation.__metadata__
    declared = copy.copy(shared)  # several commands may have the same option
    declared.rich_help_panel = panel
    declared.autocompletion = completer(choices, declared.metavar)
    return Annotated[annotation.__origin__, declared, *choices]


def _given(context: typer.Context, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was typed and is no default, by the names that a user knows it by."""
    given = {}
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or name not in values:
            continue
        is_option = parameter.opts[0].startswith("-")
        called = max(parameter.opts, key=len) if is_option else parameter.metavar or name
        given["-" if not is_option and values[name] == "-" else called] = values[name]
    return given
