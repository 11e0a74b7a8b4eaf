r"""Tab-separated values, in the long form; tab, newline and backslash are written ``\t``, ``\n``, ``\\``."""

from __future__ import annotations

from attncli.registry import Entry
from attncli.render import Options
from attncli.render.long_form import separated
from attncli.view import View

ENTRY = Entry(
    name="tsv",
    summary="Tab-separated values, one line for each weight",
    attributes={
        "suffixes": (".tsv",),
        "views": ("MatrixGrid", "Table", "Curves", "HeadRanking", "Steps"),
        "binary": False,
    },
)

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def render(view: View, options: Options) -> bytes:
    """Write a view as TSV with a heading line; tokens are raw text."""
    return separated(view, options, "\t", "\n", _escape)


def _escape(text: str) -> str:
    return text.translate(_ESCAPES)
