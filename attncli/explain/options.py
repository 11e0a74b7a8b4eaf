"""Which row of which head, or which topic: the options of ``explain``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from attncli.cli.options import KindName, OneNumber, PairText


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """Which row is explained, and how much of it is listed."""

    query: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="The row: it, it:2, or a position; the last word by default."),
    ] = None
    layer: OneNumber = None
    head: OneNumber = None
    kind: KindName = None
    pair: PairText = None
    top: Annotated[
        int | None,
        typer.Option(
            metavar="K", min=1, help="List only the K strongest keys; 8 by default in readable formats."
        ),
    ] = None
    dims: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Show the first N numbers of a vector.")
    ] = 6
    diagram: Annotated[
        bool, typer.Option("--diagram", help="Draw the data flow; -f mermaid writes it in Mermaid.")
    ] = False
