"""attncli schema: Print the JSON Schema (draft 2020-12) of a command's JSON.

Without a command it lists the schemas.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import typer

from attncli import __version__
from attncli.cli.choices import SCHEMAS, Choices
from attncli.cli.command import spread
from attncli.cli.options import ARGV, OutputOptions
from attncli.documents.schema import json_schema, known_forms, schema_id
from attncli.errors import UsageError, did_you_mean
from attncli.record import Provenance
from attncli.view import Column, Header, Table

EXAMPLES = ("attncli schema", "attncli schema show")


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """Whose schema."""

    command: Annotated[
        str | None,
        typer.Argument(metavar="COMMAND", help="The command whose JSON is described.", show_default=False),
        Choices(SCHEMAS),
    ] = None


@spread
def schema(wanted: SchemaOptions, output: OutputOptions) -> None:
    """Print a schema, or list them."""
    from attncli.cli.common import plan_output
    from attncli.cli.output import deliver, deliver_text

    if wanted.command is None:
        plan = plan_output(output, "Table", default="table")
        deliver(schema_list_view(ARGV.get()), plan)
    else:
        text, plan = schema_text(wanted.command), plan_output(output, "Table", default="json")
        if plan.formats != {"json"}:
            raise UsageError("a schema is JSON", "leave --format out, and give a file the ending .json")
        deliver_text(text, plan)


def schema_text(command: str) -> str:
    """Return the JSON Schema of a command's JSON.

    Raises:
        UsageError: No such command, or it has no JSON.
    """
    known = schema_names()
    if command not in known:
        raise UsageError(f"no schema for {command!r}", did_you_mean(command, known))
    return json.dumps(json_schema(command), indent=2, ensure_ascii=False) + "\n"


def schema_names() -> list[str]:
    """Name the commands that have a schema, in alphabetical order."""
    return list(known_forms())


def schema_list_view(argv: tuple[str, ...] = ()) -> Table:
    """List the commands that have a schema, with what their JSON is."""
    return Table(
        header=Header(
            command="schema",
            title="JSON Schemas",
            provenance=Provenance(__version__, argv=argv),
            notes=("attncli schema COMMAND prints one",),
        ),
        columns=(Column("command"), Column("title"), Column("id")),
        rows=tuple((name, form.title, schema_id(name)) for name, form in known_forms().items()),
        rows_name="schemas",
    )
