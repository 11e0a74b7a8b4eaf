"""How help is laid out: options in their groups, in one column, and headings in bold where that can be seen."""

from __future__ import annotations

import re
import sys
from typing import Any

from typer.core import TyperCommand, TyperGroup

from attncli.terminal import abilities

_WIDEST_NAME = 30
"""Longer names have their meaning on the next line; as in Typer."""

_HEADING = re.compile(r"^(?:Usage:| {0,2}[A-Z].*:$)", re.MULTILINE)


class Command(TyperCommand):
    """A command whose help has its options in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then each group of options."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                argument = parameter.param_type_name == "argument"
                group = "Arguments" if argument else getattr(parameter, "rich_help_panel", None) or "Options"
                name, meaning = record
                groups.setdefault(group, []).append((name.removesuffix(" <str>"), meaning))
        width = min(_WIDEST_NAME, max(len(name) for records in groups.values() for name, _ in records))
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(width), meaning) for name, meaning in records])

    def get_help(self, ctx: Any) -> str:
        """Return the help."""
        return _with_bold_headings(super().get_help(ctx))


class Group(TyperGroup):
    """All commands."""

    def get_help(self, ctx: Any) -> str:
        """Return the help."""
        return _with_bold_headings(super().get_help(ctx))


def _with_bold_headings(text: str) -> str:
    if abilities(sys.stdout).color == "none":
        return text
    return _HEADING.sub(lambda found: f"\033[1m{found[0]}\033[0m", text)
