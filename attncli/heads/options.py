"""Which heads, over which texts: the options of ``heads``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from attncli.cli.choices import Choices, entries_of
from attncli.cli.options import BatchSize, FieldName, KindName, Numbers, PairFieldName, PairText, SkipErrors
from attncli.cli.rules import Rule


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """Which heads to show, in which order."""

    by: Annotated[
        str | None,
        typer.Option(metavar="METRIC", help="Rank by this (attncli list metrics), or by role, the default."),
        Choices(entries_of("metrics", role="How far the strongest role is above its baseline")),
    ] = None
    ascending: Annotated[bool, typer.Option("--ascending", help="The smallest first.")] = False
    top: Annotated[int | None, typer.Option(metavar="N", min=1, help="Show only the first N heads.")] = None
    groups: Annotated[
        bool, typer.Option("--groups", help="Show which heads do the same; JSON always has it.")
    ] = False
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help='Show only some heads: "previous_token > 0.4 and layer < 6".'),
    ] = None
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=X",
            help="How far above its baseline a head must be to get a name: 0.4. Repeatable.",
        ),
    ] = None
    layer: Numbers = "all"
    head: Numbers = "all"
    kind: KindName = None
    fail_if: Annotated[
        str | None,
        typer.Option(
            "--fail-if",
            metavar="CONDITION",
            help='Exit with 3 if any head fulfils it: "first_token > 0.9 and layer > 2".',
        ),
    ] = None
    fail_over: Annotated[
        float | None,
        typer.Option(metavar="X", min=0.0, help="Exit with 3 if the number of --by is over X for any head."),
    ] = None
    compare_to: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="JSON of an older run: which heads changed (--by change, z, p)."),
    ] = None


@dataclass(frozen=True, slots=True)
class CorpusOptions:
    """What is read, and how."""

    panel: ClassVar[str] = "Corpus"
    rules: ClassVar = (
        Rule("--field --pair-field", excludes="TEXT", hint="they are for a corpus of JSON lines: use --file"),
        Rule("--pair", needs="TEXT", hint="--pair-field names a field of a corpus"),
    )

    field: FieldName = None
    pair: PairText = None
    pair_field: PairFieldName = None
    skip_errors: SkipErrors = False
    batch_size: BatchSize = 32
    min_row: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="First position that counts as a row; 2 for decoders, else 0."),
    ] = None
    exclude_special: Annotated[
        bool, typer.Option("--exclude-special", help="Leave special tokens out as keys, and scale the rest.")
    ] = False
    null_texts: Annotated[
        int, typer.Option(metavar="N", min=0, help="Number of texts to shuffle for the baseline.")
    ] = 64
    resume: Annotated[
        str | None, typer.Option(metavar="FILE", help="Continue an interrupted run from its JSON.")
    ] = None
    rank_timeout: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, help="With torchrun: how long to wait for other ranks.")
    ] = 600


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """Random tokens in place of texts."""

    panel: ClassVar[str] = "Probe (with --model, without a text)"
    rules: ClassVar = (
        Rule("--probe --ids", excludes="TEXT - --file", hint="a probe makes its own texts"),
        Rule(
            "--probe --ids", excludes="--min-row --resume --exclude-special", hint="a probe has its own rows"
        ),
    )

    probe: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="induction: random tokens, repeated once."),
        Choices(("induction",)),
    ] = None
    probe_length: Annotated[int, typer.Option(metavar="N", min=2, help="Tokens before the repetition.")] = 48
    probe_texts: Annotated[int, typer.Option(metavar="N", min=1, help="Number of sequences.")] = 8
    ids: Annotated[
        str | None, typer.Option(metavar="FILE", help="Use these token ids: [[11, 12, …], …] in JSON.")
    ] = None
