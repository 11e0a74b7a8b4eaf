"""Which heads, over which texts: the options of ``heads``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from attncli.cli.choices import Choices, entries_of
from attncli.record import KINDS


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """Which heads to show, in which order."""

    by: Annotated[
        str | None,
        typer.Option(metavar="METRIC", help="Rank by this (attncli list metrics), or by role, the default."),
        Choices(entries_of("metrics", role="How far the strongest role is above its baseline")),
    ] = None
    ascending: Annotated[bool, typer.Option("--ascending", help="The smallest first.")] = False
    top: Annotated[int | None, typer.Option(metavar="N", min=1, help="Give only the first N heads.")] = None
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help='Only some: "previous_token > 0.4 and layer < 6".'),
    ] = None
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=X", help="How far above its baseline a head is named: 0.4. May be given again."
        ),
    ] = None
    layer: Annotated[str, typer.Option(metavar="N", help="0-based: 3, 0,2,5-7, -1 (last) or all.")] = "all"
    head: Annotated[str, typer.Option(metavar="N", help="0-based: 3, 0,2,5-7, -1 (last) or all.")] = "all"
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="encoder, decoder or cross, where a model has several."),
        Choices(KINDS),
    ] = None
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
        typer.Option(
            metavar="FILE", help="JSON of an older run: which heads changed (--by change, z, p)."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class CorpusOptions:
    """What is read, and how."""

    panel: ClassVar[str] = "Corpus"

    field: Annotated[
        str | None, typer.Option(metavar="NAME", help="Lines are JSON objects; this field is the text.")
    ] = None
    pair: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Second sentence, or target text, of the one text.")
    ] = None
    pair_field: Annotated[
        str | None, typer.Option(metavar="NAME", help="The field with the second sentence or target text.")
    ] = None
    skip_errors: Annotated[
        bool, typer.Option("--skip-errors", help="Lines that cannot be used do not make the exit code 1.")
    ] = False
    batch_size: Annotated[int, typer.Option(metavar="N", min=1, help="Texts at once.")] = 32
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
        str | None, typer.Option(metavar="FILE", help="Go on from the JSON of an interrupted run.")
    ] = None
    rank_timeout: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, help="With torchrun: wait so long for other ranks.")
    ] = 600


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """Random tokens in place of texts."""

    panel: ClassVar[str] = "Probe (with --model, without a text)"

    probe: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="induction: random tokens, repeated once."),
        Choices(("induction",)),
    ] = None
    probe_length: Annotated[int, typer.Option(metavar="N", min=2, help="Tokens before the repetition.")] = 48
    probe_texts: Annotated[int, typer.Option(metavar="N", min=1, help="Number of sequences.")] = 8
    ids: Annotated[
        str | None, typer.Option(metavar="FILE", help="Take these token ids: [[11, 12, …], …] in JSON.")
    ] = None
