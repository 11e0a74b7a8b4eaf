"""Options that commands share, grouped: a command takes whole groups, Typer sees their fields as options."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

import typer

from attncli.cli.choices import (
    DEVICE_MAPS,
    FILES,
    FOLDERS,
    MODELS,
    TOPICS,
    Choices,
    completer,
    entries_of,
)
from attncli.cli.picture_options import NO_WISHES, PictureOptions
from attncli.errors import ReadError, UsageError
from attncli.labels import as_utf8, safe_label
from attncli.terminal import COLOR_CHOICES, read_standard_input

_UTF16 = (b"\xff\xfe", b"\xfe\xff")

COLORMAPS = ("viridis", "cividis", "magma", "inferno", "plasma", "grey", "light")
DEVICES = ("cpu", "cuda", "mps")

_TEXTS = ("TEXT", "TOKENS", "TOKEN", "WORD")
"""Metavars of options whose values are texts, and no names of files."""

ARGV: ContextVar[tuple[str, ...]] = ContextVar("ARGV", default=())
"""What the user typed, for the provenance of an answer."""


def spread(function: Callable[..., None]) -> Callable[..., None]:
    """Let a command take dataclasses: their fields become its options, and come back to it as the dataclasses.

    A field is declared as Typer wants a parameter: ``layer: Annotated[str, typer.Option(help="…")] = "all"``; after
    that may stand the `Choices` that shells offer for its value.
    """
    hints = get_type_hints(function, include_extras=True)
    hints.pop("return", None)
    for hint in hints.values():
        if not is_dataclass(hint):
            _complete(hint)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in groups:
            parameters.extend(_parameters_of(groups[name]))
        else:
            parameters.append(parameter.replace(annotation=hints[name]))

    texts = [p.name for p in parameters if p.annotation.__metadata__[0].metavar in _TEXTS]

    @functools.wraps(function)
    def command(**values: Any) -> None:
        values |= {name: as_utf8(values[name]) for name in texts if values[name] is not None}
        arguments = {}
        for name, group in groups.items():
            arguments[name] = _filled(group, values)
        function(**values, **arguments)

    keyword_only = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    command.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in keyword_only}
    del command.__wrapped__
    return command


def _filled(group: Any, values: dict[str, Any]) -> Any:
    """Make a group of its options' values, and the groups in it of theirs."""
    hints = get_type_hints(group)
    return group(
        **{
            f.name: _filled(hints[f.name], values) if is_dataclass(hints[f.name]) else values.pop(f.name)
            for f in fields(group)
        }
    )


def _parameters_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    found = []
    for f in fields(group):
        if is_dataclass(hints[f.name]):
            found += _parameters_of(hints[f.name])
            continue
        default = inspect.Parameter.empty if f.default is MISSING else f.default
        kind = inspect.Parameter.KEYWORD_ONLY
        annotation = hints[f.name]
        annotation.__metadata__[0].rich_help_panel = getattr(group, "panel", None)
        _complete(annotation)
        found.append(inspect.Parameter(f.name, kind, default=default, annotation=annotation))
    return found


def _complete(annotation: Any) -> None:
    """Let Typer complete a parameter's value by the choices declared beside it."""
    declared, *choices = annotation.__metadata__
    declared.autocompletion = completer(choices, declared.metavar)


@dataclass(frozen=True, slots=True)
class TextInput:
    """The text to look at."""

    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="The text; - or a pipe reads it from stdin.", show_default=False),
        Choices(TOPICS, command="explain"),
        Choices(paths=FILES, command="show"),  # a sound or a picture
    ] = None
    file: Annotated[str | None, typer.Option("--file", metavar="FILE", help="Read the text from a file.")] = (
        None
    )

    def read(self, command: str) -> str:
        """Return the text, without a last newline.

        Raises:
            UsageError: There is none, there are two, or it is no UTF-8.
            ReadError: The file cannot be read.
        """
        if self.text is not None and self.file is not None:
            raise UsageError("a text and --file were both given", "give one of them")
        if self.file is not None:
            return _decode(_read_file(self.file), safe_label(self.file))
        if self.text not in (None, "-"):
            assert self.text is not None
            return _from_command_line(self.text)
        if self.text is None and (sys.stdin is None or sys.stdin.isatty()):
            raise UsageError(
                "no text was given",
                f'try: attncli {command} "The animal was tired."  or  … | attncli {command}',
            )
        return _decode(read_standard_input(), "stdin")


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which model attention comes from, and how it is loaded."""

    panel: ClassVar[str] = "Model"

    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            help="A Hugging Face model: folder, cached or hub name; tiny-decoder, -encoder, -translator; scratch.",
        ),
        Choices(MODELS, FOLDERS),
    ] = None
    revision: Annotated[
        str | None, typer.Option(metavar="NAME", help="Branch, tag or commit on the hub.")
    ] = None
    dtype: Annotated[
        str,
        typer.Option(metavar="NAME", help="float32, bfloat16, float16, float64, or auto: float32 on a CPU."),
        Choices(("auto", "float32", "bfloat16", "float16", "float64")),
    ] = "auto"
    device: Annotated[
        str,
        typer.Option(metavar="NAME", help="Where the model runs: cpu, cuda, cuda:1, mps."),
        Choices(DEVICES),
    ] = "cpu"
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
        typer.Option("--offload-folder", metavar="DIR", help="With --device-map: for parts kept on disk."),
    ] = None
    attention: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="transformers' implementation to run: sdpa, eager, …"),
        Choices(("sdpa", "eager")),
    ] = None
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the hub.")] = False
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")
    ] = False
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Load pickled weights, which can run any code.")
    ] = False
    no_adapter: Annotated[
        bool, typer.Option("--no-adapter", help="Leave out the adapter (LoRA) that lies with the model.")
    ] = False
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Cut a text that is too long for the model.")
    ] = False
    fast: Annotated[
        bool,
        typer.Option(
            "--fast",
            help="Long texts: compute layers with a window, soft-cap or sink ourselves, faster than the model does.",
        ),
    ] = False
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Show numbers that fail their self-check, marked.")
    ] = False


@dataclass(frozen=True, slots=True)
class ScratchOptions:
    """The from-scratch model with random weights: used where one of its options is given, or as --model scratch."""

    panel: ClassVar[str] = "Untrained scratch model (any of these without --model, or --model scratch)"

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
        typer.Option("--variant", metavar="NAME", help="Attend by a variant: see attncli list variants."),
        Choices(entries_of("variants")),
    ] = None
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set one of the variant's parameters."),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=2**63 - 1,
            help="Seed of the scratch model's weights, or of --temperature's draws; 0 by default.",
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

    generate: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Let the model write N tokens, and show them in the map too."),
    ] = None
    temperature: Annotated[
        float, typer.Option(metavar="T", min=0, help="Draw tokens at this temperature (--seed); 0 is greedy.")
    ] = 0.0
    chat: Annotated[
        bool, typer.Option("--chat", help="Give the text as a user's message, by the model's chat template.")
    ] = False
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="With --chat: what the system says before it.")
    ] = None


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Where the answer goes, in which form."""

    panel: ClassVar[str] = "Output"

    format: Annotated[
        str,
        typer.Option(
            "--format", "-f", metavar="NAME", help="Form on stdout: auto, or see attncli list formats."
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
            help="Write a file; its ending picks the form. May be given again; - is stdout.",
        ),
    ] = None
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
        bool, typer.Option("--csv-safe", help="Defuse cells that a spreadsheet takes for formulas.")
    ] = False
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
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say on stderr what was checked.")] = False
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False
    no_progress: Annotated[bool, typer.Option("--no-progress", help="No signs of life on stderr.")] = False
    picture: PictureOptions = NO_WISHES


def _from_command_line(text: str) -> str:
    text = as_utf8(text)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        byte = text[error.start].encode("utf-8", "surrogateescape")
        raise UsageError(f"the text is not UTF-8: byte 0x{byte.hex()} at character {error.start}") from error
    return text


def _read_file(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise ReadError(f"{safe_label(name)}: {error.strerror or error}") from error


def _decode(content: bytes, where: str) -> str:
    """Read a text; the mark that Windows puts before UTF-8 is none of it."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = content[error.start]
        raise UsageError(
            f"{where} is not UTF-8: byte 0x{byte:02x} at offset {error.start}", _hint(content, where)
        ) from error
    return text.removeprefix("\ufeff").removesuffix("\n").removesuffix("\r")


def _hint(content: bytes, name: str) -> str | None:
    """Guess what it is that is no UTF-8."""
    from attncli.inputs.media import medium_of, where_shown

    if (medium := medium_of(name)) is not None:
        return where_shown(name, medium)
    return "it seems to be UTF-16: iconv -f UTF-16 -t UTF-8" if content[:2] in _UTF16 else None
