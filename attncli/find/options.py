"""Which words, and among which heads: the options of ``find``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from attncli.cli.choices import FILES, LABELLED_SETS, Choices
from attncli.cli.options import KindName, Numbers, PairText
from attncli.cli.rules import Rule


@dataclass(frozen=True, slots=True)
class WordOptions:
    """Which word attends to which."""

    rules: ClassVar = (
        Rule(
            "--examples", excludes="TEXT - --file --from --to --pair", hint="--examples has texts and words"
        ),
        Rule("--reverse", needs="--examples", hint="swap --from and --to"),
        Rule(
            "--alignments",
            excludes="TEXT - --file --from --to --pair --examples",
            hint="--alignments has texts and words",
        ),
        Rule("--threshold", needs="--alignments", hint="leave it out"),
    )

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

    pair: PairText = None
    kind: KindName = None
    layer: Numbers = "all"
    head: Numbers = "all"
    top: Annotated[
        int | None,
        typer.Option(metavar="K", min=1, help="Only the first K heads; 10 by default in readable tables."),
    ] = None
