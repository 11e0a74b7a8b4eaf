"""attncli list: List the available variants, masks, inputs, formats, metrics, sources and models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from attncli import __version__
from attncli.cli.choices import Choices
from attncli.cli.command import spread
from attncli.cli.options import ARGV, OutputOptions
from attncli.errors import UsageError, did_you_mean
from attncli.record import Provenance
from attncli.registry import FOLDERS, Entry, Parameter, entries
from attncli.view import Column, Header, Table

EXAMPLES = ("attncli list", "attncli list masks --json")

KINDS = (*FOLDERS, "models")


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which kind of thing."""

    kind: Annotated[
        str | None,
        typer.Argument(metavar="KIND", help=f"One of: {', '.join(KINDS)}.", show_default=False),
        Choices(KINDS),
    ] = None


@spread
def list_(wanted: ListOptions, output: OutputOptions) -> None:
    """List what there is to choose from."""
    from attncli.cli.common import plan_output
    from attncli.cli.output import deliver

    plan = plan_output(output, "Table", default="table")
    deliver(list_view(wanted.kind, ARGV.get()), plan)


def list_view(kind: str | None = None, argv: tuple[str, ...] = ()) -> Table:
    """List what there is of a kind, or how much there is of every kind.

    Raises:
        UsageError: There is unknown kind.
    """
    if kind is None:
        return _overview(argv)
    if kind == "models":
        return _models(argv)
    if kind not in FOLDERS:
        raise UsageError(f"cannot list {kind!r}", did_you_mean(kind, KINDS))
    return _entries(kind, argv)


def _overview(argv: tuple[str, ...]) -> Table:
    from attncli.models.folders import cached_models
    from attncli.models.shipped import shipped_models

    models = (*shipped_models(), *cached_models())
    names = {kind: tuple(entries(kind)) for kind in FOLDERS} | {"models": models}
    return Table(
        header=_header("what there is to choose from", argv, ("attncli list KIND says more",)),
        columns=(Column("kind"), Column("count"), Column("names")),
        rows=tuple((kind, len(found), found) for kind, found in names.items()),
        rows_name="kinds",
    )


def _entries(kind: str, argv: tuple[str, ...]) -> Table:
    known = entries(kind)
    columns = [Column("name"), Column("summary")]
    if kind == "metrics":
        columns += [Column("unit"), Column("null")]
    if any(entry.parameters for entry in known.values()):
        columns.append(Column("parameters"))
    if any(entry.reference for entry in known.values()):
        columns.append(Column("reference"))
    patterns = f"attncli mask also shows the pattern of each variant: {', '.join(entries('variants'))}"
    return Table(
        header=_header(kind, argv, (patterns,) if kind == "masks" else ()),
        columns=tuple(columns),
        rows=tuple(tuple(_cell(entry, column.name) for column in columns) for entry in known.values()),
        rows_name=kind,
        extra={"details": {name: _details(entry) for name, entry in known.items()}},
    )


def _models(argv: tuple[str, ...]) -> Table:
    from attncli.models.folders import cached_models, hub_cache, resolve_cached
    from attncli.models.shipped import MODELS, card, shipped_models

    found, ours = cached_models(), shipped_models()
    note = "--model also takes any model's folder" + ("" if found else f"; no model in {hub_cache()}")
    return Table(
        header=_header("models that come with attncli, and those in the hub's cache", argv, (note,)),
        columns=(Column("name"), Column("summary"), Column("folder")),
        rows=(
            *((name, card(name).summary, str(MODELS / name)) for name in ours),
            *((name, None, str(resolve_cached(name))) for name in found),
        ),
        rows_name="models",
        extra={"cache": str(hub_cache())},
    )


def _cell(entry: Entry, column: str) -> object:
    if column == "parameters":
        return tuple(f"{parameter.name}={parameter.default}" for parameter in entry.parameters)
    if column in ("unit", "null"):
        return entry.attributes.get(column)
    return getattr(entry, column)


def _details(entry: Entry) -> Mapping[str, object]:
    """Return what a table has no room for, of one entry."""
    return {
        "parameters": [_parameter(parameter) for parameter in entry.parameters],
        "attributes": dict(entry.attributes),
    }


def _parameter(parameter: Parameter) -> Mapping[str, object]:
    return {
        "name": parameter.name,
        "default": parameter.default,
        "meaning": parameter.meaning,
        "minimum": parameter.minimum,
        "maximum": parameter.maximum,
        "choices": list(parameter.choices),
    }


def _header(title: str, argv: tuple[str, ...], notes: tuple[str, ...] = ()) -> Header:
    return Header(command="list", title=title, provenance=Provenance(__version__, argv=argv), notes=notes)
