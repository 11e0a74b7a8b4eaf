"""``show --aggregate``: attention through all layers, as a map of the output positions over the input's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from attncli.cli.choices import Choices
from attncli.cli.rules import Rule as OptionRule
from attncli.errors import UsageError, did_you_mean
from attncli.labels import in_ranges
from attncli.record import Kind, Run, Token, Tokens
from attncli.view import Header, Matrix, MatrixGrid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from attncli.maps.rollout import Rule
    from attncli.models.opening import Opened

WAYS = ("rollout", "flow")
_NOT_SHOWN = "weights alone: what values carry, MLPs, and what later layers cancel are not in it (Abnar & Zuidema 2020)"


@dataclass(frozen=True, slots=True)
class AggregateOptions:
    """How layers are put together."""

    panel: ClassVar[str] = "All layers together"
    rules: ClassVar = (
        OptionRule("--residual --fuse --discard --from", needs="--aggregate", hint="add --aggregate rollout"),
        OptionRule(
            "--aggregate",
            excludes="--layer --head --words --spans --pool --rows --stride --generate --each-line",
            hint="it takes all layers and heads; choose rows with --query, columns with --key",
        ),
        OptionRule("--from", excludes="--query", hint="give one of them"),
    )

    aggregate: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="rollout, or flow (maximum flow, for short texts)."),
        Choices(WAYS),
    ] = None
    residual: Annotated[
        float,
        typer.Option(metavar="X", min=0.0, max=0.99, help="Share of the residual connection in each layer."),
    ] = 0.5
    fuse: Annotated[
        str,
        typer.Option(metavar="HOW", help="Make one matrix of a layer's heads: mean, max or min."),
        Choices(("mean", "max", "min")),
    ] = "mean"
    discard: Annotated[
        float,
        typer.Option(metavar="X", min=0.0, max=0.99, help="Set this share of the smallest weights to 0."),
    ] = 0.0
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TOKEN",
            help="Follow one output position layer by layer, from the last one down.",
        ),
    ] = None


@dataclass(frozen=True)
class Together:
    """What `aggregated` made."""

    view: MatrixGrid
    run: Run


def aggregated(
    source: Opened, kind: Kind, how: AggregateOptions, query: str | None, key: str | None, top: int | None
) -> Together:
    """Put all layers of a source together.

    Args:
        query: Which output positions; all where None.
        key: Which input positions.
        top: How many keys of a row formats that list show.

    Raises:
        UsageError: An option is wrong, or the attention is not among the tokens of one text.
    """
    from attncli.cli.common import provenance
    from attncli.inputs.token_selection import pick
    from attncli.maps.rollout import FUSIONS, Rule, flow, rollout
    from attncli.maps.views import source_title

    if how.aggregate not in WAYS:
        raise UsageError(
            f"--aggregate {how.aggregate}: unknown value", did_you_mean(str(how.aggregate), WAYS)
        )
    if how.fuse not in FUSIONS:
        raise UsageError(f"--fuse {how.fuse}: unknown value", did_you_mean(how.fuse, FUSIONS))
    if kind == "cross":
        raise UsageError(
            f"--aggregate {how.aggregate} is for self-attention: rows and keys must be the same tokens",
            "--kind encoder or --kind decoder",
        )
    tokens = source.axes(kind)[0]
    rule = Rule(how.fuse, how.residual, how.discard)
    asked = how.from_ if how.from_ is not None else query
    rows = list(range(len(tokens))) if asked is None else list(pick(tokens, asked))
    columns = None if key is None else list(pick(tokens, key))
    if how.from_ is not None and (len(rows) != 1 or how.aggregate != "rollout"):
        raise UsageError("--from follows one output position by rollout", "name one token, such as --from -1")
    depth = source.depth(kind)
    if how.aggregate == "rollout":
        layers, states, run = rollout(source, kind, depth, rows, len(tokens), rule)
        values = states[-1] if how.from_ is None else states[:, 0]
    else:
        layers, values, run = flow(source, kind, depth, rows, len(tokens), rule)
    shown = tuple(tokens[row] for row in rows) if how.from_ is None else _layers(layers)
    across = tokens if columns is None else tuple(tokens[column] for column in columns)
    numbers = values.numpy() if columns is None else values.numpy()[:, columns]
    allowed = None if kind != "decoder" or how.from_ is not None else _past(rows, columns, len(tokens))
    where = "" if how.from_ is None else f' from "{tokens[rows[0]].label}" down'
    header = Header(
        command="show",
        title=f"{source_title(run.source)} · attention {how.aggregate} through {len(layers)} {kind} layers{where}",
        provenance=provenance(run),
        source=run.source,
        notes=(*run.notes, _rule_note(rule, depth, layers), _NOT_SHOWN),
    )
    about = (
        "output positions over input positions"
        if how.from_ is None
        else "each row goes one layer further down"
    )
    matrix = Matrix(numbers, allowed, kind=kind, label=str(how.aggregate))
    return Together(MatrixGrid(header, (matrix,), shown, across, top=top, about=about), run)


def _rule_note(rule: Rule, depth: int, layers: Sequence[int]) -> str:
    parts = [
        f"{rule.fusion} of heads",
        f"residual share {rule.residual:g}",
        *([f"smallest {100 * rule.discard:g} % of weights set to 0"] if rule.discard else []),
        "rows sum to 1",
    ]
    if len(layers) < depth:
        parts.append(f"layers without attention are passed by: only {in_ranges(layers)} of {depth}")
    return "; ".join(parts)


def _layers(layers: Sequence[int]) -> Tokens:
    """Return a row for each layer, from the last one down."""
    last = layers[0]
    texts = [f"layer {last}" if layer == last else f"layers {layer}–{last}" for layer in layers]
    return tuple(Token(place, None, text, text) for place, text in enumerate(texts))


def _past(rows: Sequence[int], columns: Sequence[int] | None, length: int) -> NDArray[np.bool_]:
    import numpy as np

    keys = np.arange(length) if columns is None else np.array(columns)
    return keys[None] <= np.array(rows)[:, None]
