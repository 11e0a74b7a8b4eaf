"""What several formats need to know of a grid: its rows as a list, its strongest keys, its labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attncli.errors import UsageError
from attncli.labels import ascii_label, safe_label
from attncli.render import Options
from attncli.view import Matrix, MatrixGrid, View

if TYPE_CHECKING:
    from attncli.record import Token, Tokens

_ASCII_WORDS = str.maketrans({"·": "-", "×": "x", "–": "-", "—": "-", "…": "...", "√": "sqrt ", "≈": "~"})


def require_grid(view: View, format_name: str) -> MatrixGrid:
    """Give the view back if it has matrices.

    Raises:
        UsageError: It is a table, which this format cannot draw.
    """
    if isinstance(view, MatrixGrid):
        return view
    raise UsageError(
        f"{format_name} draws matrices, and {view.header.command} gives a table",
        "choose from: table, md, json, ndjson, csv, tsv",
    )


def token_labels(tokens: Tokens, options: Options) -> list[str]:
    """Label tokens for people, as the options ask: decoded or the vocabulary's own form, Unicode or ASCII."""
    return [_token_label(token, options) for token in tokens]


def _token_label(token: Token, options: Options) -> str:
    raw = token.piece if options.raw_tokens else None
    label = safe_label(token.label if raw is None else raw)
    return label if options.unicode else ascii_label(label)


def placed_label(token: Token, options: Options) -> str:
    """Label a token with its position, once where they are the same: ``30 cat``."""
    label = _token_label(token, options)
    return label if label == str(token.position) else f"{token.position} {label}"


def words(text: str, options: Options) -> str:
    """Make a title or a note fit to print; in ASCII, its separators become plain ones."""
    label = safe_label(text) if text else ""
    return label if options.unicode else ascii_label(label.translate(_ASCII_WORDS))


def site_name(matrix: Matrix) -> str:
    """Name a matrix with its kind: ``encoder L4H7``; empty for a pattern of no model."""
    return " ".join(part for part in (matrix.kind, matrix.name) if part)


def fact_texts(facts: Mapping[str, object]) -> list[str]:
    """Write a matrix's facts in a few words each; of a long list its range, and *never* for what has no number.

    >>> fact_texts({"density": 0.53846, "keys_per_row": [1, 2, 3]})
    ['density 0.538', 'keys per row 1–3']
    >>> fact_texts({"path_length": None, "median": 32768.5})
    ['path length never', 'median 32768.5']
    """
    return [f"{name.replace('_', ' ')} {_fact_value(value)}" for name, value in facts.items()]


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
    """Find the `top` largest weights of each row among its allowed keys; of equals, the earlier key.

    A row with fewer allowed keys gives fewer. Undefined weights come last.
    """
    import numpy as np

    order = np.argsort(-matrix.values, axis=1, kind="stable")
    rows = []
    for row, columns in enumerate(order):
        if matrix.allowed is not None:
            columns = columns[matrix.allowed[row, columns]]
        kept = columns[:top]
        rows.append(Strongest(tuple(kept.tolist()), tuple(matrix.values[row, kept].tolist())))
    return rows


def float_texts(row: Sequence[float] | object) -> list[str]:
    """Write float32 numbers in the fewest digits that read back as the same; undefined ones are ``nan``.

    >>> import numpy as np
    >>> float_texts(np.array([0.1, 1, 0, 1e-5, np.nan], np.float32))
    ['0.1', '1.0', '0.0', '1e-05', 'nan']
    """
    import numpy as np

    numbers = np.asarray(row, dtype=np.float32)
    filled = np.flatnonzero(numbers)  # a causal row is half zeros, and conversion is what takes the time
    texts = ["0.0"] * numbers.size
    for index, text in zip(filled.tolist(), numbers[filled].astype("U").tolist(), strict=True):
        texts[index] = text
    return texts


def number_texts(matrix: Matrix, unit: str) -> Iterator[list[str]]:
    """Write a matrix row by row: weights as `float_texts`, a mask as 0 and 1."""
    for row in matrix.values:
        yield ["1" if value > 0 else "0" for value in row.tolist()] if unit == "mask" else float_texts(row)
