"""Which words, and among which heads: the options of ``find``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from attncli.cli.choices import FILES, LABELLED_SETS, Choices
from attncli.record import KINDS


@dataclass(frozen=True, slots=True)
class WordOptions:
    """Which word attends to which."""

    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="WORD", help="The word that attends: it, or it:2 for its second place."
        ),
    ] = None
    to: Annotated[str | None, typer.Option("--to", metavar="WORD", help="The word it attends to.")] = None
    examples: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Labelled pairs: coreference, verb-object, or JSON lines of text, from, to (character spans).",
        ),
        Choices(LABELLED_SETS, FILES),
    ] = None
    alignments: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Gold word alignments: lines text ||| translation ||| 0-0 1-2 (1?2: possible).",
        ),
    ] = None
    threshold: Annotated[
        float, typer.Option(metavar="W", min=0, max=1, help="With --alignments: least weight that links.")
    ] = 0.0
    reverse: Annotated[
        bool, typer.Option("--reverse", help="With --examples: swap from and to (verb to object).")
    ] = False
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="With --examples: seed of the split into two halves.")
    ] = 0


@dataclass(frozen=True, slots=True)
class FindOptions:
    """Among which heads."""

    panel: ClassVar[str] = "Heads"

    pair: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Second sentence, or the target text of an encoder–decoder."),
    ] = None
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="encoder, decoder or cross, where a model has several."),
        Choices(KINDS),
    ] = None
    layer: Annotated[str, typer.Option(metavar="N", help="0-based: 3, 0,2,5-7, -1 (last) or all.")] = "all"
    head: Annotated[str, typer.Option(metavar="N", help="0-based: 3, 0,2,5-7, -1 (last) or all.")] = "all"
    top: Annotated[
        int | None,
        typer.Option(metavar="K", min=1, help="Only the K first heads; 10 by default in tables for people."),
    ] = None
