"""CSV after RFC 4180, in the long form."""

from __future__ import annotations

from attncli.registry import Entry
from attncli.render import Options
from attncli.render.long_form import separated
from attncli.view import View

ENTRY = Entry(
    name="csv",
    summary="Comma-separated values, one line for each weight",
    reference="RFC 4180",
    attributes={
        "suffixes": (".csv",),
        "views": ("MatrixGrid", "Table", "Curves", "HeadRanking", "Steps"),
        "binary": False,
        "bytes_per_weight": 60,
    },
)


def render(view: View, options: Options) -> bytes:
    """Write a view as CSV with a heading line; controls in a text are made visible."""
    return separated(view, options, ",", "\r\n")
