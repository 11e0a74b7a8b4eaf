"""attncli mask: Show which keys each position may attend to: a pattern's, or those a model really used.

With a NAME (a mask's or a variant's: see attncli list masks, attncli list variants) it is that pattern, over --seq-len
positions or a text's tokens, with its density, the keys per row and the path length: how many layers it takes until
every position has reached every other that causality lets it see. A long pattern is measured and drawn without the
matrix of all pairs. With --model it is the mask the model was run with on a text, for each layer where layers differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.cli.choices import Choices, entries_of
from attncli.cli.options import ModelOptions, OutputOptions, ScratchOptions, TextInput, spread
from attncli.record import KINDS

if TYPE_CHECKING:
    from attncli.view import MatrixGrid

EXAMPLES = (
    "attncli mask causal --seq-len 8",
    "attncli mask sliding-window --seq-len 24 --set window=3 --set global-tokens=1",
    "attncli mask bigbird --seq-len 65536 -o bigbird.png",
    'attncli mask padding "The animal was too tired." --set pad=3',
    "attncli mask causal --seq-len 4 --key-len 10 --json",
    'attncli mask --model ./smollm2-135m "The animal was too tired." -o mask.svg',
)


@dataclass(frozen=True, slots=True)
class Pattern:
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


@spread
def mask(pattern: Pattern, model: ModelOptions, output: OutputOptions) -> None:
    """Show a mask."""
    from attncli.cli.common import plan_output
    from attncli.cli.output import deliver
    from attncli.errors import UsageError
    from attncli.maps.pattern import pattern_view

    plan = plan_output(output, "MatrixGrid")
    if pattern.stride is not None and model.model is None:
        raise UsageError("--stride is for a model's text", "--model names the model")
    view = pattern_view(pattern, plan) if model.model is None else _of_model(pattern, model, output)
    deliver(view, plan)


def _of_model(pattern: Pattern, model: ModelOptions, output: OutputOptions) -> MatrixGrid:
    """Run a model and keep the masks it used."""
    from attncli.cli.common import choose_kind, provenance, tell_checks
    from attncli.errors import UsageError
    from attncli.models.opening import open_source
    from attncli.observers.selection import parse_selection

    lengths = (pattern.seq_len, pattern.key_len)
    if pattern.text is not None or lengths != (None, None) or pattern.settings or pattern.causal is not None:
        raise UsageError(
            "with --model, mask takes one text and no --seq-len, --causal or --set",
            "try: attncli mask --help",
        )
    text = TextInput(pattern.name, pattern.file).read("mask --model …")
    source = open_source(text, pattern.pair, model, ScratchOptions(), output, stride=pattern.stride)
    kind = choose_kind(source.kinds, pattern.kind)

    from attncli.maps.views import mask_view, source_title
    from attncli.observers.masks import MaskOnly
    from attncli.view import Matrix

    queries, keys = source.axes(kind)
    layers = parse_selection(pattern.layer, "layer", no_mean="masks have no mean")
    kept = MaskOnly(kind, layers, source.depth(kind), len(queries), len(keys))
    run = source.run([kept])
    tell_checks(run, output)
    groups = kept.groups()
    # One mask for several layers is no single layer's; where masks differ, each goes by the first layer that uses it.
    shared = len(groups) == 1 and len(groups[0][0]) > 1
    named = [
        (Matrix(mask[:0].astype("float32"), kind=kind, layer=None if shared else layers[0]), mask)
        for layers, mask in groups
    ]
    facts = [{"layers": list(layers)} for layers, _ in groups]
    title = f"{source_title(run.source)} · the mask its {kind} attention used"
    return mask_view(
        named, title, queries, keys, provenance(run), source=run.source, notes=run.notes, facts=facts
    )
