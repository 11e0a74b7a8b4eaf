"""What is shown, without saying how: labels, numbers, title, provenance, no colours.

A renderer turns one of these into bytes. The set is small and closed: `MatrixGrid` (one matrix is a grid of
one), `Table`, `Curves`, `HeadRanking`, and `Steps`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from attncli.record import Provenance, SourceInfo, Tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What every view carries: who made it, from what, how."""

    command: str
    title: str
    provenance: Provenance
    source: SourceInfo | None = None
    notes: tuple[str, ...] = ()
    """Facts a reader must know (untrained weights, rows left out), one line each, no full stop."""


NO_COLUMN = -1
"""Stands where a row has fewer keys than were listed of others."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The strongest keys of each row, where the other weights were not kept.

    Args:
        columns: ``(rows, k)``, the strongest first, `NO_COLUMN` after a row's last.
        weights: ``(rows, k)``, of those columns.
        width: Number of columns that there are.
        spans: Of each row the runs of columns that it may attend to ``(runs, 2)``, first and last; None where
            all are, or where nobody asked.
    """

    columns: NDArray[np.integer[Any]]
    weights: NDArray[np.float32]
    width: int
    spans: Sequence[NDArray[np.integer[Any]]] | None = None


@dataclass(frozen=True, slots=True)
class Matrix:
    """One matrix of weights, or of a mask, of one head.

    Args:
        values: ``(rows, columns)`` float32; weights between 0 and 1, or 0 and 1 for a mask.
        allowed: ``(rows, columns)``; None where every pair is allowed. Forbidden cells are drawn apart from zeros.
        kind: ``encoder``, ``decoder``, ``cross``; None for a pattern that belongs to no model.
        layer: True layer index, ``mean`` or ``max``; None for a pattern.
        head: Query head, ``mean`` or ``max``; None for a pattern or where all heads are alike.
        kv_head: The key/value head that the query head reads, where there are fewer of them.
        label: A name of its own, where layer and head do not tell it from the others: a variant's.
        listed: Where set, all that is known of the matrix; `values` is empty. Only formats that list take it.
    """

    values: NDArray[np.float32]
    allowed: NDArray[np.bool_] | None = None
    kind: str | None = None
    layer: int | Literal["mean", "max"] | None = None
    head: int | Literal["mean", "max"] | None = None
    kv_head: int | None = None
    label: str | None = None
    listed: Listed | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Return the number of rows and of columns."""
        if self.listed is not None:
            return len(self.listed.columns), self.listed.width
        rows, columns = self.values.shape
        return rows, columns


@dataclass(frozen=True, slots=True)
class Pooling:
    """How a map that is too large to keep was made smaller: each cell stands for many pairs.

    Args:
        how: The largest weight of a cell's pairs, or their mean.
        queries: Number of query tokens that all rows stand for together.
        keys: Number of key tokens that all columns stand for together.
    """

    how: Literal["max", "mean"]
    queries: int
    keys: int


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture whose patches are the keys: forms that draw lay one query's weights over it.

    Args:
        pixels: ``(height, width, 3)`` uint8, as the model saw it.
        rows: How many patches it has down.
        columns: How many it has across.
        query: Which row of the matrices is drawn; None for each by itself.
        places: Which keys the patches are, row by row; the last ones where empty.
        name: What it is called, where there are several, or a text beside it.
    """

    pixels: NDArray[np.uint8]
    rows: int
    columns: int
    query: int | None
    places: tuple[int, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class MatrixGrid:
    """Matrices over the same tokens: the answer of ``show`` and ``mask``.

    Rows are queries, columns are keys, everywhere.

    Args:
        matrices: In the order asked for; a heatmap of many lays them out by layer (rows) and head (columns).
        query_tokens: One for each row. A token's `position` is its true one, also where rows were picked.
        key_tokens: One for each column.
        unit: What a value is: ``weight`` (0 to 1), ``mask`` (1 = may attend), or ``signed``: an effective weight of any
            size and sign, whose rows need not sum to 1 (retention), drawn on a scale that diverges from 0.
        top: Show only this many strongest keys of each row, in formats that list.
        facts: Numbers about each matrix, in the order of `matrices`, to print beside it and to write into JSON
            (for a mask: ``density``, ``keys_per_row``, ``path_length``: None where there is no path), or empty.
        pooled: Where set, a row and a column stand for as many positions as there are up to the next one's.
        picture: Where set, the keys are its patches, after a few special tokens.
        pictures: Where set, some keys are their patches, and the others a text; there is one row.
        about: How to read a matrix.
        links: Whether what is allowed are the links of an alignment, of target words (rows) and source words.
    """

    header: Header
    matrices: tuple[Matrix, ...]
    query_tokens: Tokens
    key_tokens: Tokens
    unit: Literal["weight", "mask", "signed"] = "weight"
    top: int | None = None
    facts: tuple[Mapping[str, object], ...] = ()
    pooled: Pooling | None = None
    picture: Picture | None = None
    pictures: tuple[Picture, ...] = ()
    about: str = "rows attend to columns"
    links: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Args:
        name: Key in data formats: ``keys_per_row``.
        title: Heading in a terminal; the name with spaces where None.
        unit: ``bits``, ``seconds``, ``bytes``; empty for a plain number or a text.
        digits: Digits after the point for people. Data formats have them all.
        significant: Show people three significant digits instead, for numbers of very different sizes.
        right: Align it as numbers are, though its values are texts.
        bar: Its values lie between 0 and 1 and repeat a number beside it: a terminal draws them as bars, and forms that
            cannot leave them out.
    """

    name: str
    title: str | None = None
    unit: str = ""
    digits: int = 3
    significant: bool = False
    right: bool = False
    bar: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of named values: the answer of ``tokens``, ``list``, ``doctor``.

    Args:
        rows: Each has a value for every column: text, number, truth, None, or a sequence of them.
        rows_name: The key that holds the rows in JSON.
        extra: More keys for the JSON document.
    """

    header: Header
    columns: tuple[Column, ...]
    rows: tuple[Sequence[object], ...]
    rows_name: str = "rows"
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a plot.

    Args:
        about: What follows from it, a few characters to stand beside its name: ``n^1.98``.
        quiet: There for comparison, and drawn so.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    about: str = ""
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves over one quantity, on a logarithmic axis.

    Args:
        title: What goes up.
        unit: Of what goes up; empty for a plain number.
        x_name: What goes right, a plain number.
        slopes: Exponents to draw for orientation: 1 and 2 for n and n².
        linear: Whether what goes up does so evenly, from 0; otherwise that axis is logarithmic too.
    """

    title: str
    unit: Literal["seconds", "bytes", "bits", ""]
    x_name: str
    curves: tuple[Curve, ...]
    slopes: tuple[int, ...] = ()
    linear: bool = False


@dataclass(frozen=True, slots=True)
class Curves:
    """Measurements over a length or a size: the answer of ``bench`` and of ``explain scaling``.

    Args:
        plots: For pictures.
        tables: For people: what was measured, and what follows from it.
        data: For programs: one row for each measurement.
        document: The JSON document's keys, besides those that all documents have.
    """

    header: Header
    plots: tuple[Plot, ...]
    tables: tuple[Table, ...]
    data: Table
    document: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class HeadMap:
    """A number for each head of the layers of one kind of attention.

    Args:
        layers: True layer index of each row.
        heads: Head of each column.
        values: ``(layers, heads)`` float32; NaN where a layer has no such head, or nothing was measured there.
        gaps: What NaN means, in a few words.
    """

    kind: str
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    values: NDArray[np.float32]
    gaps: str = "no number"


@dataclass(frozen=True, slots=True)
class HeadRanking:
    """Heads in the order of a number: the answer of ``heads`` and ``find``.

    Args:
        metric: The number that heads are ranked by: its name, title and unit.
        maps: For pictures: one for each kind of attention, all on one scale.
        tables: For people: the heads in ranked order, and what else follows.
        data: For programs: one row for each head, or each head and metric.
        document: The JSON document's keys, besides those that all documents have.
    """

    header: Header
    metric: Column
    maps: tuple[HeadMap, ...]
    tables: tuple[Table, ...]
    data: Table
    document: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a computation, with its numbers.

    Args:
        name: In a word or two.
        formula: What it computes, in plain Unicode.
        shape: Of what comes out, ``(1, 9, 13, 64)``; empty where that is no tensor.
        about: Sentences that say what to see in the numbers.
        tables: The numbers, for people; a table's title says what its rows are.
    """

    name: str
    formula: str
    shape: str = ""
    about: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a data-flow diagram.

    Args:
        name: By which others name it as their input.
        lines: What stands in it: what it is, its shape.
        inputs: Names of the nodes that it comes from, in order, all before it.
    """

    name: str
    lines: tuple[str, ...]
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Steps:
    """A computation, step by step: the answer of ``explain``.

    Args:
        steps: For people.
        flow: The same as a diagram.
        data: For programs: one row for each key.
        document: The JSON document's keys, besides those that all documents have.
    """

    header: Header
    steps: tuple[Step, ...]
    flow: tuple[Node, ...]
    data: Table
    document: Mapping[str, object]


View = MatrixGrid | Table | Curves | HeadRanking | Steps
