"""attncli show: Show which tokens attend to which, in any model's heads.

Rows are queries, columns are keys. Without --model a small trained model that comes with attncli attends, tiny-decoder,
and shows the one of its heads that has most to say of the text, unless --layer or --head ask for others.
A text too long to draw each pair is pooled into a picture of at most 512×512 cells; --rows looks into it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from attncli.cli.choices import Choices
from attncli.cli.options import ModelOptions, OutputOptions, ScratchOptions, TextInput, spread
from attncli.record import KINDS

EXAMPLES = (
    'attncli show "My mother told my sister, and my sister told my father."',
    'attncli show "the fourth of july, seventeen seventy-six" --model tiny-translator',
    'attncli show "The animal was too tired." --model ./all-minilm-l6-v2 --layer 0-5 --head all -o heads.png',
    'attncli show "The animal was too tired." -m ./all-minilm-l6-v2 --layer 4 --head 7 --format table --top 3',
    'attncli show "The animal was" -m ./smollm2-135m --layer 20 --generate 8',
    'attncli show "CCO" -m ./annalog-marian --pair "CCO" --kind cross --json',
    "attncli show --file book.txt -m ./smollm2-135m --truncate --head mean -o book.png",
    "attncli show --file book.txt -m ./all-minilm-l6-v2 --stride 256 --layer 4 -o book.png",
    "attncli show speech.wav -m ./whisper-tiny-en --layer 3 --head 2 -o speech.png",
    "attncli show photo.jpg -m ./dinov2-small --layer -1 --query r7c3 -o photo.png",
    'echo "The animal was too tired." | attncli show --causal --heads 4',
)


@dataclass(frozen=True, slots=True)
class Choice:
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
        typer.Option(metavar="N", help="0-based: 3, 0,2,5-7, -1 (last), all (by default) or mean."),
    ] = None
    head: Annotated[
        str | None,
        typer.Option(metavar="N", help="0-based: 3, 0,2,5-7, -1 (last), all (by default) or mean."),
    ] = None
    query: Annotated[
        str | None,
        typer.Option(metavar="TOKENS", help="Rows to show, by position or text: 3, 2-5, it, it:2."),
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
    top: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="List only the K strongest keys of each row.")
    ] = None

    @property
    def asks_for_rows(self) -> bool:
        """Whether only some rows are wanted."""
        return self.query is not None or self.rows is not None


@dataclass(frozen=True, slots=True)
class WritingOptions:
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


@spread
def show(
    text: TextInput,
    choice: Choice,
    model: ModelOptions,
    writing: WritingOptions,
    scratch: ScratchOptions,
    output: OutputOptions,
) -> None:
    """Run a text through a model and show its attention weights."""
    from attncli.cli.common import choose_kind, plan_output, tell_checks
    from attncli.cli.output import deliver
    from attncli.maps.audio import open_sound
    from attncli.maps.image import open_picture
    from attncli.maps.show import Showing
    from attncli.models.opening import check_writing, medium_for, model_name, open_source
    from attncli.models.shipped import roles_of
    from attncli.observers.selection import parse_selection

    default = "table" if choice.top is not None else "heatmap"
    plan = plan_output(output, "MatrixGrid", top=choice.top, default=default)
    layers = parse_selection("all" if choice.layer is None else choice.layer, "layer")
    heads = parse_selection("all" if choice.head is None else choice.head, "head")
    check_writing(writing, model, choice.pair)
    said = text.read("show")
    medium = medium_for(said, model, output)
    seen = None
    if medium == "sound":
        source, choice = open_sound(said, choice, model, output, writing)
    elif medium == "picture":
        seen = open_picture(said, choice, model, output, writing, plan.formats)
        source, choice = seen.source, seen.choice
    else:
        source = open_source(said, choice.pair, model, scratch, output, writing, choice.stride)
    showing = Showing(source, choose_kind(source.kinds, choice.kind), layers, heads, choice)
    if model.model is None and choice.layer is None and choice.head is None:
        showing = showing.of_one_head(roles_of(model_name(model, scratch, choice.pair)))
    view, run = showing.view(plan)
    view = view if seen is None else seen.over(view)
    tell_checks(run, output)
    deliver(view, plan)
