"""attncli compare: Show what each attention variant keeps of full attention, on the same queries, keys and values.

For each variant its effective weights, and how far its output is from full attention's: the relative error over all
heads, and the mean divergence of its rows, KL(variant ‖ full), in bits. A causal variant is compared with causal full
attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from attncli.cli.choices import Choices, entries_of
from attncli.cli.command import spread
from attncli.cli.options import OutputOptions, TextInput

EXAMPLES = (
    'attncli compare "The animal did not cross the street because it was too tired."',
    'attncli compare "The animal was too tired." --variants full,sliding-window,linear --causal',
    'attncli compare "The animal was too tired." --set sliding-window.window=2 --format table',
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
    ] = None
    causal: Annotated[bool, typer.Option("--causal", help="Hide later keys in all of them.")] = False
    heads: Annotated[int, typer.Option(metavar="N", min=1, help="Heads of the scratch model.")] = 4
    head: Annotated[int, typer.Option(metavar="N", min=0, help="The head whose weights are shown.")] = 0
    d_model: Annotated[int, typer.Option(metavar="N", min=2, help="Vector size of the scratch model.")] = 64
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the scratch model's weights.")] = 0


@spread
def compare(text: TextInput, choice: CompareOptions, output: OutputOptions) -> None:
    """Compare variants."""
    from attncli.cli.common import plan_output, provenance
    from attncli.cli.output import deliver
    from attncli.errors import UsageError
    from attncli.inputs.media import refuse_medium

    plan = plan_output(output, "MatrixGrid")
    if choice.head >= choice.heads:
        raise UsageError(
            f"--head {choice.head}: out of range", f"there are heads 0 to {choice.heads - 1} (--heads)"
        )
    sentence = text.read("compare")
    refuse_medium(sentence)

    from attncli.maps import comparison
    from attncli.maps.views import comparison_view
    from attncli.models.scratch import ScratchSource

    source = ScratchSource(sentence, heads=choice.heads, d_model=choice.d_model, seed=choice.seed)
    names = (
        comparison.default_variants(choice.causal) if choice.variants is None else choice.variants.split(",")
    )
    found = comparison.compare(source, names, choice.set or (), causal=choice.causal, head=choice.head)
    deliver(comparison_view(found, source.source_tokens, provenance(), choice.seed), plan)
