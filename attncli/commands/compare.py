"""attncli compare: Show what each attention variant keeps of full attention, on the same queries, keys and values.

For each variant its effective weights, and how far its output is from full attention's: the relative error over all
heads, and the mean divergence of its rows, KL(variant ‖ full), in bits. A causal variant is compared with causal full
attention. With --model the queries, keys and values are those of one head: what would a window lose there?
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from attncli.cli.choices import Choices, entries_of, settings_of_variants
from attncli.cli.command import spread
from attncli.cli.options import ModelOptions, OutputOptions, ScratchOptions, TextInput
from attncli.cli.rules import GIVEN, Rule
from attncli.errors import UsageError

if TYPE_CHECKING:
    from attncli.view import MatrixGrid

EXAMPLES = (
    'attncli compare "The animal did not cross the street because it was too tired."',
    'attncli compare "The animal was too tired." --variants full,sliding-window,linear --causal',
    'attncli compare "The animal was too tired." --set sliding-window.window=2 --format table',
    'attncli compare "The animal was too tired." -m ./smollm2-135m --layer 20 --head 3 --variants full,sliding-window',
    'attncli compare "The animal was too tired." --json -o compare.png',
)


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What is compared, on what."""

    variants: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Variants to compare; by default all that fit."),
        Choices(entries_of("variants"), many=True),
    ] = None
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="VARIANT.NAME=VALUE", help="Set a variant's parameter."),
        Choices(given=settings_of_variants),
    ] = None
    causal: Annotated[bool, typer.Option("--causal", help="Hide later keys in all of them.")] = False
    layer: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="With --model: the layer whose head is taken.")
    ] = None
    heads: Annotated[int, typer.Option(metavar="N", min=1, help="Heads of the scratch model.")] = 4
    head: Annotated[int, typer.Option(metavar="N", min=0, help="The head whose weights are shown.")] = 0
    d_model: Annotated[int, typer.Option(metavar="N", min=2, help="Vector size of the scratch model.")] = 64
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the scratch model's weights.")] = 0

    rules: ClassVar = (
        Rule("--heads --d-model --seed", needs="@untrained", hint="a trained model keeps its own"),
        Rule("--layer", needs="@trained", hint="--model names one"),
    )


@spread
def compare(text: TextInput, choice: CompareOptions, model: ModelOptions, output: OutputOptions) -> None:
    """Compare variants."""
    from attncli.cli.common import plan_output
    from attncli.cli.output import deliver
    from attncli.inputs.media import refuse_medium

    plan = plan_output(output, "MatrixGrid")
    trained = model.model not in (None, "scratch")
    if not trained and choice.head >= choice.heads:
        raise UsageError(
            f"--head {choice.head}: out of range", f"there are heads 0 to {choice.heads - 1} (--heads)"
        )
    sentence = text.read("compare")
    refuse_medium(sentence)
    deliver((_of_a_head if trained else _of_scratch)(sentence, choice, model, output), plan)


def _of_scratch(text: str, choice: CompareOptions, model: ModelOptions, output: OutputOptions) -> MatrixGrid:
    """Compare variants on random queries, keys and values."""
    from attncli.cli.common import provenance
    from attncli.maps.comparison import compare as compare_variants
    from attncli.maps.views import comparison_view
    from attncli.models.scratch import ScratchSource

    source = ScratchSource(text, heads=choice.heads, d_model=choice.d_model, seed=choice.seed)
    found = compare_variants(
        source.first_projections(), _names(choice, choice.causal), choice.set or (), causal=choice.causal,
        head=choice.head,
    )  # fmt: skip
    return comparison_view(found, source.source_tokens, replace(provenance(), seed=choice.seed))


def _of_a_head(text: str, choice: CompareOptions, model: ModelOptions, output: OutputOptions) -> MatrixGrid:
    """Compare variants on the queries, keys and values of a model's head."""
    from attncli.cli.common import provenance, tell_checks
    from attncli.models.before_loading import Wanted, check_before_loading
    from attncli.models.opening import open_source
    from attncli.observers.selection import parse_selection

    places = [parse_selection(str(choice.head), "head")]
    places += [] if choice.layer is None else [parse_selection(str(choice.layer), "layer")]
    check_before_loading(model, Wanted(text, None, None, places, whole=not model.truncate))
    source = open_source(text, None, model, ScratchOptions(), output)

    from attncli.maps.comparison import HeadInputs
    from attncli.maps.comparison import compare as compare_variants
    from attncli.maps.views import comparison_view, source_title
    from attncli.observers.strongest_head import TellingHeadOfText

    kind = next(kind for kind in source.kinds if kind != "cross")
    tokens = source.axes(kind)[0]
    layer, head = choice.layer or 0, choice.head
    if GIVEN.get().keys().isdisjoint(("--layer", "--head")):
        telling = TellingHeadOfText(kind, tokens, tokens)
        source.run([telling])
        layer, head, _ = telling.found() or (0, 0, 1)
    kept = HeadInputs(kind, layer, head)
    run = source.run([kept])
    if layer not in run.layers(kind):
        raise run.no_attention(kind, layer, str(layer))
    tell_checks(run, output)
    causal = choice.causal or kind == "decoder"
    found = compare_variants(
        kept.projections(), _names(choice, causal), choice.set or (), causal=causal, head=0
    )
    whose = f"queries, keys and values are those of {source_title(run.source)}, layer {layer} head {head}"
    return comparison_view(found, tokens, provenance(run), source=run.source, kind=kind, notes=(whose,))


def _names(choice: CompareOptions, causal: bool) -> list[str]:
    from attncli.maps.comparison import default_variants

    return default_variants(causal) if choice.variants is None else choice.variants.split(",")
