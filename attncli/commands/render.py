"""attncli render: Draw a saved run again in any format: a picture, a table, data.

FILE is what show, mask, compare, bench, heads or find wrote with -o run.json (or -o run.npz); - reads it from stdin. No
model is loaded: capture on a large machine, look at it on a small one. The heads of a ranking are ranked again by any
metric in the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from attncli.cli.command import spread
from attncli.cli.options import KeyTokens, NumbersOrMean, OutputOptions, QueryTokens
from attncli.cli.rules import Rule, check_rules

if TYPE_CHECKING:
    from attncli.record import Provenance
    from attncli.view import HeadRanking, MatrixGrid

EXAMPLES = (
    "attncli render run.npz",
    "attncli render run.npz --layer 4 --head 7 -o head.png",
    "attncli render run.npz --query it --format table --top 3",
    "attncli render run.json --head mean -o heads.svg -o heads.csv",
    "attncli render bench.json -o bench.svg",
    "attncli render heads.json --format heatmap",
    'attncli render heads.json --by entropy --top 5 --where "layer < 3" -o heads.png',
)


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """Which run, and which part of it."""

    rules: ClassVar = (
        Rule(
            "--by --ascending --where --groups",
            excludes="@maps",
            hint="attncli heads … -o heads.json saves a ranking",
        ),
        Rule("--query --key", excludes="@ranking", hint="a ranking has no tokens"),
        Rule(
            "--layer --head --query --key --top --by --ascending --where --groups",
            excludes="@finding @difference @curves",
            unless="all",
            hint="leave it out: it is drawn whole",
        ),
    )

    file: Annotated[str, typer.Argument(metavar="FILE", help="A saved run, .npz or .json; - is stdin.")]
    layer: NumbersOrMean = "all"
    head: NumbersOrMean = "all"
    query: QueryTokens = None
    key: KeyTokens = None
    top: Annotated[
        int | None,
        typer.Option(
            metavar="K", min=1, help="Only each row's K strongest keys; of a ranking, its first K heads."
        ),
    ] = None
    by: Annotated[
        str | None,
        typer.Option(metavar="METRIC", help="Rank the heads of a ranking by this, or by role."),
    ] = None
    ascending: Annotated[bool, typer.Option("--ascending", help="Of a ranking, the smallest first.")] = False
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help='Of a ranking, only some: "entropy < 1 and layer < 6".'),
    ] = None

    groups: Annotated[bool, typer.Option("--groups", help="Of a ranking, which heads do the same.")] = False

    @property
    def keeps_lists(self) -> bool:
        """Whether lists of strongest keys stay lists: no mean is asked for, and no picked tokens."""
        whole = self.query is None and self.key is None
        return whole and not any(how in asked for how in ("mean", "max") for asked in (self.layer, self.head))


_FACTS = {"heads": "@ranking", "find": "@finding", "diff": "@difference", "bench": "@curves"}


@spread
def render(choice: RenderOptions, output: OutputOptions) -> None:
    """Draw a saved run."""
    from dataclasses import replace

    from attncli.cli.common import plan_output
    from attncli.cli.output import deliver
    from attncli.documents.reading import load_run
    from attncli.view import HeadRanking, MatrixGrid

    view = load_run(choice.file)
    check_rules(choice.rules, "@maps" if isinstance(view, MatrixGrid) else _FACTS[view.header.command])
    view = replace(view, header=replace(view.header, provenance=_drawn_again(view.header.provenance)))
    if isinstance(view, MatrixGrid):
        _draw(view, choice, output)
        return
    plan = plan_output(output, type(view).__name__, default="table")
    deliver(_ranked(view, choice) if isinstance(view, HeadRanking) else view, plan)


def _ranked(view: HeadRanking, choice: RenderOptions) -> HeadRanking:
    """Rank heads as they are asked for, or leave them as they were saved."""
    from attncli.heads.rerank import Again, rank_again
    from attncli.labels import safe_label

    parts = choice.layer, choice.head
    again = Again(choice.by, choice.ascending, choice.top, choice.where, *parts, choice.groups)
    name = "stdin" if choice.file == "-" else safe_label(choice.file)
    return view if again == Again() else rank_again(view, again, name)


def _draw(grid: MatrixGrid, choice: RenderOptions, output: OutputOptions) -> None:
    """Draw a part of a run's matrices."""
    from attncli.cli.common import plan_output
    from attncli.cli.output import deliver, say
    from attncli.maps.saved_selection import (
        choose_heads,
        choose_tokens,
        choose_top,
        fill,
        holds_only_strongest,
    )

    listing = choice.top is not None or grid.top is not None
    plan = plan_output(output, "MatrixGrid", top=choice.top, default="table" if listing else "heatmap")
    grid = grid if choice.keeps_lists and plan.lists else fill(grid)
    grid = choose_tokens(choose_heads(grid, choice.layer, choice.head), choice.query, choice.key)
    grid = grid if choice.top is None else choose_top(grid, choice.top)
    if holds_only_strongest(grid) and not output.quiet:
        say(f"note: only the {grid.top} strongest keys of each row were saved; the others are undefined")
    deliver(grid, plan)


def _drawn_again(made: Provenance) -> Provenance:
    from attncli import __version__
    from attncli.cli.options import ARGV
    from attncli.record import Provenance

    original = made if made.original is None else made.original
    return Provenance(__version__, argv=ARGV.get(), seed=made.seed, original=original)
