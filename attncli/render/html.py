"""HTML: one page with everything in it, that opens from disk without a network.

The page holds the view as JSON, its numbers as compressed bytes, and the script and style beside this file
(`page/app.js`, `page/style.css`). Its Content-Security-Policy lets it run that script and nothing else, and load
nothing. Text from a model is only ever set as text.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from attncli.axis_cells import cell_tokens, even_cuts
from attncli.record import Token, Tokens
from attncli.registry import Entry
from attncli.render import Options
from attncli.render.grid_text import short_names
from attncli.render.json_format import plain
from attncli.render.pooling import field_of, pool, size_text
from attncli.render.scales import ranking_scale, scale_of
from attncli.view import Curves, Header, HeadRanking, MatrixGrid, Picture, Step, Steps, Table, View

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ENTRY = Entry(
    name="html",
    summary="one HTML page to look at heads, rows and tokens; opens without a network",
    attributes={
        "suffixes": (".html", ".htm"),
        "views": ("MatrixGrid", "Table", "Curves", "HeadRanking", "Steps"),
        "binary": False,
        "draws": True,
        "notes": True,
    },
)

EXACT_CELLS = 60_000
"""Up to so many weights are written as they are, in float32; more of them in 255 steps of a square-root scale."""

MOST_CELLS = 1_000_000
"""Weights in a page at most; larger maps are pooled by their largest weight."""

_STRONGEST_BYTES = 240_000
_ROW_BYTES = 150_000
_FORBIDDEN = 255


def render(view: View, options: Options) -> bytes:
    """Write the page."""
    data = json.dumps(_payload(view, options), separators=(",", ":"), ensure_ascii=True)
    data = data.replace("<", "\\u003c")  # so that no text ends the script element
    script, style = _asset("app.js"), _asset("style.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    title = _escaped(view.header.title)
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header id="top"><h1>{title}</h1></header>
<main id="app"></main>
<noscript><p>This page needs JavaScript. The command that made it also writes tables: -f table.</p></noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""
    return page.encode("utf-8")


def _asset(name: str) -> str:
    return (files("attncli.render") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _escaped(text: str) -> str:
    from html import escape

    return escape(text)


def _payload(view: View, options: Options) -> dict[str, Any]:
    head = _head(view.header)
    if isinstance(view, MatrixGrid):
        return {**head, "grid": _grid(view, options)}
    if isinstance(view, HeadRanking):
        return {**head, "ranking": _ranking(view, options), "tables": [_table(one) for one in view.tables]}
    if isinstance(view, Steps):
        return {**head, "steps": [_step(step) for step in view.steps], "tables": []}
    tables = view.tables if isinstance(view, Curves) else (view,)
    return {**head, "tables": [_table(one) for one in tables]}


def _head(header: Header) -> dict[str, Any]:
    source = None if header.source is None else {k: v for k, v in asdict(header.source).items() if v}
    return {
        "command": header.command,
        "title": header.title,
        "notes": list(header.notes),
        "version": header.provenance.attncli,
        "source": source,
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "formula": step.formula,
        "shape": step.shape,
        "about": list(step.about),
        "tables": [_table(table) for table in step.tables],
    }


def _table(table: Table) -> dict[str, Any]:
    columns = [
        {"title": column.title or column.name.replace("_", " "), "unit": column.unit, "digits": column.digits}
        for column in table.columns
    ]
    rows = [[plain(value) for value in row] for row in table.rows]
    return {"title": table.header.title, "columns": columns, "rows": rows}


def _ranking(view: HeadRanking, options: Options) -> dict[str, Any]:
    scale = ranking_scale(view)
    maps = [
        {
            "kind": one.kind,
            "layers": list(one.layers),
            "heads": list(one.heads),
            "values": [plain(row) for row in one.values],
            "gaps": one.gaps,
        }
        for one in view.maps
    ]
    return {
        "metric": view.metric.title or view.metric.name.replace("_", " "),
        "unit": view.metric.unit,
        "low": scale.low,
        "high": scale.high,
        "maps": maps,
        "colors": _colors(options, signed=scale.signed),
    }


def _colors(options: Options, *, signed: bool) -> str:
    """Return the scale's colours: 255 times red, green, blue."""
    from attncli.render.terminal.colors import color_at, diverging_color

    steps = (step / 254 for step in range(255))
    colors = [diverging_color(one) if signed else color_at(options.colormap, one) for one in steps]
    return _packed(bytes(part for color in colors for part in color))


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _grid(view: MatrixGrid, options: Options) -> dict[str, Any]:
    """Return a grid's tokens and numbers.

    Larger maps are pooled; beside them go the strongest cells of each head, and the rows in which they stand, as they
    were.
    """
    import numpy as np

    rows, keys = len(view.query_tokens), len(view.key_tokens)
    side = max(16, int((MOST_CELLS / max(len(view.matrices), 1)) ** 0.5))
    row_starts, key_starts = even_cuts(rows, side), even_cuts(keys, side)
    pooled = len(row_starts) < rows or len(key_starts) < keys
    scale = scale_of(view)
    values = np.stack([_numbers(view, index, row_starts, key_starts) for index in range(len(view.matrices))])
    exact = values.size <= EXACT_CELLS
    found: dict[str, Any] = {
        "unit": view.unit,
        "about": view.about,
        "low": scale.low,
        "high": scale.high,
        "colors": _colors(options, signed=scale.signed),
        "queries": [_token(one, options) for one in _cells(view.query_tokens, row_starts)],
        "keys": [_token(one, options) for one in _cells(view.key_tokens, key_starts)],
        "size": size_text(view),
        "pooled": pooled or view.pooled is not None,
        "heads": [_head_of(view, index, name) for index, name in enumerate(short_names(view.matrices))],
        "exact": exact,
        "data": _packed(values.tobytes() if exact else _steps(values, scale.low, scale.high).tobytes()),
    }
    if not exact:
        found["strongest"] = _strongest(view)
    if pooled:
        found |= {"rowStarts": list(row_starts), "keyStarts": list(key_starts)}
        found["rows"] = _whole_rows(view, scale.low, scale.high)
        found["allKeys"] = [_token(one, options) for one in view.key_tokens]
        if view.query_tokens != view.key_tokens:
            found["allQueries"] = [_token(one, options) for one in view.query_tokens]
    if view.picture is not None:
        found["picture"] = _picture(view.picture)
    return found


def _cells(tokens: Tokens, starts: Sequence[int]) -> Tokens:
    return tokens if len(starts) == len(tokens) else cell_tokens(tokens, starts)


def _numbers(view: MatrixGrid, index: int, rows: Sequence[int], keys: Sequence[int]) -> NDArray[np.float32]:
    """Return one matrix, pooled, with NaN where a row may not attend."""
    import numpy as np

    matrix = view.matrices[index]
    if matrix.listed is not None:
        values = np.full(matrix.shape, np.nan, np.float32)
        for row, (columns, weights) in enumerate(
            zip(matrix.listed.columns, matrix.listed.weights, strict=True)
        ):
            known = columns >= 0
            values[row, columns[known]] = weights[known]
        return values
    field = pool(field_of(matrix, view.unit), rows, keys)
    values = field.values.astype(np.float32)
    return values if field.allowed is None else np.where(field.allowed, values, np.float32(np.nan))


def _steps(values: NDArray[np.float32], low: float, high: float) -> NDArray[np.uint8]:
    """Return numbers in 255 steps of a square-root scale; 255 itself where there is none."""
    import numpy as np

    some = np.nan_to_num(values, nan=0.0)
    root = np.copysign(np.sqrt(np.abs(np.clip(some, low, high))), some)
    least, most = -((-low) ** 0.5), high**0.5
    steps = np.rint((root - least) / (most - least) * 254).astype(np.uint8)
    return np.where(np.isnan(values), np.uint8(_FORBIDDEN), steps)


def _strongest(view: MatrixGrid) -> dict[str, Any]:
    """Return each head's strongest cells: row, key and weight."""
    import numpy as np

    rows, keys = len(view.query_tokens), len(view.key_tokens)
    count = min(rows * keys, max(1, _STRONGEST_BYTES // (12 * len(view.matrices))))
    parts = []
    for matrix in view.matrices:
        values = np.zeros((rows, keys), np.float32) if matrix.listed is not None else matrix.values
        flat = np.abs(values).ravel()
        places = np.argpartition(flat, len(flat) - count)[len(flat) - count :]
        places = places[np.argsort(-flat[places], kind="stable")]
        packed = np.stack([places // keys, places % keys, values.ravel()[places].view(np.int32)], axis=1)
        parts.append(packed.astype(np.int32))
    return {"count": count, "data": _packed(np.concatenate(parts).tobytes())}


def _whole_rows(view: MatrixGrid, low: float, high: float) -> dict[str, Any]:
    """Return for each head the rows of its strongest cells, over all keys."""
    import numpy as np

    keys = len(view.key_tokens)
    most = max(1, _ROW_BYTES // (keys * len(view.matrices)))
    places, parts = [], []
    for matrix in view.matrices:
        if matrix.listed is not None:
            continue
        order = np.argsort(-np.abs(matrix.values).max(axis=1), kind="stable")[:most]
        places.append(order.tolist())
        rows = matrix.values[order]
        if matrix.allowed is not None:
            rows = np.where(matrix.allowed[order], rows, np.float32(np.nan))
        parts.append(_steps(rows, low, high))
    return {"places": places, "data": _packed(np.concatenate(parts).tobytes()) if parts else ""}


def _head_of(view: MatrixGrid, index: int, name: str) -> dict[str, Any]:
    matrix = view.matrices[index]
    found: dict[str, Any] = {
        "name": name or view.header.command,
        "kind": matrix.kind,
        "layer": matrix.layer,
        "head": matrix.head,
    }
    if view.facts:
        found["facts"] = plain(view.facts[index])
    return found


def _token(token: Token, options: Options) -> list[Any]:
    """Return a token's position, label, and whether it is a special one."""
    label = token.piece if options.raw_tokens and token.piece is not None else token.label
    return [token.position, label, 1 if token.special else 0]


def _picture(picture: Picture) -> dict[str, Any]:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(picture.pixels).save(stream, "PNG")
    return {
        "png": base64.b64encode(stream.getvalue()).decode(),
        "rows": picture.rows,
        "columns": picture.columns,
        "query": picture.query,
    }
