"""Views to bytes: one file a format. No renderer prints or opens a file.

A format's file has an `ENTRY` whose attributes are

    suffixes   endings of ``-o`` that pick it, ``(".svg",)``; empty for a format of the terminal only
    views      names of the views it can render, ``("MatrixGrid", "Table")``
    binary     whether it may go to a terminal (False) or must not (True)
    draws      whether it draws matrices, and pools those that are too large; otherwise absent
    notes      whether it shows a view's notes to a person, who then needs them nowhere else; otherwise absent
    bytes_per_weight  what a weight takes at most while it is written, besides itself; absent where it is not written.
               A text with it lists no more than the strongest keys of each row where a view has a ``top``

and a function ``render(view, options) -> bytes``. Text is UTF-8 and ends with a newline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from attncli import registry
from attncli.render.look import PLAIN, Look
from attncli.view import View

ColorMode = Literal["none", "16", "256", "truecolor"]


@dataclass(frozen=True, slots=True)
class Options:
    """How to render, apart from what.

    Args:
        width: Cells that a line may have; None for no limit (a piped table).
        color: What the terminal can show; ``none`` means that no escape byte may come out.
        unicode: Whether blocks and arrows may be used; otherwise ASCII only.
        terminal: Whether a person reads this on a terminal: aligned tables there, tabs in a pipe.
        colormap: One of `terminal.colors.COLORMAPS`.
        raw_tokens: Show the vocabulary's own forms (Ġthe, ##ed) instead of decoded text.
        csv_safe: Prefix cells that a spreadsheet would take for a formula.
        dpi: Dots per inch of raster pictures.
        look: How a picture looks besides.
        fields: Which fields of the long form to write, in this order; all where empty.
        height: Lines of the terminal; None where there is none.
    """

    width: int | None = 80
    color: ColorMode = "none"
    unicode: bool = True
    terminal: bool = False
    colormap: str = "viridis"
    raw_tokens: bool = False
    csv_safe: bool = False
    dpi: int = 150
    look: Look = PLAIN
    fields: tuple[str, ...] = ()
    height: int | None = None

    @property
    def cut_mark(self) -> str:
        """What a label that had to be cut ends in."""
        return "…" if self.unicode else "~"


def formats_with(attribute: str) -> frozenset[str]:
    """Name the formats whose entry has an attribute: ``draws``, ``notes``."""
    known = registry.entries("formats").items()
    return frozenset(name for name, entry in known if entry.attributes.get(attribute))


def listing_formats() -> frozenset[str]:
    """Name the texts that list no more than the strongest keys of each row where a view has a ``top``."""
    return formats_with("bytes_per_weight") - formats_with("binary")


class Format(Protocol):
    """What a format's module offers."""

    def render(self, view: View, options: Options) -> bytes:
        """Turn a view into bytes."""
