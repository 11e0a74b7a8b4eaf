"""attncli mask: Show which keys each position may attend to: a pattern's, or those a model really used.

With a NAME (a mask's or a variant's: see attncli list masks, attncli list variants) it is that pattern, over --seq-len
positions or a text's tokens, with its density, the keys per row and the path length: how many layers it takes until
every position has reached every other that causality lets it see. A long pattern is measured and drawn without the
matrix of all pairs. With --model it is the mask the model was run with on a text, for each layer where layers differ.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from attncli.cli.command import spread
from attncli.cli.each_line import BatchedLineOptions
from attncli.cli.options import ModelOptions, OutputOptions, ScratchOptions, TextInput
from attncli.cli.rules import Rule, check_rules
from attncli.maps.options import MaskOptions

if TYPE_CHECKING:
    from attncli.cli.output import Plan

EXAMPLES = (
    "attncli mask causal --seq-len 8",
    "attncli mask sliding-window --seq-len 24 --set window=3 --set global_tokens=1",
    "attncli mask bigbird --seq-len 65536 -o bigbird.png",
    'attncli mask padding "The animal was too tired." --set pad=3',
    "attncli mask causal --seq-len 4 --key-len 10 --json",
    'attncli mask --model ./smollm2-135m "The animal was too tired." -o mask.svg',
    'attncli mask --model ./smollm2-135m "The animal was too tired." --expect causal',
)


_LARGEST_BATCH = 64
"""With --padded, so many lines are read at most."""


@spread
def mask(pattern: MaskOptions, lines: BatchedLineOptions, model: ModelOptions, output: OutputOptions) -> None:
    """Show a mask."""
    from attncli import registry
    from attncli.cli.common import plan_output, tell_next
    from attncli.cli.output import deliver
    from attncli.cli.progress import progress
    from attncli.maps.pattern import pattern_view

    if lines.each_line:
        _each_line(pattern, lines, model, output)
        return
    plan = plan_output(output, "MatrixGrid")
    if pattern.padded:
        _check_padded(pattern, model, output)
        return
    if model.model is not None:
        _of_model(pattern, model, output, plan)
        return
    with progress("measuring the pattern …", output):
        view = pattern_view(pattern, plan)
    deliver(view, plan)
    if pattern.name in registry.entries("variants"):
        tell_next(f"attncli show TEXT --variant {pattern.name}", pattern.text or "…", plan)


def _of_model(pattern: MaskOptions, model: ModelOptions, output: OutputOptions, plan: Plan) -> None:
    """Run a model, show the masks it used, and hold them against what was expected."""
    from attncli.cli.common import choose_kind, tell_checks
    from attncli.cli.output import deliver, say
    from attncli.maps.expectation import check_masks, parse_expectation
    from attncli.models.before_loading import Wanted, check_before_loading
    from attncli.models.opening import open_source
    from attncli.observers.selection import parse_selection

    check_rules((Rule("NAME -", excludes="--file", hint="give one of them"),))
    text = TextInput(pattern.name, pattern.file).read("mask --model …")
    expected = [parse_expectation(one) for one in pattern.expect or ()]
    layers = parse_selection(pattern.layer, "layer", no_mean="masks have no mean")
    whole = pattern.stride is None and not model.truncate
    read = None if pattern.image else text
    check_before_loading(model, Wanted(read, pattern.pair, pattern.kind, (layers,), whole=whole))
    source = open_source(
        text, pattern.pair, model, ScratchOptions(), output, stride=pattern.stride, images=pattern.image or ()
    )
    kind = choose_kind(source.kinds, pattern.kind)

    from attncli.maps.mask import mask_question

    question, kept = mask_question(source, kind, layers)
    shown = question.answer(source)
    tell_checks(shown.run, output)
    deliver(shown.view, plan)
    if expected:
        count = check_masks(kept.groups(), expected, kind, source.depth(kind), *source.axes(kind))
        if not output.quiet:
            say(f"note: the masks of {count} layers are as expected")


def _each_line(
    pattern: MaskOptions, lines: BatchedLineOptions, model: ModelOptions, output: OutputOptions
) -> None:
    """Show the masks that a model used on each line's text."""
    from attncli.cli.common import choose_kind
    from attncli.cli.each_line import run_lines
    from attncli.observers.selection import parse_selection

    run = run_lines(lines, pattern.file, output, "MatrixGrid")
    layers = parse_selection(pattern.layer, "layer", no_mean="masks have no mean")

    from attncli.maps.each_line import lines_of_model
    from attncli.maps.mask import mask_question
    from attncli.maps.show import Question
    from attncli.models.opening import Opened

    def ask(source: Opened) -> tuple[Question, int]:
        return mask_question(source, choose_kind(source.kinds, pattern.kind), layers)[0], 1

    run.through(lines_of_model(model, ScratchOptions(), output, ask, lines.batch_size).answers)


def _check_padded(pattern: MaskOptions, model: ModelOptions, output: OutputOptions) -> None:
    """Check the lines of a file as one padded batch."""
    from attncli.cli.output import say
    from attncli.errors import ReadError
    from attncli.inputs.corpus import BadLine, field_for, read_texts
    from attncli.inputs.text import opened
    from attncli.maps.expectation import check_padded_batch, parse_expectation
    from attncli.models.opening import check_reads, load_model
    from attncli.observers.selection import parse_selection

    assert pattern.expect and pattern.file is not None
    expected = [parse_expectation(one) for one in pattern.expect]
    with opened(pattern.file) as stream:
        lines = list(itertools.islice(read_texts(stream, field_for(pattern.file, None)), _LARGEST_BATCH))
    bad = [line for line in lines if isinstance(line, BadLine)]
    if bad or not lines:
        raise ReadError(f"line {bad[0].number}: {bad[0].reason}" if bad else "the file holds no text")
    check_reads(model, output)
    loaded = load_model(model, output)
    layers = parse_selection(pattern.layer, "layer", no_mean="masks have no mean")
    texts = [line for line in lines if not isinstance(line, BadLine)]
    count = check_padded_batch(loaded, texts, expected, layers, verify=not model.no_verify)
    if not output.quiet:
        say(
            f"note: the masks of {count} layers are as expected, for {len(texts)} texts padded on either side"
        )
