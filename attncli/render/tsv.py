"""Tab-separated values, in the long form, quoted as CSV is."""

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
        "bytes_per_weight": 60,
    },
)


def render(view: View, options: Options) -> bytes:
    """Write a view as TSV with a heading line; controls in a text are made visible."""
    return separated(view, options, "\t", "\n")
