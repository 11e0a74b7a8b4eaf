"""Options that commands share, grouped: a command takes whole groups, Typer sees their fields as options."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from attncli.cli.choices import (
    DEVICE_MAPS,
    FILES,
    FOLDERS,
    MODELS,
    TOPICS,
    Choices,
    entries_of,
    settings_of,
)
from attncli.cli.picture_options import NO_WISHES, PictureOptions
from attncli.cli.rules import Rule
from attncli.errors import UsageError
from attncli.inputs.text import check_typed, read_text
from attncli.record import KINDS
from attncli.terminal import COLOR_CHOICES

COLORMAPS = ("viridis", "cividis", "magma", "inferno", "plasma", "grey", "light")
DEVICES = ("cpu", "cuda", "mps")

ARGV: ContextVar[tuple[str, ...]] = ContextVar("ARGV", default=())
"""What the user typed, for the provenance of an answer."""


PairText = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Second sentence, or the target text of an encoder–decoder."),
]
KindName = Annotated[
    str | None,
    typer.Option(metavar="KIND", help="encoder, decoder or cross, where a model has several."),
    Choices(KINDS),
]
Numbers = Annotated[str, typer.Option(metavar="N", help="0-based: 3, 0,2,5-7, 4-, -1 (last) or all.")]
NumbersOrMean = Annotated[
    str, typer.Option(metavar="N", help="0-based: 3, 0,2,5-7, 4-, -1 (last), all or mean.")
]
HeadsOrOne = Annotated[
    str, typer.Option(metavar="N", help="0-based: 3, 0,2,5-7, -1 (last), all, mean, max; or L2H0,L3H5:mean.")
]
OneNumber = Annotated[
    str | None,
    typer.Option(metavar="N", help="0-based; -1 is the last. By default where one weight stands out."),
]
QueryTokens = Annotated[
    str | None,
    typer.Option(metavar="TOKENS", help="Rows to show, by position or text: 3, 2-5, 4-, it, it:2."),
]
KeyTokens = Annotated[
    str | None, typer.Option(metavar="TOKENS", help="Columns to show, by position or text.")
]
TextFile = Annotated[str | None, typer.Option("--file", metavar="FILE", help="Read the text from a file.")]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="A Hugging Face model: folder, cached or hub name; tiny-decoder, -encoder, -translator; scratch.",
    ),
    Choices(MODELS, FOLDERS),
]
Device = Annotated[
    str, typer.Option(metavar="NAME", help="Where it runs: cpu, cuda, cuda:1, mps."), Choices(DEVICES)
]
Offline = Annotated[bool, typer.Option("--offline", help="Do not contact the hub.")]

FieldName = Annotated[
    str | None, typer.Option(metavar="NAME", help="Lines are JSON objects; this field is the text.")
]
PairFieldName = Annotated[
    str | None, typer.Option(metavar="NAME", help="The field with the second sentence or target text.")
]
SkipErrors = Annotated[
    bool, typer.Option("--skip-errors", help="Exit with 0 even if some lines cannot be used.")
]
BatchSize = Annotated[int, typer.Option(metavar="N", min=1, help="Texts at once.")]

Stride = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Read a text that is too long for the model in windows that advance by N tokens.",
    ),
]
Images = Annotated[
    list[str] | None,
    typer.Option("--image", metavar="FILE", help="A picture that the text is about; repeatable."),
    Choices(paths=FILES),
]
IMAGE_RULES = (
    Rule("--image", needs="@pretrained", hint="--model names one"),
    Rule("--image", excludes="--pair --stride --truncate --fast", hint="leave it out"),
)

STRIDE_RULES = (
    Rule("--stride", needs="@pretrained", hint="--model names one"),
    Rule(
        "--stride",
        excludes="--pair --truncate --generate --chat",
        hint="--stride reads one text, all of it",
    ),
)


@dataclass(frozen=True, slots=True)
class TextInput:
    """The text to look at."""

    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="The text; - or a pipe reads it from stdin.", show_default=False),
        Choices(TOPICS, command="explain"),
        Choices(paths=FILES, command="show"),  # a sound or a picture
    ] = None
    file: TextFile = None

    rules: ClassVar = (Rule("TEXT -", excludes="--file", hint="give one of them"),)

    def read(self, command: str) -> str:
        """Return the text, without a last newline.

        Raises:
            UsageError: There is none, or it is not UTF-8.
            ReadError: The file cannot be read.
        """
        if self.file is not None:
            return read_text(self.file)
        if self.text is None and (sys.stdin is None or sys.stdin.isatty()):
            raise UsageError(
                "no text was given",
                f'try: attncli {command} "The animal was tired."  or  … | attncli {command}',
            )
        return read_text("-") if self.text in (None, "-") else check_typed(self.text)


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which model attention comes from, and how it is loaded."""

    panel: ClassVar[str] = "Model"
    rules: ClassVar = (
        Rule(
            "--dtype --device --device-map --attention --revision --no-adapter",
            needs="@pretrained",
            unless="auto float32 cpu",
            hint="other models come with attncli and run in float32 on the CPU",
        ),
        Rule("--offload-folder", needs="--device-map", hint="add --device-map auto"),
        Rule("--device", excludes="--device-map", unless="cpu", hint="give one of them"),
        Rule("--fast", needs="@pretrained"),
        Rule("--fast", excludes="--generate"),
    )

    model: ModelName = None
    revision: Annotated[
        str | None, typer.Option(metavar="NAME", help="Branch, tag or commit on the hub.")
    ] = None
    dtype: Annotated[
        str,
        typer.Option(metavar="NAME", help="float32, bfloat16, float16, float64, or auto: float32 on a CPU."),
        Choices(("auto", "float32", "bfloat16", "float16", "float64")),
    ] = "auto"
    device: Device = "cpu"
    device_map: Annotated[
        str | None,
        typer.Option(
            "--device-map",
            metavar="HOW",
            help="Spread the model over all GPUs, memory and disk: auto (needs accelerate).",
        ),
        Choices(DEVICE_MAPS),
    ] = None
    offload_folder: Annotated[
        str | None,
        typer.Option(
            "--offload-folder", metavar="DIR", help="With --device-map: folder for parts kept on disk."
        ),
    ] = None
    attention: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="transformers' implementation to run: sdpa, eager, …"),
        Choices(("sdpa", "eager")),
    ] = None
    offline: Offline = False
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")
    ] = False
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Load pickled weights, which can run any code.")
    ] = False
    no_adapter: Annotated[
        bool, typer.Option("--no-adapter", help="Ignore the adapter (LoRA) in the model's folder.")
    ] = False
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Cut a text that is too long for the model.")
    ] = False
    fast: Annotated[
        bool,
        typer.Option(
            "--fast",
            help="Long texts: let attncli compute layers with a window, soft-cap or sink, which is faster.",
        ),
    ] = False
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Show numbers that fail their self-check, marked.")
    ] = False


@dataclass(frozen=True, slots=True)
class ScratchOptions:
    """The from-scratch model with random weights: used where one of its options is given, or as --model scratch."""

    panel: ClassVar[str] = "Untrained scratch model (any of these without --model, or --model scratch)"
    rules: ClassVar = (
        Rule(
            "--layers --heads --d-model --causal --variant --set",
            needs="@untrained",
            hint="a trained model keeps its own: leave it out, or add --model scratch",
        ),
        Rule("--set", needs="--variant", hint="try: attncli list variants"),
    )

    layers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Layers of the scratch model; 1 by default.")
    ] = None
    heads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Heads of the scratch model; 1 by default.")
    ] = None
    d_model: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Vector size of the scratch model; 64 by default.")
    ] = None
    causal: Annotated[bool, typer.Option("--causal", help="Make the scratch model a decoder.")] = False
    variant: Annotated[
        str | None,
        typer.Option(
            "--variant", metavar="NAME", help="Use an attention variant: see attncli list variants."
        ),
        Choices(entries_of("variants")),
    ] = None
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set one of the variant's parameters."),
        Choices(given=settings_of),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=2**63 - 1,
            help="Seed of the scratch model's weights or of sampling; 0 by default.",
        ),
    ] = None

    def given(self) -> tuple[str, ...]:
        """Name the options that were given and that only the scratch model has."""
        values = (self.layers, self.heads, self.d_model, self.causal or None, self.variant, self.set)
        names = ("--layers", "--heads", "--d-model", "--causal", "--variant", "--set")
        return tuple(name for name, value in zip(names, values, strict=True) if value is not None)


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """What a pretrained model is to write, and whether the text is a message to it."""

    panel: ClassVar[str] = "Generation (with --model)"
    rules: ClassVar = (
        Rule("--system", needs="--chat", hint="add --chat, or put it in the text"),
        Rule("--temperature", needs="--generate", unless="0.0", hint="add --generate N"),
        Rule("--seed", needs="--generate @untrained", hint="leave it out"),
        Rule("--generate --chat", needs="@pretrained", hint="--model names one"),
        Rule("--generate --chat", excludes="--pair", hint="give one of them"),
    )

    generate: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Generate N tokens and show them in the map."),
    ] = None
    temperature: Annotated[
        float, typer.Option(metavar="T", min=0, help="Sample at this temperature (see --seed); 0 is greedy.")
    ] = 0.0
    chat: Annotated[
        bool, typer.Option("--chat", help="Format the text as a user's message with the chat template.")
    ] = False
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="With --chat: the system message.")] = (
        None
    )


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Where the answer goes, in which form."""

    panel: ClassVar[str] = "Output"
    rules: ClassVar = (Rule("--format", excludes="--json", unless="auto json", hint="give one of them"),)

    format: Annotated[
        str,
        typer.Option(
            "--format", "-f", metavar="NAME", help="Format on stdout: auto, or one of attncli list formats."
        ),
        Choices(entries_of("formats", auto="What suits the terminal, file or pipe")),
    ] = "auto"
    json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False
    output: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write a file in the format of its ending. Repeatable; - is stdout.",
        ),
    ] = None
    open: Annotated[
        bool,
        typer.Option("--open", help="Open the first file that is written; without -o an HTML page."),
    ] = False
    color: Annotated[
        str, typer.Option(metavar="WHEN", help="auto, always or never."), Choices(COLOR_CHOICES)
    ] = "auto"
    width: Annotated[
        int | None, typer.Option(metavar="CELLS", help="Width of text; the terminal's by default.")
    ] = None
    colormap: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"{', '.join(COLORMAPS)} (0 is white); viridis by default."),
        Choices(COLORMAPS),
    ] = None
    raw_tokens: Annotated[
        bool, typer.Option("--raw-tokens", help="Show the vocabulary's own forms (Ġthe, ##ed).")
    ] = False
    csv_safe: Annotated[
        bool, typer.Option("--csv-safe", help="Escape cells that a spreadsheet would run as formulas.")
    ] = False
    fields: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Only these fields of CSV, TSV and NDJSON: layer,head,weight."),
    ] = None
    no_clobber: Annotated[bool, typer.Option("--no-clobber", help="Never overwrite a file.")] = False
    yes_large: Annotated[
        bool, typer.Option("--yes-large", help="Write more than 10 million numbers as text.")
    ] = False
    quiet: Annotated[
        int,
        typer.Option(
            "--quiet", "-q", count=True, show_default=False, help="No notes on stderr; -qq: no errors either."
        ),
    ] = 0
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Report on stderr what was checked.")] = (
        False
    )
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False
    no_progress: Annotated[bool, typer.Option("--no-progress", help="Show no progress on stderr.")] = False
    picture: PictureOptions = NO_WISHES
