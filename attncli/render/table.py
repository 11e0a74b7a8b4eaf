"""Tables for people; in a pipe, unless asked for by name, the same as tab-separated values, whole and unwrapped.

A matrix is a table of its numbers where they fit, and otherwise each row's strongest keys. A pair that may
not attend is left blank there: a dot would be read as a small number in a column of ``.02`` and ``.00``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attncli.labels import cells, fit
from attncli.registry import Entry
from attncli.render import Options
from attncli.render.grid_text import (
    Strongest,
    fact_texts,
    largest_of_rows,
    matrix_texts,
    place_names,
    placed_labels,
    strongest_keys,
    token_labels,
    words,
)
from attncli.render.json_format import plain
from attncli.render.long_form import quoted, separated, with_fields
from attncli.render.scales import Scale, scale_of
from attncli.render.terminal.canvas import Line, paint, wrap
from attncli.view import Column, Curves, Header, HeadRanking, Matrix, MatrixGrid, Steps, Table, View

ENTRY = Entry(
    name="table",
    summary="Aligned columns; in a pipe, unless asked for by name, tab-separated values",
    attributes={
        "suffixes": (),
        "views": ("MatrixGrid", "Table", "Curves", "HeadRanking", "Steps"),
        "binary": False,
        "notes": True,
        "bytes_per_weight": 60,
    },
)

_STRONGEST = 5
_SHORTEST_HEADING = 3
_LONGEST_HEADING = 8
_BAR = 12
_NARROWEST = 6
"""Cells that a column of texts keeps where a table has to be narrower."""


def render(view: View, options: Options) -> bytes:
    """Write a view as aligned text, no line wider than asked for, or as TSV without limits."""
    if isinstance(view, Steps) or (isinstance(view, Curves | HeadRanking) and not options.terminal):
        view = view.data
    if not options.terminal and isinstance(view, MatrixGrid) and view.top is not None:
        return separated(view, options, "\t", "\n")
    if isinstance(view, Curves | HeadRanking):
        text = _draw_several(view, options)
    elif not options.terminal:
        if options.fields:
            view = with_fields(view, options.fields)
        lines = _table_lines(view, options) if isinstance(view, Table) else _grid_lines(view, options)
        text = "".join("\t".join(quoted(cell, "\t") for cell in line) + "\n" for line in lines)
    else:
        text = _draw_table(view, options) if isinstance(view, Table) else _draw_grid(view, options)
    return text.encode("utf-8" if options.unicode else "ascii", "backslashreplace")


# In a pipe


def _table_lines(table: Table, options: Options) -> list[list[str]]:
    heading = [column.name for column in table.columns]
    return [heading, *([words(value_text(value), options) for value in row] for row in table.rows)]


def _grid_lines(grid: MatrixGrid, options: Options) -> list[list[str]]:
    queries, keys = placed_labels(grid.query_tokens, options), placed_labels(grid.key_tokens, options)
    lines = [["matrix", "query", *keys]]
    for matrix, place in zip(grid.matrices, place_names(grid.matrices), strict=True):
        numbers = zip(queries, matrix_texts(matrix, grid.unit), strict=True)
        lines += [[words(place or grid.unit, options), query, *row] for query, row in numbers]
    return lines


def value_text(value: object, digits: int | None = None) -> str:
    """Write one value of a table for people: ``yes`` or ``no``, nothing for None, lists with commas.

    Args:
        digits: Digits after the point; None for all of them.

    >>> value_text(0.123456, 2), value_text(True), value_text(None), value_text(["a", "b"]), value_text(1234)
    ('0.12', 'yes', '', 'a, b', '1234')
    """
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and digits is not None:
        return f"{value:.{digits}f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {value_text(part, digits)}" for key, part in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(value_text(part, digits) for part in value)
    return str(value)


# In a terminal


def _draw_several(view: Curves | HeadRanking, options: Options) -> str:
    parts = [title_lines(table.header, options) + draw_rows(table, options) for table in view.tables]
    return (
        text_lines(words(view.header.title, options), options, "1")
        + "\n".join(["", *parts])
        + note_lines(view.header, options)
    )


def _draw_table(table: Table, options: Options) -> str:
    drawn = draw_rows(table, options)
    return title_lines(table.header, options) + drawn + note_lines(table.header, options)


def draw_rows(table: Table, options: Options) -> str:
    """Draw a table's columns and rows, without its title and notes."""
    names = [column_title(column, options) for column in table.columns]
    rows = [
        [_cell(value, column, options) for value, column in zip(row, table.columns, strict=True)]
        for row in table.rows
    ]
    numeric = [is_right(table, place) for place in range(len(table.columns))]
    return _columns(names, rows, numeric, options) if rows else "nothing to show\n"


def is_right(table: Table, place: int) -> bool:
    """Return whether a column is aligned to the right, as numbers are."""
    column = table.columns[place]
    return column.right or (not column.bar and _is_numeric([row[place] for row in table.rows]))


def _cell(value: object, column: Column, options: Options) -> str:
    if column.bar:
        return bar(float(str(value)), options)
    return words(people_text(value, column), options)


def people_text(value: object, column: Column) -> str:
    """Write one value of a table in the digits that people see of its column.

    >>> people_text(0.123456, Column("x")), people_text(2.384e-07, Column("x", significant=True))
    ('0.123', '2.38e-07')
    """
    value = plain(value)
    if column.significant and isinstance(value, float):
        return f"{value:.3g}"
    return value_text(value, column.digits)


def bar(share: float, options: Options) -> str:
    """Draw a share of 1 as a bar, in eighths of a cell.

    >>> bar(0.55, Options()), bar(0.55, Options(unicode=False)), bar(0.0, Options())
    ('██████▋', '#######', '')
    """
    eighths = round(min(max(share, 0.0), 1.0) * _BAR * 8)
    if not options.unicode:
        return "#" * round(eighths / 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def column_title(column: Column, options: Options) -> str:
    """Return the heading of a column."""
    name = column.name if column.title is None else column.title
    if column.title is None:
        name = name.replace("_", " ")
    return words(f"{name} ({column.unit})" if column.unit else name, options) if name else ""


def _is_numeric(values: Sequence[object]) -> bool:
    present = [plain(value) for value in values if value is not None]
    return bool(present) and all(
        isinstance(value, int | float | None) and not isinstance(value, bool) for value in present
    )


def _draw_grid(grid: MatrixGrid, options: Options) -> str:
    parts = [_draw_matrix(grid, index, options) for index in range(len(grid.matrices))]
    return title_lines(grid.header, options) + "\n".join(parts) + note_lines(grid.header, options)


def _draw_matrix(grid: MatrixGrid, index: int, options: Options) -> str:
    matrix = grid.matrices[index]
    numbers = None if grid.top is not None else _number_table(grid, matrix, options)
    if numbers is None:
        top = grid.top or _STRONGEST
        what = f"{'first' if grid.unit == 'mask' else 'strongest'} {top} keys of each row"
        numbers = _strongest_table(grid, matrix, top, options)
    else:
        what = "rows attend to columns"
    facts = fact_texts(grid.facts[index]) if grid.facts else []
    name = " · ".join(filter(None, [place_names(grid.matrices)[index], what, *facts]))
    return text_lines(words(name, options), options) + "\n" + numbers


def _number_table(grid: MatrixGrid, matrix: Matrix, options: Options) -> str | None:
    """Draw every number, or give None where they do not fit."""
    queries, keys = token_labels(grid.query_tokens, options), token_labels(grid.key_tokens, options)
    numbers = _number_rows(grid, matrix)
    needed = [max([_SHORTEST_HEADING, *map(len, column)]) for column in zip(*numbers, strict=True)]
    for longest in range(_LONGEST_HEADING, _SHORTEST_HEADING - 1, -1):
        widths = [max(least, min(longest, cells(key))) for least, key in zip(needed, keys, strict=True)]
        if (
            options.width is None
            or max(map(cells, queries), default=0) + sum(widths) + 2 * len(widths) <= options.width
        ):
            headings = [fit(key, longest, options.cut_mark) for key in keys]
            rows = [[query, *row] for query, row in zip(queries, numbers, strict=True)]
            found = set() if grid.unit == "mask" else largest_of_rows(matrix)
            bold = {(row, column + 1) for row, column in found}
            return _columns(["", *headings], rows, [True] * (len(keys) + 1), options, bold)
    return None


def _number_rows(grid: MatrixGrid, matrix: Matrix) -> list[list[str]]:
    scale = scale_of(grid)

    def text(row: int, column: int, value: float) -> str:
        if matrix.allowed is not None and not matrix.allowed[row, column]:
            return ""
        if grid.unit == "mask":
            return "1" if value > 0 else ""
        return scale.text(value)

    rows = enumerate(matrix.values.tolist())
    return [[text(row, column, value) for column, value in enumerate(values)] for row, values in rows]


def _strongest_table(grid: MatrixGrid, matrix: Matrix, top: int, options: Options) -> str:
    keys, scale = placed_labels(grid.key_tokens, options), scale_of(grid)
    rows = []
    for query, token, row in zip(
        token_labels(grid.query_tokens, options), grid.query_tokens, strongest_keys(matrix, top), strict=True
    ):
        rows.append(
            [str(token.position), query, _strongest_text(row, keys, None if grid.unit == "mask" else scale)]
        )
    return _columns(["", "query", "keys"], rows, [True, False, False], options)


def _strongest_text(row: Strongest, keys: list[str], scale: Scale | None) -> str:
    if scale is None:
        return ", ".join(keys[column] for column in row.columns)
    found = zip(row.columns, row.values, strict=True)
    return ", ".join(f"{keys[column]} {scale.text(value)}" for column, value in found)


def _columns(
    names: list[str],
    rows: list[list[str]],
    numeric: list[bool],
    options: Options,
    bold: set[tuple[int, int]] | frozenset[tuple[int, int]] = frozenset(),
) -> str:
    """Align columns with a rule under the heading; texts that do not fit are wrapped."""
    widths = [max(map(cells, column)) for column in zip(names, *rows, strict=True)]
    if options.width is not None and _across(widths) > options.width:
        widths = _narrowed(names, rows, numeric, options.width)
    heavy = bold | {(-1, place) for place in range(len(names))} if options.color != "none" else set()
    drawn = []
    for number, texts in enumerate([names, *rows], -1):
        folded = [wrap(text, width, None) for text, width in zip(texts, widths, strict=True)]
        most = max(map(len, folded), default=0)
        for line in range(most):
            runs: Line = []
            for place, parts in enumerate(folded):
                down = line - (most - len(parts)) if number < 0 else line  # headings stand on the rule
                text = parts[down] if 0 <= down < len(parts) else ""
                missing = " " * (widths[place] - cells(text)), ""
                shown = text, "1" if (number, place) in heavy else ""
                runs += [missing, shown] if numeric[place] else [shown, missing]
                runs.append(("  " if place < len(names) - 1 else "", ""))
            drawn.append([run for run in runs if run[0]])
        if number < 0:
            drawn.append([(("─" if options.unicode else "-") * _across(widths), "")])
    return paint(drawn)


def _across(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _narrowed(names: list[str], rows: list[list[str]], numeric: list[bool], width: int) -> list[int]:
    """Return each column's width: the widest are cut first, words only where nothing else is left, numbers never."""
    texts = [[name, *(row[place] for row in rows)] for place, name in enumerate(names)]
    widths = [max(map(cells, column)) for column in texts]
    words = [max(cells(word) for text in column for word in text.split() or [""]) for column in texts]
    numbers = [max(map(cells, column[1:]), default=1) for column in texts]
    for least in (_NARROWEST, 1):
        cut = [number if right else least for right, number in zip(numeric, numbers, strict=True)]
        for shortest in (words, cut):
            while _across(widths) > width:
                able = [place for place, least in enumerate(shortest) if widths[place] > least]
                if not able:
                    break
                widths[max(able, key=widths.__getitem__)] -= 1
    return widths


def title_lines(header: Header, options: Options) -> str:
    """Write a view's title, and a blank line after it."""
    return text_lines(words(header.title, options), options, "1") + "\n" if header.title else ""


def note_lines(header: Header, options: Options) -> str:
    """Write a view's notes, and a blank line before them."""
    notes = "".join(text_lines(f"note: {words(note, options)}", options) for note in header.notes)
    return "\n" + notes if notes else ""


def text_lines(text: str, options: Options, style: str = "") -> str:
    """Write a text in lines of the width there is."""
    start, end = (f"\x1b[{style}m", "\x1b[0m") if style and options.color != "none" else ("", "")
    return "".join(f"{start}{line}{end}\n" for line in wrap(text, options.width or 100_000, options.cut_mark))
