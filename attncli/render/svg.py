"""SVG pictures, drawn by Matplotlib."""

from __future__ import annotations

from attncli.registry import Entry
from attncli.render import Options
from attncli.view import View

ENTRY = Entry(
    name="svg",
    summary="SVG picture, its labels as text",
    attributes={
        "suffixes": (".svg",),
        "views": ("MatrixGrid", "Curves", "HeadRanking", "Steps", "Table"),
        "binary": False,
        "draws": True,
    },
)


def render(view: View, options: Options) -> bytes:
    """Draw a view as a SVG file, the same bytes each time."""
    from attncli.render.picture.figure import save

    return save(view, options, "svg")
