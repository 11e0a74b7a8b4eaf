"""attncli show: Show which tokens attend to which, in any model's heads.

Rows are queries, columns are keys. Without --model the small trained model tiny-decoder is used, which comes with
attncli. In the terminal, the one head that says most about the text is shown; --head all shows all of them.
A text too long to draw each pair is pooled into a picture of at most 512×512 cells; --rows looks into it.
"""

from __future__ import annotations

from typing import cast

from attncli import registry
from attncli.cli.command import spread
from attncli.cli.each_line import BatchedLineOptions
from attncli.cli.options import (
    GenerationOptions,
    ModelOptions,
    OutputOptions,
    ScratchOptions,
    TextInput,
)
from attncli.cli.rules import GIVEN
from attncli.labels import quoted_for_shell
from attncli.maps import InputKind
from attncli.maps.aggregate import AggregateOptions
from attncli.maps.options import ShowOptions

EXAMPLES = (
    'attncli show "My mother told my sister, and my sister told my father."',
    'attncli show "the fourth of july, seventeen seventy-six" --model tiny-translator',
    'attncli show "The animal was too tired." --model ./all-minilm-l6-v2 --layer 0-5 --head all -o heads.png',
    'attncli show "The animal was too tired." -m ./all-minilm-l6-v2 --layer 4 --head 7 --format table --top 3',
    'attncli show "The animal was too tired." -m ./smollm2-135m --layer 20 --head 3 --measure norm',
    'attncli show "The animal was" -m ./smollm2-135m --layer 20 --generate 8',
    'attncli show "CCO" -m ./annalog-marian --pair "CCO" --kind cross --json',
    "attncli show --file book.txt -m ./smollm2-135m --truncate --head mean -o book.png",
    "attncli show --file book.txt -m ./all-minilm-l6-v2 --stride 256 --layer 4 -o book.png",
    "attncli show --each-line --file corpus.txt -m ./all-minilm-l6-v2 --layer 4 --head 7 --top 5 -o heads.ndjson",
    "attncli show speech.wav -m ./whisper-tiny-en --layer 3 --head 2 -o speech.png",
    "attncli show photo.jpg -m ./dinov2-small --layer -1 --query r7c3 -o photo.png",
    'attncli show "What is on the table?" --image photo.jpg -m ./llava --layer -1 --head mean --query table -o map.png',
    'echo "The animal was too tired." | attncli show --causal --heads 4',
)


@spread
def show(
    text: TextInput,
    choice: ShowOptions,
    together: AggregateOptions,
    lines: BatchedLineOptions,
    model: ModelOptions,
    writing: GenerationOptions,
    scratch: ScratchOptions,
    output: OutputOptions,
) -> None:
    """Run a text through a model and show its attention weights."""
    from attncli.cli.common import choose_kind, plan_output, tell_checks, tell_next
    from attncli.cli.output import deliver
    from attncli.inputs.media import medium_of
    from attncli.models.alignment_heads import spelled_out
    from attncli.models.before_loading import Wanted, check_before_loading
    from attncli.models.opening import medium_for, model_name, open_source
    from attncli.models.shipped import roles_of
    from attncli.observers.selection import parse_heads

    if lines.each_line:
        _each_line(text, choice, lines, model, scratch, output)
        return
    default = "table" if choice.top is not None else "heatmap"
    plan = plan_output(output, "MatrixGrid", top=choice.top, default=default)
    layers, heads = parse_heads(choice.layer, spelled_out(choice.head, model))
    said = text.read("show")
    plain = medium_of(said) is None and not (writing.generate or writing.chat or choice.image)
    names = choice.query, choice.key
    asked = Wanted(said if plain else None, choice.pair, choice.kind, (layers, heads), names,
                   whole=choice.stride is None and not model.truncate)  # fmt: skip
    check_before_loading(model, asked, scratch)
    medium = None if choice.image else medium_for(said, model, output)
    lay_over = None
    if medium is not None:
        kind_of_input = cast(InputKind, registry.load("inputs", medium))
        opened = kind_of_input.open_input(said, choice, model, output, writing, plan.formats)
        source, choice, lay_over = opened.source, opened.choice, opened.lay_over
    else:
        images = choice.image or ()
        source = open_source(said, choice.pair, model, scratch, output, writing, choice.stride, images)
    kind = choose_kind(source.kinds, choice.kind)
    texts = (said, *(() if choice.pair is None else (choice.pair,)))
    if together.aggregate is not None:
        from attncli.maps.aggregate import aggregated

        made = aggregated(source, kind, together, choice.query, choice.key, choice.top)
        tell_checks(made.run, output)
        deliver(made.view if lay_over is None else lay_over(made.view), plan)
        return

    from attncli.maps.image_text import with_pictures
    from attncli.maps.show import MapRequest

    showing = MapRequest(source, kind, layers, heads, choice, laid_over=lay_over is not None, texts=texts)
    name = model_name(model, scratch, choice.pair)
    chosen = GIVEN.get().keys().isdisjoint(("--layer", "--head")) and choice.measure != "contribution"
    if chosen and model.model is None:
        showing = showing.of_one_head(roles_of(name))
    elif chosen and plain and name != "scratch" and plan.formats == {"heatmap"}:
        showing = showing.of_telling_head()
    if choice.measure != "weight":
        from attncli.maps.measured import measured_request

        showing = measured_request(showing)
    shown = showing.shown(plan)
    tell_checks(shown.run, output)
    view = showing.explained(shown.view)
    view = view if lay_over is None else lay_over(view)
    deliver(with_pictures(view, source, rows_asked=choice.asks_for_rows), plan, shown.pictures)
    weights = choice.measure == "weight"
    if plain and weights and text.file is None and len(shown.view.matrices) == 1:
        one = shown.view.matrices[0]
        of_model = f" -m {quoted_for_shell(model.model)}" if model.model else ""
        more = " --head all" if chosen else f" --layer {one.layer} --head {one.head}"
        tell_next(f"attncli {'show' if chosen else 'explain'} TEXT{of_model}{more}", said, plan)


def _each_line(
    text: TextInput,
    choice: ShowOptions,
    lines: BatchedLineOptions,
    model: ModelOptions,
    scratch: ScratchOptions,
    output: OutputOptions,
) -> None:
    """Show each line's text."""
    from attncli.cli.each_line import run_lines

    run = run_lines(lines, text.file, output, "MatrixGrid", top=choice.top)

    from attncli.cli.common import choose_kind
    from attncli.maps.each_line import lines_of_model
    from attncli.maps.show import MapRequest, Question
    from attncli.models.opening import Opened, model_name
    from attncli.models.shipped import roles_of
    from attncli.observers.selection import parse_heads

    layers, heads = parse_heads(choice.layer, choice.head)
    one_head = GIVEN.get().keys().isdisjoint(("--model", "--layer", "--head"))
    roles = roles_of(model_name(model, scratch, lines.pair_field)) if one_head else ()

    def ask(source: Opened) -> tuple[Question, int]:
        request = MapRequest(source, choose_kind(source.kinds, choice.kind), layers, heads, choice)
        request = request.of_one_head(roles) if roles else request
        return request.question(run.documents), request.least_maps

    about_text = choice.asks_for_rows or choice.key is not None
    size = lines.batch_size
    run.through(lines_of_model(model, scratch, output, ask, size, about_text=about_text).answers)
