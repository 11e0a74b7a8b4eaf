"""The options of pictures: PNG, SVG and PDF files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, cast

import typer

from attncli.cli.choices import FILES, Choices
from attncli.errors import UsageError
from attncli.labels import as_utf8
from attncli.render.look import LEAST_FONT, STYLES, Form, Look, size_of, style_of

FORMS = ("linear", "sqrt")


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """How a picture looks; what is given here comes before what a style says."""

    panel: ClassVar[str] = "Picture (.png, .svg, .pdf)"

    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help='Title of the picture; "" for none.')
    ] = None
    no_notes: Annotated[bool, typer.Option("--no-notes", help="No notes below the picture.")] = False
    no_numbers: Annotated[bool, typer.Option("--no-numbers", help="No numbers in the cells.")] = False
    columns: Annotated[
        int | None, typer.Option("--columns", metavar="N", min=1, help="Put N panels side by side.")
    ] = None
    size: Annotated[
        str | None,
        typer.Option("--size", metavar="WxH", help="Size of the picture: 8.4cm (its width), 8.4x6cm, 4x3in."),
    ] = None
    font_size: Annotated[
        float | None,
        typer.Option(
            "--font-size", metavar="PT", min=LEAST_FONT, help="Size of the letters in points; 8 by default."
        ),
    ] = None
    scale: Annotated[
        str | None,
        typer.Option(
            "--scale", metavar="FORM", help="Scale of the colours: linear or sqrt; sqrt for weights."
        ),
        Choices(FORMS),
    ] = None
    vmax: Annotated[
        float | None, typer.Option("--vmax", metavar="X", help="The number at the upper end of the scale.")
    ] = None
    running_text: Annotated[
        bool,
        typer.Option(
            "--running-text",
            help="The keys as a text, each token on the colour of its weight: one for each query. In terminals too.",
        ),
    ] = False
    style: Annotated[
        str | None,
        typer.Option(
            "--style", metavar="NAME", help=f"{', '.join(STYLES)}, or a .toml file with these settings."
        ),
        Choices(tuple(STYLES), paths=FILES),
    ] = None
    dpi: Annotated[
        int | None,
        typer.Option(metavar="N", min=20, max=1200, help="Dots per inch of PNG files; 150 by default."),
    ] = None

    def look(self) -> Look:
        """Return the style that was named, with what was given besides.

        Raises:
            UsageError: There is no such style, size or form.
            ReadError: A style's file cannot be read.
        """
        if self.scale is not None and self.scale not in FORMS:
            raise UsageError(f"--scale {self.scale}: no such form", "choose linear or sqrt")
        if self.vmax is not None and not 0 < self.vmax < float("inf"):
            raise UsageError(f"--vmax {self.vmax:g}: must be above 0")
        look = Look() if self.style is None else style_of(self.style)
        return replace(
            look,
            title=look.title if self.title is None else as_utf8(self.title),
            notes=look.notes and not self.no_notes,
            numbers=look.numbers and not self.no_numbers,
            columns=self.columns or look.columns,
            size=look.size if self.size is None else size_of(self.size),
            font_size=self.font_size or look.font_size,
            scale=look.scale if self.scale is None else cast(Form, self.scale),
            vmax=self.vmax or look.vmax,
            running_text=look.running_text or self.running_text,
            dpi=self.dpi or look.dpi,
        )


NO_WISHES = PictureOptions()
