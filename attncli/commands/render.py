"""attncli render: Draw a saved run again, in any form: a picture, a table, data.

FILE is what show, mask, compare, bench, heads or find wrote with -o run.json (or -o run.npz); - reads it from stdin. No
model is loaded: capture on a large machine, look at it on a small one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.commands._options import OutputOptions, spread

if TYPE_CHECKING:
    from attncli.record import Provenance
    from attncli.view import Curves, HeadRanking, MatrixGrid

EXAMPLES = (
    "attncli render run.npz",
    "attncli render run.npz --layer 4 --head 7 -o head.png",
    "attncli render run.npz --query it --format table --top 3",
    "attncli render run.json --head mean -o heads.svg -o heads.csv",
    "attncli render bench.json -o bench.svg",
    "attncli render heads.json --format heatmap",
)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which run, and which part of it."""

    file: Annotated[str, typer.Argument(metavar="FILE", help="A saved run, .npz or .json; - is stdin.")]
    layer: Annotated[str, typer.Option(metavar="N", help="0-based: 3, 0,2,5-7, -1 (last), all or mean.")] = (
        "all"
    )
    head: Annotated[str, typer.Option(metavar="N", help="0-based: 3, 0,2,5-7, -1 (last), all or mean.")] = (
        "all"
    )
    query: Annotated[
        str | None,
        typer.Option(metavar="TOKENS", help="Rows to show, by position or text: 3, 2-5, it, it:2."),
    ] = None
    key: Annotated[
        str | None, typer.Option(metavar="TOKENS", help="Columns to show, by position or text.")
    ] = None
    top: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="List only the K strongest keys of each row.")
    ] = None

    @property
    def keeps_lists(self) -> bool:
        """Whether lists of strongest keys stay lists: no mean is asked for, and no picked tokens."""
        whole = self.query is None and self.key is None
        return whole and not any("mean" in asked for asked in (self.layer, self.head))

    def refuse_parts(self, view: Curves | HeadRanking) -> None:
        """Refuse to draw a part of a run that has no matrices.

        Raises:
            UsageError: A part was asked for.
        """
        from attncli.errors import UsageError

        whole, what = (
            Choice(self.file),
            "a benchmark" if view.header.command == "bench" else "a ranking of heads",
        )
        for name in ("layer", "head", "query", "key", "top"):
            if getattr(self, name) != getattr(whole, name):
                raise UsageError(f"--{name}: {what} is drawn whole", "leave it out")


@spread
def render(choice: Choice, output: OutputOptions) -> None:
    """Draw a saved run."""
    from dataclasses import replace

    from attncli.commands._running import plan_output
    from attncli.delivery import deliver
    from attncli.saved.reading import load_run
    from attncli.view import MatrixGrid

    view = load_run(choice.file)
    header = replace(view.header, provenance=_drawn_again(view.header.provenance))
    if isinstance(view, MatrixGrid):
        _draw(replace(view, header=header), choice, output)
    else:
        choice.refuse_parts(view)
        deliver(replace(view, header=header), plan_output(output, type(view).__name__, default="table"))


def _draw(grid: MatrixGrid, choice: Choice, output: OutputOptions) -> None:
    """Draw a part of a run's matrices."""
    from attncli.commands._running import plan_output
    from attncli.delivery import deliver, say
    from attncli.saved.choosing import choose_heads, choose_tokens, choose_top, fill, holds_only_strongest

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
    from attncli.commands._options import ARGV
    from attncli.record import Provenance

    original = made if made.original is None else made.original
    return Provenance(__version__, argv=ARGV.get(), seed=made.seed, original=original)
