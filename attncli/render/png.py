"""PNG pictures, drawn by Matplotlib."""

from __future__ import annotations

from attncli.registry import Entry
from attncli.render import Options
from attncli.view import View

ENTRY = Entry(
    name="png",
    summary="PNG picture",
    attributes={
        "suffixes": (".png",),
        "views": ("MatrixGrid", "Curves", "HeadRanking", "Steps", "Table"),
        "binary": True,
        "draws": True,
    },
)


def render(view: View, options: Options) -> bytes:
    """Draw a view as a PNG file, the same bytes each time."""
    from attncli.render.picture.figure import save

    return save(view, options, "png")
