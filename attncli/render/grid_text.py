"""What several formats need to know of a grid: names, labels, facts, its strongest keys, its numbers as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attncli.errors import UsageError
from attncli.labels import ascii_label, safe_label
from attncli.render import Options
from attncli.view import NO_COLUMN, Listed, Matrix, MatrixGrid, Steps, View

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from attncli.record import Token, Tokens

_WITHOUT_NUMBER = {"path_length": "never"}
_UNITS = ("bits", "bytes", "seconds")
_DOTS = re.compile(r"(?<=\w)·(?=\w)")
"""Between a formula's factors; a dot with spaces around it separates, one at a token's edge is a space."""
_SECONDS = re.compile(r"\d+(\.\d+)? s")
_ASCII_WORDS = str.maketrans(
    {
        "×": "x",
        "–": "-",
        "—": "-",
        "…": "...",
        "√": "sqrt ",
        "≈": "~",
        "±": "+/-",
        "µ": "u",
        "“": '"',
        "”": '"',
        "ᵀ": "^T",
        "−": "-",
        "∞": "inf",
        "∂": "d",
        "Σ": "sum",
        "→": "->",
        "₂": "2",
    }
)


def require_grid(view: View, format_name: str) -> MatrixGrid:
    """Return the view back if it has matrices.

    Raises:
        UsageError: It is a table, which this format cannot draw.
    """
    if isinstance(view, MatrixGrid):
        return view
    raise UsageError(
        f"{format_name} draws matrices, and {view.header.command} gives "
        + ("steps" if isinstance(view, Steps) else "a table"),
        "choose from: table, md, json, ndjson, csv, tsv",
    )


def token_labels(tokens: Tokens, options: Options) -> list[str]:
    """Label tokens for people, as the options ask: decoded or the vocabulary's own form, Unicode or ASCII.

    Where a new part of the text begins (what the model wrote, the next message), a mark stands before the label.
    """
    mark = "▸" if options.unicode else ">"
    before = (None, *(token.segment for token in tokens))
    return [
        (mark if index and token.segment != before[index] else "") + _token_label(token, options)
        for index, token in enumerate(tokens)
    ]


def placed_labels(tokens: Tokens, options: Options) -> list[str]:
    """Label tokens for a list, each with its position: ``30 cat``; marks stand there as in `token_labels`."""
    marked = token_labels(tokens, options)
    return [
        mark.removesuffix(_token_label(token, options)) + placed_label(token, options)
        for mark, token in zip(marked, tokens, strict=True)
    ]


def _token_label(token: Token, options: Options) -> str:
    raw = token.piece if options.raw_tokens else None
    label = safe_label(token.label if raw is None else raw)
    return label if options.unicode else ascii_label(label)


def placed_label(token: Token, options: Options) -> str:
    """Label a token with its position, once where they are the same: ``30 cat``.

    What stands in no text and in no vocabulary, such as a moment of a sound, is a place itself.
    """
    label = _token_label(token, options)
    is_place = token.id is None and token.start is None and not token.special
    return label if is_place or label == str(token.position) else f"{token.position} {label}"


def is_time(tokens: Tokens) -> bool:
    """Return whether tokens are moments of a sound: ``0.02 s``, in no text and no vocabulary."""
    return len(tokens) > 1 and all(
        token.id is None and token.start is None and _SECONDS.fullmatch(token.label) for token in tokens
    )


def words(text: str, options: Options) -> str:
    """Make a title or a note fit to print; in ASCII, its separators become plain ones."""
    label = safe_label(text) if text else ""
    if options.unicode:
        return label
    return ascii_label(_DOTS.sub("*", label.replace(" · ", " - ")).translate(_ASCII_WORDS))


def place_names(matrices: Sequence[Matrix]) -> list[str]:
    """Name matrices for people: by their labels, or with kind, layer and head; empty for a nameless pattern.

    >>> import numpy as np
    >>> one = np.zeros((1, 1), np.float32)
    >>> place_names([Matrix(one, label="full"), Matrix(one, kind="encoder", layer=4, head=7)])
    ['full', 'encoder L4H7']
    """
    return [
        short if matrix.label or not matrix.kind else f"{matrix.kind} {short}".strip()
        for matrix, short in zip(matrices, short_names(matrices), strict=True)
    ]


def short_names(matrices: Sequence[Matrix]) -> list[str]:
    """Name matrices in a few cells, without their kind; a label that several share is told apart by layer and head.

    >>> import numpy as np
    >>> one = np.zeros((1, 1), np.float32)
    >>> short_names([Matrix(one, label="a", head=0), Matrix(one, label="a", head=1), Matrix(one, layer=2)])
    ['a H0', 'a H1', 'L2']
    """
    used = Counter(matrix.label for matrix in matrices)
    return [
        f"{matrix.label} {_name(matrix)}".strip()
        if matrix.label and used[matrix.label] > 1
        else matrix.label or _name(matrix)
        for matrix in matrices
    ]


def _name(matrix: Matrix) -> str:
    """Name a matrix by its layer and head: ``L4H7``, ``L4 mean``."""
    layer = "" if matrix.layer is None else f"L{matrix.layer}"
    layer = f"{matrix.layer} of layers " if isinstance(matrix.layer, str) else layer
    if matrix.head is None:
        return layer.strip()
    return f"{layer} {matrix.head}".strip() if isinstance(matrix.head, str) else f"{layer}H{matrix.head}"


def count_text(grid: MatrixGrid) -> str:
    """Return how many matrices of what there are: ``12 heads``."""
    named = any(matrix.label is not None for matrix in grid.matrices)
    what = "masks" if grid.unit == "mask" else ("matrices" if named else "heads")
    return f"{len(grid.matrices)} {what}"


def fact_texts(facts: Mapping[str, object]) -> list[str]:
    """Write a matrix's facts in a few words each; of a long list its range.

    What has no number is left out, unless there is a word for that.

    >>> fact_texts({"density": 0.53846, "keys_per_row": [1, 2, 3], "kl_bits": 0.25, "error": None})
    ['density 0.538', 'keys per row 1–3', 'kl 0.25 bits']
    >>> fact_texts({"path_length": None, "median": 32768.5})
    ['path length never', 'median 32768.5']
    """
    said = {name: _WITHOUT_NUMBER.get(name) if value is None else value for name, value in facts.items()}
    return [_fact_text(name, value) for name, value in said.items() if value is not None]


def _fact_text(name: str, value: object) -> str:
    start, _, unit = name.rpartition("_")
    before, after = (start, f" {unit}") if unit in _UNITS else (name, "")
    return f"{before.replace('_', ' ')} {_fact_value(value)}{after}"


def _fact_value(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact_value(part)}" for name, part in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _range_text([part for part in value if part is not None])
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.1f}".removesuffix(".0")
    return "never" if value is None else str(value)


def _range_text(values: Sequence[object]) -> str:
    numbers = sorted(value for value in values if isinstance(value, int | float))
    if not numbers or len(numbers) < len(values):
        return ", ".join(_fact_value(value) for value in values)
    low, high = _fact_value(numbers[0]), _fact_value(numbers[-1])
    return low if low == high else f"{low}–{high}"


@dataclass(frozen=True, slots=True)
class Strongest:
    """The strongest keys of one row, the strongest first: columns of the matrix and what they hold."""

    columns: tuple[int, ...]
    values: tuple[float, ...]


def strongest_keys(matrix: Matrix, top: int) -> list[Strongest]:
    """Find the `top` weights of each row that are largest in absolute value; of equals, the earlier key.

    Only allowed keys count; a row with fewer of them gives fewer. Undefined weights come last.
    """
    import numpy as np

    if matrix.listed is not None:
        return _first_listed(matrix.listed, top)
    rows = []
    for row, values in enumerate(matrix.values):
        columns = np.argsort(-np.abs(values), kind="stable")
        if matrix.allowed is not None:
            columns = columns[matrix.allowed[row, columns]]
        kept = columns[:top]
        rows.append(Strongest(tuple(kept.tolist()), tuple(values[kept].tolist())))
    return rows


def _first_listed(listed: Listed, top: int) -> list[Strongest]:
    columns, weights = listed.columns[:, :top].tolist(), listed.weights[:, :top].tolist()
    kept = [sum(column != NO_COLUMN for column in row) for row in columns]
    return [
        Strongest(tuple(row[:count]), tuple(values[:count]))
        for row, values, count in zip(columns, weights, kept, strict=True)
    ]


def largest_of_rows(matrix: Matrix) -> set[tuple[int, int]]:
    """Find, as rows and columns, the defined numbers that no other of their row exceeds in absolute value."""
    import numpy as np

    sizes = np.abs(matrix.values)
    counted = np.isfinite(sizes) if matrix.allowed is None else np.isfinite(sizes) & matrix.allowed
    largest = np.max(sizes, axis=1, initial=0, where=counted, keepdims=True)
    rows, columns = np.nonzero((sizes == largest) & counted)
    return set(zip(rows.tolist(), columns.tolist(), strict=True))


def float_texts(row: Sequence[float] | NDArray[np.float32]) -> list[str]:
    """Write float32 numbers in the fewest digits that read back as the same; undefined ones are ``nan``.

    >>> float_texts([0.1, 1, -0.0, -1e-7, float("nan")])
    ['0.1', '1.0', '0.0', '-1e-7', 'nan']
    """
    import numpy as np
    import orjson

    values = np.asarray(row, dtype=np.float32) + np.float32(0)  # −0 becomes 0
    texts = (
        orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY).decode().strip("[]").replace("null", "nan")
    )
    return texts.split(",") if texts else []


def matrix_texts(matrix: Matrix, unit: str) -> Iterator[list[str]]:
    """Write a matrix row by row: weights as `float_texts`, a mask as 0 and 1."""
    if unit != "mask":
        return map(float_texts, matrix.values)
    return (["1" if value > 0 else "0" for value in row.tolist()] for row in matrix.values)
