"""JSON lines, in the long form: one object for each weight."""

from __future__ import annotations

import json

from attncli.registry import Entry
from attncli.render import Options
from attncli.render.json_format import plain
from attncli.render.long_form import records, with_fields
from attncli.view import Curves, HeadRanking, Steps, Table, View

ENTRY = Entry(
    name="ndjson",
    summary="JSON lines, one object for each weight",
    attributes={
        "suffixes": (".ndjson", ".jsonl"),
        "views": ("MatrixGrid", "Table", "Curves", "HeadRanking", "Steps"),
        "binary": False,
        "bytes_per_weight": 120,
    },
)


def render(view: View, options: Options) -> bytes:
    """Write a view as JSON lines in ASCII, undefined numbers as null."""
    if isinstance(view, Curves | HeadRanking | Steps):
        view = view.data
    if options.fields:
        view = with_fields(view, options.fields)
    if isinstance(view, Table):
        return "".join(_table_lines(view)).encode("ascii")
    return "".join(records(view)).encode("ascii")


def _table_lines(table: Table) -> list[str]:
    names = [column.name for column in table.columns]
    objects = ({name: plain(value) for name, value in zip(names, row, strict=True)} for row in table.rows)
    return [json.dumps(record, allow_nan=False) + "\n" for record in objects]
