"""Markdown: GitHub's tables, for issues and notes.

A token stands in a code span, so that nothing in it is taken for markup, mathematics or an emoji's name.
"""

from __future__ import annotations

import re

from attncli.registry import Entry
from attncli.render import Options
from attncli.render.grid_text import (
    fact_texts,
    place_names,
    placed_labels,
    strongest_keys,
    token_labels,
    words,
)
from attncli.render.mermaid import mermaid
from attncli.render.scales import Scale, scale_of
from attncli.render.table import people_text
from attncli.view import Column, Curves, Header, HeadRanking, Matrix, MatrixGrid, Step, Steps, Table, View

ENTRY = Entry(
    name="md",
    summary="Markdown tables as GitHub shows them",
    reference="GitHub Flavored Markdown, section 4.10",
    attributes={
        "suffixes": (".md",),
        "views": ("MatrixGrid", "Table", "Curves", "HeadRanking", "Steps"),
        "binary": False,
        "bytes_per_weight": 60,
    },
)

_MARKUP = re.compile(r"[\\`*_{}\[\]()#+!|~$^:@]")


def render(view: View, options: Options) -> bytes:
    """Write a view as a heading, one table or several, and its notes."""
    blocks = _blocks(view, options)
    heading = [f"### {prose(words(view.header.title, options))}"] if view.header.title else []
    return ("\n\n".join([*heading, *blocks, *_notes(view.header, options)]) + "\n").encode("utf-8")


def _blocks(view: View, options: Options) -> list[str]:
    if isinstance(view, Steps):
        told = [
            block for count, step in enumerate(view.steps, 1) for block in _step_blocks(count, step, options)
        ]
        return [*told, "#### Data-flow", f"```mermaid\n{mermaid(view.flow, options)}```"]
    if isinstance(view, Curves | HeadRanking):
        named = [
            [f"**{prose(words(table.header.title, options))}**", *_table_blocks(table, options)]
            for table in view.tables
        ]
        return [block for blocks in named for block in blocks]
    return _table_blocks(view, options) if isinstance(view, Table) else _grid_blocks(view, options)


def _step_blocks(count: int, step: Step, options: Options) -> list[str]:
    shape = f" → `{step.shape}`" if step.shape else ""
    about = [prose(words(". ".join(_sentence(line) for line in step.about) + ".", options))] * bool(
        step.about
    )
    tables = [block for table in step.tables for block in _table_blocks(table, options)]
    return [f"#### {count}. {step.name}", f"{code(step.formula)}{shape}", *about, *tables]


def _sentence(line: str) -> str:
    return line[:1].upper() + line[1:].rstrip(":")


def prose(text: str) -> str:
    r"""Escape what Markdown or HTML would take for markup.

    >>> prose("a*b <c> | d")
    'a\\*b &lt;c&gt; \\| d'
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\g<0>", text)


def code(label: str) -> str:
    r"""Write a label as code in a table's cell.

    >>> code("the"), code("a|b"), code("`")
    ('`the`', '`a\\|b`', '<code>&#96;</code>')
    """
    if "`" in label or ("|" in label and "\\" in label):
        return f"<code>{''.join(map(_reference, label))}</code>"
    return "`" + label.replace("|", "\\|") + "`"


def _reference(character: str) -> str:
    plain = character.isalnum() or not character.isascii()
    return character if plain else f"&#{ord(character)};"


def _table_blocks(table: Table, options: Options) -> list[str]:
    places = [place for place, column in enumerate(table.columns) if not column.bar]
    columns = [table.columns[place] for place in places]
    names = [prose(words(column.name, options)) for column in columns]
    numeric = [
        column.right or _numbers_only([row[place] for row in table.rows])
        for place, column in zip(places, columns, strict=True)
    ]
    rows = [
        [_value(row[place], column, options) for place, column in zip(places, columns, strict=True)]
        for row in table.rows
    ]
    return [_pipe_table(names, rows, numeric)]


def _value(value: object, column: Column, options: Options) -> str:
    text = words(people_text(value, column), options)
    return (
        code(text)
        if isinstance(value, str) and _MARKUP.search(text + "".join(set("<>&") & set(text)))
        else prose(text)
    )


def _numbers_only(values: list[object]) -> bool:
    return bool(values) and all(
        value is None or (hasattr(value, "__float__") and not isinstance(value, bool)) for value in values
    )


def _grid_blocks(grid: MatrixGrid, options: Options) -> list[str]:
    blocks = []
    for index, (matrix, place) in enumerate(zip(grid.matrices, place_names(grid.matrices), strict=True)):
        facts = fact_texts(grid.facts[index]) if grid.facts else []
        what = "rows attend to columns" if grid.top is None else f"strongest {grid.top} keys of each row"
        name = " · ".join(filter(None, [place, what, *facts]))
        blocks += [prose(words(name, options)), _matrix_table(grid, matrix, options)]
    return blocks


def _matrix_table(grid: MatrixGrid, matrix: Matrix, options: Options) -> str:
    labelled = token_labels if grid.top is None else placed_labels
    queries = [code(label) for label in labelled(grid.query_tokens, options)]
    keys = [code(label) for label in labelled(grid.key_tokens, options)]
    scale = scale_of(grid)
    if grid.top is not None:
        found = zip(queries, strongest_keys(matrix, grid.top), strict=True)
        rows = [
            [
                query,
                ", ".join(
                    _pair(keys, *pair, None if grid.unit == "mask" else scale)
                    for pair in zip(row.columns, row.values, strict=True)
                ),
            ]
            for query, row in found
        ]
        return _pipe_table(["query", "keys"], rows, [False, False])
    rows = [[query, *_numbers(grid, matrix, scale, row)] for row, query in enumerate(queries)]
    return _pipe_table(["query", *keys], rows, [False] + [True] * len(keys))


def _pair(keys: list[str], column: int, value: float, scale: Scale | None) -> str:
    return keys[column] if scale is None else f"{keys[column]} {_number(value, scale)}"


def _number(value: float, scale: Scale) -> str:
    return scale.text(value) if scale.signed else f"{value:.2f}"


def _numbers(grid: MatrixGrid, matrix: Matrix, scale: Scale, row: int) -> list[str]:
    values = matrix.values[row].tolist()
    if grid.unit == "mask":
        return ["1" if value > 0 else "" for value in values]
    allowed = [True] * len(values) if matrix.allowed is None else matrix.allowed[row].tolist()
    return [_number(value, scale) if may else "" for value, may in zip(values, allowed, strict=True)]


def _pipe_table(names: list[str], rows: list[list[str]], right: list[bool]) -> str:
    rule = ["---:" if number else "---" for number in right]
    return "\n".join("| " + " | ".join(line) + " |" for line in [names, rule, *rows])


def _notes(header: Header, options: Options) -> list[str]:
    return ["\n".join(f"- {prose(words(note, options))}" for note in header.notes)] if header.notes else []
