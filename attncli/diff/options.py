"""What is compared with what: the options of ``diff``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from attncli.cli.choices import FILES, FOLDERS, MODELS, Choices
from attncli.cli.options import KindName, Numbers, PairText
from attncli.cli.rules import Rule

METRICS = ("distance", "divergence", "max_abs")


@dataclass(frozen=True, slots=True)
class SideOptions:
    """The two runs."""

    rules: ClassVar = (
        Rule("--file", excludes="A", hint="give one of them"),
        Rule("--field", needs="--file"),
        Rule("--file", excludes="--maps --pair", hint="they are for one text"),
        Rule("--other-model --adapter", needs="@pretrained", hint="--model names one"),
    )

    first: Annotated[
        str | None,
        typer.Argument(metavar="A", help="A text, or a saved run (.npz, .json).", show_default=False),
        Choices(paths=FILES),
    ] = None
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="B", help="The other text or run; not where models differ.", show_default=False
        ),
        Choices(paths=FILES),
    ] = None
    file: Annotated[
        str | None, typer.Option("--file", metavar="FILE", help="Compare over a corpus of one text a line.")
    ] = None
    field: Annotated[
        str | None, typer.Option(metavar="NAME", help="Lines are JSON objects; this field is the text.")
    ] = None
    pair: PairText = None
    other_model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The second side's model."),
        Choices(MODELS, FOLDERS),
    ] = None
    adapter: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="on,off or off,on: with and without the model's adapter."),
        Choices(("on,off", "off,on")),
    ] = None


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """Which heads, and how they are compared."""

    panel: ClassVar[str] = "Heads"

    kind: KindName = None
    layer: Numbers = "all"
    head: Numbers = "all"
    by: Annotated[
        str,
        typer.Option(metavar="METRIC", help="Rank by distance, divergence or max_abs."),
        Choices(METRICS),
    ] = "distance"
    top: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Only the N first heads; 10 by default in tables for people."),
    ] = None
    maps: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Show the maps of the N first heads: A, B and B − A."),
    ] = None
    words: Annotated[
        bool, typer.Option("--words", help="Compare words, not tokens, as for two tokenizers.")
    ] = False
    by_depth: Annotated[
        bool,
        typer.Option(
            "--by-depth",
            help="Compare models of different sizes: the closest head at the same relative depth.",
        ),
    ] = False
    null_texts: Annotated[
        int, typer.Option(metavar="N", min=0, help="Number of texts to pair at random for the baseline.")
    ] = 64
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of that pairing.")] = 0
    fail_over: Annotated[
        float | None,
        typer.Option(metavar="X", min=0.0, help="Exit with 3 if any head differs by more than X."),
    ] = None
