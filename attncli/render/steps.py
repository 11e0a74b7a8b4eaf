"""A computation told step by step, for people: each with its formula, its shape, and its numbers."""

from __future__ import annotations

from dataclasses import replace

from attncli.registry import Entry
from attncli.render import Options
from attncli.render.grid_text import words
from attncli.render.mermaid import require_steps
from attncli.render.table import draw_rows, note_lines, text_lines, title_lines
from attncli.view import Step, View

ENTRY = Entry(
    name="steps",
    summary="Step by step, with numbers, for a terminal or a text file",
    attributes={"suffixes": (".txt",), "views": ("Steps",), "binary": False, "notes": True},
)

_INDENT = 3


def render(view: View, options: Options) -> bytes:
    """Write all steps as text, no line wider than asked for."""
    steps = require_steps(view, "steps")
    inner = replace(options, width=max(20, (options.width or 80) - _INDENT))
    told = "\n".join(_step(count, step, inner) for count, step in enumerate(steps.steps, 1))
    text = title_lines(steps.header, options) + told + note_lines(steps.header, options)
    return text.encode("utf-8" if options.unicode else "ascii", "backslashreplace")


def _step(count: int, step: Step, options: Options) -> str:
    heading = words(f"{count}. {step.name}", options)
    if options.color != "none":
        heading = f"\x1b[1m{heading}\x1b[0m"
    shape = f"   → {step.shape}" if step.shape else ""
    formula = text_lines(words(f"{step.formula}{shape}", options), options)
    about = "".join(text_lines(words(line, options), options) for line in step.about)
    tables = [draw_rows(table, options) for table in step.tables]
    return f"{heading}\n" + _indented(formula + about + "".join(f"\n{table}" for table in tables))


def _indented(text: str) -> str:
    return "".join(f"{' ' * _INDENT}{line}\n" if line else "\n" for line in text.splitlines())
