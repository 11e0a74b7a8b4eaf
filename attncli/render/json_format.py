"""JSON: everything, for scripts. Its keys are documented and only ever added to."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, cast

from attncli.record import Provenance, Token
from attncli.registry import Entry
from attncli.render import Options
from attncli.render.grid_text import float_texts, strongest_keys
from attncli.view import SCHEMA, Curves, Header, HeadRanking, Matrix, MatrixGrid, Steps, Table, View

if TYPE_CHECKING:
    import numpy as np

ENTRY = Entry(
    name="json",
    summary="One JSON document with everything: tokens, weights, source, provenance",
    attributes={
        "suffixes": (".json",),
        "views": ("MatrixGrid", "Table", "Curves", "HeadRanking", "Steps"),
        "binary": False,
        "bytes_per_weight": 60,
    },
)


_TOKEN_FIELDS = tuple(field.name for field in fields(Token))


def render(view: View, options: Options) -> bytes:
    """Write a view as one JSON document in ASCII, undefined numbers as null."""
    parts = [f"{_text(key)}: {_spread(value)}" for key, value in document(view).items()]
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode("ascii")


def record(view: View, about: Mapping[str, Any]) -> bytes:
    """Write a view as one line, in ASCII.

    Args:
        about: What stands first: which of many views it is.
    """
    text = json.dumps({**about, **document(view)}, default=_spelled_out, allow_nan=False)
    return (text + "\n").encode("ascii")


def document(view: View, *, weights: bool = True) -> dict[str, Any]:
    """Return what the JSON document holds, numbers still as arrays.

    Args:
        weights: Whether the numbers themselves are in it; without them it describes a file that has them.
    """
    if isinstance(view, Table):
        return _table_document(view)
    if isinstance(view, Curves | HeadRanking | Steps):
        body = {key: plain(value) for key, value in view.document.items()}
        source = {"source": asdict(view.header.source)} if view.header.source else {}
        return {**_head(view.header), "title": view.header.title, **source, **body, **_tail(view.header)}
    return {
        **_head(view.header),
        "title": view.header.title,
        "unit": view.unit,
        **({} if view.top is None else {"top": view.top}),
        "source": asdict(view.header.source) if view.header.source else None,
        "query_tokens": [_token(token) for token in view.query_tokens],
        "key_tokens": [_token(token) for token in view.key_tokens],
        **({"pooled": asdict(view.pooled)} if view.pooled else {}),
        "attention": [_attention(view, index, weights) for index in range(len(view.matrices))],
        **_tail(view.header),
    }


def plain(value: object) -> Any:
    """Turn a table's value into what JSON has; an undefined number becomes None, NumPy's plain ones."""
    if isinstance(value, Token):
        return _token(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, Sequence):
        return [plain(part) for part in value]
    if getattr(value, "dtype", None) == "float32" and not getattr(value, "shape", ()):
        return plain(float(str(value)))  # the short decimal, not its float64 expansion
    if getattr(value, "dtype", None) == "float32" and len(getattr(value, "shape", ())) == 1:
        return [plain(part) for part in cast(Sequence[object], value)]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


def _head(header: Header) -> dict[str, Any]:
    return {"schema": SCHEMA, "command": header.command}


def _tail(header: Header) -> dict[str, Any]:
    return {"notes": list(header.notes), "provenance": _provenance(header.provenance)}


def _provenance(provenance: Provenance) -> dict[str, Any]:
    fields = asdict(provenance)
    if provenance.original is None:
        del fields["original"]
    else:
        fields["original"] = _provenance(provenance.original)
    return fields


def _table_document(table: Table) -> dict[str, Any]:
    names = [column.name for column in table.columns]
    source = {"source": asdict(table.header.source)} if table.header.source else {}
    rows = [{name: plain(value) for name, value in zip(names, row, strict=True)} for row in table.rows]
    extra = {key: plain(value) for key, value in table.extra.items()}
    return {**_head(table.header), **source, table.rows_name: rows, **extra, **_tail(table.header)}


def _token(token: Token) -> dict[str, Any]:
    fields = {
        name: getattr(token, name) for name in _TOKEN_FIELDS
    }  # `asdict` copies, and takes ten times as long
    if token.piece in (None, token.text):
        del fields["piece"]
    if token.written == token.text:
        del fields["written"]
    for name in ("bytes", "segment", "written"):
        if fields.get(name, token) is None:
            del fields[name]
    return fields


def _attention(grid: MatrixGrid, index: int, weights: bool) -> dict[str, Any]:
    matrix = grid.matrices[index]
    entry: dict[str, Any] = {} if matrix.label is None else {"name": matrix.label}
    entry |= {"kind": matrix.kind, "layer": matrix.layer, "head": matrix.head}
    if matrix.kv_head is not None:
        entry["kv_head"] = matrix.kv_head
    entry["shape"] = list(matrix.shape)
    if weights:
        entry |= _numbers(grid, matrix)
    facts = grid.facts[index] if grid.facts else {}
    return entry | {key: plain(value) for key, value in facts.items()}


def _numbers(grid: MatrixGrid, matrix: Matrix) -> dict[str, Any]:
    if grid.top is not None:
        return {"top": _top(grid, matrix, grid.top)} | _allowed_keys(grid, matrix)
    if grid.unit == "mask":
        return {"allowed": (matrix.values > 0).astype("uint8")}
    return {"weights": matrix.values} | _allowed_keys(grid, matrix)


def _allowed_keys(grid: MatrixGrid, matrix: Matrix) -> dict[str, Any]:
    """Return which columns each row may attend to, as ranges of column numbers with both ends in."""
    import numpy as np

    if matrix.listed is not None:
        spans = matrix.listed.spans
        return {} if spans is None else {"allowed_keys": [row.tolist() for row in spans]}
    if grid.unit == "mask" or matrix.allowed is None or matrix.allowed.all():
        return {}
    edges = np.diff(matrix.allowed.astype(np.int8), axis=1, prepend=0, append=0)
    rows = [(np.flatnonzero(row == 1), np.flatnonzero(row == -1) - 1) for row in edges]
    return {"allowed_keys": [np.stack(ends, axis=1).tolist() for ends in rows]}


def _top(grid: MatrixGrid, matrix: Matrix, top: int) -> list[list[dict[str, Any]]]:
    """List each row's strongest keys by their true position, as the long forms do."""
    from numpy import float32

    name, number = ("allowed", int) if grid.unit == "mask" else ("weight", float32)
    positions = [token.position for token in grid.key_tokens]
    return [
        [
            {"key": positions[key], name: number(value)}
            for key, value in zip(row.columns, row.values, strict=True)
        ]
        for row in strongest_keys(matrix, top)
    ]


def _spread(value: object) -> str:
    """Write a list of records one a line, so that a person can read the file and a diff stays small."""
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return "[\n  " + ",\n  ".join(_text(part) for part in value) + "\n]"
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {_text(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    if hasattr(value, "dtype"):
        return _array_text(value)
    return json.dumps(value, allow_nan=False)


def _array_text(array: np.ndarray[Any, Any]) -> str:
    if array.ndim == 0:
        return json.dumps(plain(array[()]))
    return "[" + ", ".join("[" + ", ".join(row) + "]" for row in _row_texts(array)) + "]"


def _spelled_out(array: Any) -> Any:
    """Return an array's numbers in their short decimal form."""
    if array.ndim == 0 and array.dtype.kind == "f":
        return plain(float(str(array)))
    if array.dtype.kind != "f":
        return array.tolist()
    return [[None if text == "nan" else float(text) for text in float_texts(row)] for row in array]


def _row_texts(array: np.ndarray[Any, Any]) -> Iterator[list[str]]:
    if array.dtype.kind != "f":
        yield from ([str(value) for value in row.tolist()] for row in array)
        return
    for row in array:
        yield ["null" if text == "nan" else text for text in float_texts(row)]
