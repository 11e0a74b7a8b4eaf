"""Which part of a model's attention, or of a pattern, to show: the options of ``show`` and ``mask``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from attncli.cli.choices import FILES, Choices, entries_of
from attncli.record import KINDS


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """Which part of a model's attention to show."""

    pair: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Second sentence, or the target text of an encoder–decoder."),
    ] = None
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="encoder, decoder or cross, where a model has several."),
        Choices(KINDS),
    ] = None
    layer: Annotated[
        str | None,
        typer.Option(metavar="N", help="0-based: 3, 0,2,5-7, 4-, -1 (last), all (by default) or mean."),
    ] = None
    head: Annotated[
        str | None,
        typer.Option(metavar="N", help="Likewise, or max, or by name: L2H0,L3H5, with :mean for their mean."),
    ] = None
    query: Annotated[
        str | None,
        typer.Option(metavar="TOKENS", help="Rows to show, by position or text: 3, 2-5, 4-, it, it:2."),
    ] = None
    key: Annotated[
        str | None, typer.Option(metavar="TOKENS", help="Columns to show, by position or text.")
    ] = None
    rows: Annotated[
        str | None, typer.Option(metavar="A-B", help="Rows to show by position, all columns: 100-120.")
    ] = None
    pool: Annotated[
        str | None,
        typer.Option(
            metavar="HOW", help="Pool a long text's map by max or mean; max by default where needed."
        ),
        Choices(("max", "mean")),
    ] = None
    stride: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Read a text that is too long for the model in windows that advance by N tokens.",
        ),
    ] = None
    words: Annotated[
        bool, typer.Option("--words", help="Merge word pieces: sum over keys, mean over query rows.")
    ] = False
    spans: Annotated[
        str | None,
        typer.Option(
            metavar="HOW|FILE",
            help="Sum over keys, mean over rows, of each segment, sentence or line, or of spans that a file names.",
        ),
        Choices(("segment", "sentence", "line"), FILES),
    ] = None
    threshold: Annotated[
        float, typer.Option(metavar="W", min=0, max=1, help="-f pharaoh: least weight that links two words.")
    ] = 0.0
    join: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="-f pharaoh: both directions: intersection, union or grow-diag."),
        Choices(("intersection", "union", "grow-diag")),
    ] = None
    reverse: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="--join: the pharaoh line of the model that translates back."),
    ] = None
    exclude_special: Annotated[
        bool, typer.Option("--exclude-special", help="Leave special tokens out as keys, and scale the rest.")
    ] = False
    exclude_first: Annotated[
        bool, typer.Option("--exclude-first", help="Leave the first token out as a key, and scale the rest.")
    ] = False
    top: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="List only the K strongest keys of each row.")
    ] = None

    @property
    def asks_for_rows(self) -> bool:
        """Whether only some rows are wanted."""
        return self.query is not None or self.rows is not None


@dataclass(frozen=True, slots=True)
class MaskOptions:
    """Which mask, and over how many positions."""

    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="A mask's or variant's name; with --model the text.", show_default=False
        ),
        Choices(entries_of("masks", "variants")),
    ] = None
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="A text whose tokens label the mask.", show_default=False),
    ] = None
    seq_len: Annotated[
        int | None, typer.Option("--seq-len", "-n", metavar="N", min=1, help="Number of query positions.")
    ] = None
    key_len: Annotated[
        int | None,
        typer.Option("--key-len", metavar="N", min=1, help="Number of keys, where there are more (a cache)."),
    ] = None
    causal: Annotated[
        bool | None,
        typer.Option(
            "--causal/--no-causal", help="Hide the future, or not; by default what the pattern does."
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set one of the pattern's parameters."),
    ] = None
    file: Annotated[str | None, typer.Option("--file", metavar="FILE", help="Read the text from a file.")] = (
        None
    )
    pair: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Second sentence, or target text, with --model.")
    ] = None
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="encoder, decoder or cross, with --model."),
        Choices(KINDS),
    ] = None
    layer: Annotated[str, typer.Option(metavar="N", help="Layers to look at, with --model.")] = "all"
    stride: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="With --model: read a long text in windows that advance by N tokens."
        ),
    ] = None
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="With --model: exit with 3 unless the masks are this pattern: causal, sliding-window:256@0-10.",
        ),
    ] = None
    padded: Annotated[
        bool,
        typer.Option(
            "--padded", help="With --expect: check the lines of --file as one batch, padded on either side."
        ),
    ] = False
