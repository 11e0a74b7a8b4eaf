"""Which part of a model's attention, or of a pattern, to show: the options of ``show`` and ``mask``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from attncli.cli.choices import FILES, Choices, entries_of, settings_of
from attncli.cli.options import (
    IMAGE_RULES,
    STRIDE_RULES,
    HeadsOrOne,
    Images,
    KeyTokens,
    KindName,
    Numbers,
    NumbersOrMean,
    PairText,
    QueryTokens,
    Stride,
    TextFile,
)
from attncli.cli.rules import Rule

_PADDED = "try: attncli mask -m M --file texts.txt --padded --expect causal"


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """Which part of a model's attention to show."""

    rules: ClassVar = (
        *STRIDE_RULES,
        *IMAGE_RULES,
        Rule("--query", excludes="--rows", hint="give one of them"),
        Rule("--raw", needs="--measure", hint="add --measure norm, or another"),
        Rule("--measure", excludes="--each-line --aggregate", unless="weight"),
        Rule("--raw", excludes="--exclude-special --exclude-first", hint="these scale what is left"),
        Rule(
            "--measure",
            excludes="--generate --stride",
            unless="weight value norm",
            hint="--measure contribution reads a whole text at once; --measure norm does not need to",
        ),
        Rule("--spans", excludes="--rows --query --key --words --pool", hint="--spans shows whole spans"),
        Rule("--reverse", needs="--join", hint="add --join grow-diag"),
    )

    pair: PairText = None
    kind: KindName = None
    layer: NumbersOrMean = "all"
    head: HeadsOrOne = "all"
    query: QueryTokens = None
    key: KeyTokens = None
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
    stride: Stride = None
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
    image: Images = None

    measure: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="weight: where a head looks. What it takes from there: value (‖α·v‖), norm (‖α·v·W_O‖), "
            "contribution (the whole layer's, with residual and norm).",
        ),
        Choices(("weight", "value", "norm", "contribution")),
    ] = "weight"
    raw: Annotated[
        bool,
        typer.Option("--raw", help="With --measure: lengths as they are, not as shares of their row's sum."),
    ] = False

    @property
    def asks_for_rows(self) -> bool:
        """Whether only some rows are wanted."""
        return self.query is not None or self.rows is not None


@dataclass(frozen=True, slots=True)
class MaskOptions:
    """Which mask, and over how many positions."""

    rules: ClassVar = (
        Rule(
            "--model",
            excludes="TEXT --seq-len --key-len --causal --set",
            hint="with --model, mask takes one text and no sizes or settings",
        ),
        Rule("--layer", needs="--model", unless="all", hint="for a pattern's own layer: --set layer=N"),
        Rule(
            "--kind --pair --stride --expect --padded --each-line", needs="--model", hint="--model names one"
        ),
        Rule("--padded", needs="--expect", hint=_PADDED),
        Rule("--padded", needs="--file", hint=_PADDED),
        Rule("--padded", excludes="NAME -", hint=_PADDED),
        Rule("--padded --expect", excludes="--each-line"),
        Rule("TEXT", excludes="--file", hint="give one of them"),
        Rule("TEXT --file", excludes="--seq-len --key-len", hint="give one of them"),
        *STRIDE_RULES,
        *IMAGE_RULES,
    )

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
            "--causal/--no-causal", help="Whether later keys are hidden; by default as the pattern defines."
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set one of the pattern's parameters."),
        Choices(given=settings_of),
    ] = None
    file: TextFile = None
    pair: PairText = None
    kind: KindName = None
    layer: Numbers = "all"
    stride: Stride = None
    image: Images = None
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
