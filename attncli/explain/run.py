"""What ``explain`` does: one row of a model, or one of its topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from attncli.cli.choices import TOPICS
from attncli.cli.options import ARGV, ModelOptions, OutputOptions, ScratchOptions, TextInput
from attncli.cli.rules import GIVEN
from attncli.errors import UsageError, did_you_mean
from attncli.record import Kind, Tokens

if TYPE_CHECKING:
    from attncli.explain.forward import Explainable
    from attncli.explain.options import ExplainOptions
    from attncli.models.opening import Opened

HEAD_DIMS = tuple(2**power for power in range(2, 11))
"""Sizes of vectors that scaling is measured for: 4 to 1024."""


def topic_of(text: TextInput) -> Literal["scaling", "order"] | None:
    """Return whether the argument is a topic or a text.

    It is a text after ``--``, and with any option that only a text needs.

    Raises:
        UsageError: It is one letter or two away from a topic.
    """
    of_text = ("--model", "--query", "--pair", "--kind", "--layer", "--head", "--file", "--diagram", "--to")
    if "--" in ARGV.get() or not GIVEN.get().keys().isdisjoint(of_text):
        return None
    if text.text in TOPICS:
        return cast(Literal["scaling", "order"], text.text)
    close = did_you_mean(text.text or "", TOPICS) or ""
    if close.startswith("did you mean"):
        raise UsageError(f"no topic {text.text!r}", f"{close} As a text: attncli explain -- {text.text}")
    return None


def explain_row(
    text: TextInput,
    choice: ExplainOptions,
    model: ModelOptions,
    scratch: ScratchOptions,
    output: OutputOptions,
) -> None:
    """Explain one row of one head of a model."""
    from attncli.cli.common import choose_kind, plan_output, provenance, tell_checks
    from attncli.cli.output import deliver
    from attncli.models.before_loading import Wanted, check_before_loading
    from attncli.models.opening import open_source
    from attncli.observers.selection import parse_selection

    plan = plan_output(output, "Steps", default="diagram" if choice.diagram else "steps")
    if scratch.variant is not None:
        raise UsageError(
            "explain walks through full attention: leave --variant out", "try: attncli compare --help"
        )
    named = {what: _number(getattr(choice, what), what) for what in ("layer", "head")}
    said = text.read("explain")
    places = [parse_selection(str(number), what) for what, number in named.items() if number is not None]
    asked = Wanted(said, choice.pair, choice.kind, places, (choice.query,), whole=not model.truncate)
    check_before_loading(model, asked, scratch)
    source = open_source(said, choice.pair, model, scratch, output)
    kind = choose_kind(source.kinds, choice.kind)
    position, notes = _position(source.axes(kind)[0], choice.query)

    from attncli.explain.forward import explain
    from attncli.explain.views import explained_view

    layer, head, why = _place(source, kind, position, named["layer"], named["head"])
    row, run = explain(cast("Explainable", source), kind, layer, head, position)
    tell_checks(run, output)
    made = provenance(run)
    view = explained_view(row, run, made, top=choice.top, dims=choice.dims, notes=(*notes, *why))
    deliver(view, plan)


def explain_logit(
    text: TextInput,
    choice: ExplainOptions,
    model: ModelOptions,
    scratch: ScratchOptions,
    output: OutputOptions,
) -> None:
    """Explain a token's logit: what each part of a decoder adds to it."""
    from attncli.cli.common import plan_output, provenance, tell_checks
    from attncli.cli.output import deliver
    from attncli.models.opening import open_source

    plan = plan_output(output, "HeadRanking", default="table")
    source = open_source(text.read("explain"), choice.pair, model, scratch, output, head=True)

    from attncli.explain.logit import attribute
    from attncli.explain.logit_view import logit_view
    from attncli.explain.next_token import next_token

    token, notes = next_token(source, str(choice.to))
    queries = source.axes("decoder")[0]
    position, more = _position(queries, choice.query or str(len(queries) - 1))
    found, run = attribute(source, cast(int, token.id), position)
    tell_checks(run, output)
    row = queries[position]
    deliver(logit_view(found, run, row, token, provenance(run), choice.top, (*notes, *more)), plan)


def _number(text: str | None, what: str) -> int | None:
    """Read one layer or head.

    Raises:
        UsageError: It is none, or several.
    """
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"--{what} {text}: explain takes one {what}", f"write a number: --{what} 0"
        ) from None


def _position(queries: Tokens, named: str | None) -> tuple[int, list[str]]:
    """Choose the row: the one named, of several the first; or else the last word."""
    from attncli.inputs.token_selection import pick
    from attncli.observers.words import word_starts

    if named is None:
        found = [token for token in queries if not token.special] or list(queries)
        lettered = [token for token in found if any(map(str.isalnum, token.text))]
        token = (lettered or found)[-1]
        whole = queries.index(token) in word_starts(queries)
        what = "the last word" if whole else "the last word's last piece"
        return token.position, [f"the row is {what}, “{token.label}”: --query names another"]
    positions = pick(queries, named)
    first = [position for index, position in enumerate(positions) if position == positions[0] + index]
    if len(positions) == 1:
        return positions[0], []
    pieces = "" if len(first) == 1 else f", the last of its {len(first)} pieces"
    others = ", ".join(str(position) for position in positions[len(first) :])
    more = f"; it also stands at {others}" if others else ""
    return first[-1], [f"--query {named} is row {first[-1]}{pieces}{more}"]


def _place(
    source: Opened, kind: Kind, position: int, layer: int | None, head: int | None
) -> tuple[int, int, list[str]]:
    """Choose layer and head: as named; what is not named, where the row looks hardest at one other word."""
    depth = source.depth(kind)
    if layer is not None:
        layer = _in_range(layer, depth, "layer")
    if layer is not None and head is not None and head >= 0:
        return layer, head, []

    from attncli.observers.strongest_head import TellingHead

    telling = TellingHead(kind, position, source.axes(kind)[1], layer, head)
    run = source.run([telling])
    if layer is not None and layer not in run.layers(kind):
        raise run.no_attention(kind, layer, str(layer))
    found = telling.found()
    return found.layer, found.head, [found.why()] if found.heads > 1 else []


def _in_range(number: int, count: int, what: str) -> int:
    if not -count <= number < count:
        have = f"0 to {count - 1}" if count > 1 else "only 0"
        raise UsageError(
            f"--{what} {number}: out of range", f"this model has {what}s {have} (-1 is the last)"
        )
    return number % count


def explain_scaling(seed: int, output: OutputOptions) -> None:
    """Measure what 1/√d_k does."""
    from attncli.cli.common import plan_output, provenance
    from attncli.cli.output import deliver

    plan = plan_output(output, "Curves", default="table")

    from attncli.explain.peakedness import measure_scaling
    from attncli.explain.topics import scaling_view

    deliver(scaling_view(measure_scaling(HEAD_DIMS, seed=seed), provenance(), seed), plan)


def explain_order(scratch: ScratchOptions, output: OutputOptions) -> None:
    """Measure what position encoding does."""
    from attncli.cli.common import plan_output, provenance
    from attncli.cli.output import deliver

    plan = plan_output(output, "Table", default="table")

    from attncli.explain.topics import order_view
    from attncli.explain.word_order import reorder

    seed = scratch.seed or 0
    found = reorder(
        layers=scratch.layers or 1, heads=scratch.heads or 1, d_model=scratch.d_model or 64, seed=seed
    )
    deliver(order_view(found, provenance(), seed), plan)
