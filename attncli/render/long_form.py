"""The long form: one line for each weight, for spreadsheets, data frames and line-by-line tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

from attncli.errors import UsageError, did_you_mean
from attncli.labels import visible_controls
from attncli.record import Token
from attncli.render import Options
from attncli.render.grid_text import float_texts, matrix_texts, strongest_keys
from attncli.render.json_format import plain
from attncli.view import Column, Curves, HeadRanking, Matrix, MatrixGrid, Steps, Table, View

_FORMULA_STARTS = ("=", "+", "-", "@", "⇥", "␍")


def columns(grid: MatrixGrid) -> tuple[str, ...]:
    """Name the columns of the long form; ``name`` stands first where matrices have labels."""
    number = "allowed" if grid.unit == "mask" else "weight"
    return (*_place_columns(grid), "query", "key", "query_token", "key_token", number)


def _place_columns(grid: MatrixGrid) -> tuple[str, ...]:
    named = any(matrix.label is not None for matrix in grid.matrices)
    return (*(["name"] if named else []), "kind", "layer", "head")


def _place(grid: MatrixGrid, matrix: Matrix) -> dict[str, object]:
    values = {"name": matrix.label, "kind": matrix.kind, "layer": matrix.layer, "head": matrix.head}
    return {name: values[name] for name in _place_columns(grid)}


def separated(view: View, options: Options, separator: str, line_end: str) -> bytes:
    """Write a view as lines of separated values with a heading line; controls in a text are made visible."""

    def cell(value: object) -> str:
        text = visible_controls(cell_text(value))
        guarded = options.csv_safe and isinstance(value, str) and text.startswith(_FORMULA_STARTS)
        return quoted("'" + text if guarded else text, separator)

    if isinstance(view, Curves | HeadRanking | Steps):
        view = view.data
    if options.fields:
        view = with_fields(view, options.fields)
    if isinstance(view, Table):
        lines = [[column.name for column in view.columns], *view.rows]
        text = "".join(separator.join(map(cell, line)) + line_end for line in lines)
    else:
        heading = separator.join(columns(view)) + line_end
        text = heading + "".join(_grid_lines(view, separator, line_end, cell))
    return text.encode()


def with_fields(view: Table | MatrixGrid, names: Sequence[str]) -> Table:
    """Return a view's long form with some of its fields, in the order asked for.

    Raises:
        UsageError: It has no such field.
    """
    if isinstance(view, Table):
        known = [column.name for column in view.columns]
        rows: Iterator[Sequence[object]] = iter(view.rows)
    else:
        known = list(columns(view))
        rows = (tuple(json.loads(line).values()) for line in records(view))
    for name in names:
        if name not in known:
            raise UsageError(f"--fields {name}: this answer has no such field", did_you_mean(name, known))
    places = [known.index(name) for name in names]
    chosen = tuple(tuple(row[place] for place in places) for row in rows)
    return Table(view.header, tuple(Column(name) for name in names), chosen)


def quoted(text: str, separator: str) -> str:
    """Quote a cell where a reader of separated values would take something in it for a mark (RFC 4180)."""
    return '"' + text.replace('"', '""') + '"' if '"' in text or separator in text else text


def cell_text(value: object) -> str:
    """Write one value of a table: nothing for None, true or false, lists and the like as JSON."""
    value = plain(value)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _grid_lines(
    grid: MatrixGrid, separator: str, line_end: str, cell: Callable[[object], str]
) -> Iterator[str]:
    queries = [(str(token.position), cell(_text(token))) for token in grid.query_tokens]
    keys = [(str(token.position), cell(_text(token))) for token in grid.key_tokens]
    for matrix in grid.matrices:
        place = separator.join(map(cell, _place(grid, matrix).values()))
        for (query, query_token), (shown, numbers) in zip(queries, _rows(grid, matrix), strict=True):
            start = f"{place}{separator}{query}{separator}"
            middle = f"{separator}{query_token}{separator}"
            for key, number in zip(shown, numbers, strict=True):
                position, token = keys[key]
                yield f"{start}{position}{middle}{token}{separator}{number}{line_end}"


def records(grid: MatrixGrid) -> Iterator[str]:
    """Write each weight as a JSON object on a line of its own."""
    number = columns(grid)[-1]
    queries = [(token.position, json.dumps(_text(token))) for token in grid.query_tokens]
    keys = [(token.position, json.dumps(_text(token))) for token in grid.key_tokens]
    for matrix in grid.matrices:
        place = json.dumps(_place(grid, matrix))[:-1]
        for (query, query_token), (shown, numbers) in zip(queries, _rows(grid, matrix), strict=True):
            start = f'{place}, "query": {query}, "key": '
            middle = f', "query_token": {query_token}, "key_token": '
            for key, text in zip(shown, numbers, strict=True):
                position, token = keys[key]
                yield f'{start}{position}{middle}{token}, "{number}": {text or "null"}}}\n'


def _text(token: Token) -> str:
    """Return what a token stands for: bytes of a character that was cut apart as such."""
    return token.label if token.bytes else token.text


def _rows(grid: MatrixGrid, matrix: Matrix) -> Iterator[tuple[Sequence[int], list[str]]]:
    """Yield each row's columns and numbers, all or only the strongest; an undefined number is empty."""
    if grid.top is None:
        every = range(len(grid.key_tokens))
        for shown, numbers in zip(repeat(every), matrix_texts(matrix, grid.unit)):
            yield shown, _defined(numbers)
    else:
        for row in strongest_keys(matrix, grid.top):
            numbers = (
                [f"{value:.0f}" for value in row.values] if grid.unit == "mask" else float_texts(row.values)
            )
            yield row.columns, _defined(numbers)


def _defined(numbers: list[str]) -> list[str]:
    return ["" if text in ("nan", "inf", "-inf") else text for text in numbers]
