"""The numbers of a JSON document's entry, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncli.documents.checked import damaged
from attncli.errors import ReadError
from attncli.memory import require_memory
from attncli.record import Tokens
from attncli.view import NO_COLUMN, Listed, Matrix

_LARGEST_WEIGHT = 1.01
"""A weight is at most 1, give or take what half-precision softmax gives."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A matrix in a document.

    Args:
        file: The file's name, safe to show.
        path: Where in the document it stands.
        values: What it holds, of the right types.
    """

    file: str
    path: str
    values: Mapping[str, Any]

    def wrong(self, key: str, what: str) -> ReadError:
        """Make the error for a value that is not as it should be."""
        return damaged(self.file, f"{self.path}.{key}", what)


def matrix_from_json(entry: Entry, unit: str, queries: Tokens, keys: Tokens) -> Matrix:
    """Return the matrix that an entry holds, without its name.

    Where only the strongest keys were written, it holds no more than these; see `filled`.

    Raises:
        ReadError: It holds no numbers, or they are not one for each query and key.
    """
    shape = (len(queries), len(keys))
    if "top" in entry.values:
        return _from_top(entry, unit, shape, keys)
    if unit == "mask":
        allowed = _array(entry, "allowed", shape)
        return Matrix(allowed, allowed > 0)
    values = _array(entry, "weights", shape)
    require_range(values, unit, lambda what: entry.wrong("weights", what))
    return Matrix(values, _allowed(entry, shape))


def require_range(values: NDArray[np.float32], unit: str, wrong: Callable[[str], ReadError]) -> None:
    """Refuse numbers that cannot be what they should be: infinite, or weights beyond 0 and 1.

    Args:
        wrong: Makes the error from what is wrong.
    """
    if np.isinf(values).any():
        raise wrong("holds infinite numbers")
    known = ~np.isnan(values)
    low, high = np.min(values, initial=np.inf, where=known), np.max(values, initial=-np.inf, where=known)
    if unit != "signed" and known.any() and not (low >= 0 and high <= _LARGEST_WEIGHT):
        raise wrong(f"holds {low:g} to {high:g}, expected weights from 0 to 1")


def _array(entry: Entry, key: str, shape: tuple[int, int]) -> NDArray[np.float32]:
    if key not in entry.values:
        raise entry.wrong(key, "is missing")
    found = entry.values[key]
    try:
        with np.errstate(over="ignore"):
            values: NDArray[Any] = np.array(found, dtype=np.float32)
    except ValueError as error:
        raise entry.wrong(key, "is no table of numbers with rows of one length") from error
    if values.shape != shape and not (values.size == 0 == shape[0] * shape[1] and len(found) == shape[0]):
        made = f"{shape[0]} queries and {shape[1]} keys"
        raise entry.wrong(key, f"has the shape {list(values.shape)}, the tokens are {made}")
    return values.reshape(shape)


def _allowed(entry: Entry, shape: tuple[int, int]) -> NDArray[np.bool_] | None:
    """Read which keys each row may attend to; None where nothing is forbidden."""
    runs = _runs(entry, shape)
    if runs is None:
        return None
    allowed = np.zeros(shape, np.bool_)
    for row, spans in enumerate(runs):
        for first, last in spans:
            allowed[row, first : last + 1] = True
    return allowed


def _runs(entry: Entry, shape: tuple[int, int]) -> list[NDArray[np.int32]] | None:
    """Read the runs of keys that each row may attend to; None where nothing is forbidden."""
    ranges = entry.values.get("allowed_keys")
    if ranges is None:
        return None
    if len(ranges) != shape[0]:
        raise entry.wrong("allowed_keys", f"has {len(ranges)} rows, there are {shape[0]} queries")
    return [
        np.array(_spans(entry, row, spans, shape[1]), np.int32).reshape(-1, 2)
        for row, spans in enumerate(ranges)
    ]


def _spans(entry: Entry, row: int, spans: list[list[int]], keys: int) -> list[list[int]]:
    for first, last in spans:
        if not first <= last < keys:
            raise entry.wrong(f"allowed_keys[{row}]", f"goes beyond the {keys} keys")
    return spans


def _from_top(entry: Entry, unit: str, shape: tuple[int, int], keys: Tokens) -> Matrix:
    if unit == "mask":
        raise entry.wrong("top", "lists a part of a mask, which cannot be drawn")
    listed = entry.values["top"]
    if len(listed) != shape[0]:
        raise entry.wrong("top", f"has {len(listed)} rows, there are {shape[0]} queries")
    columns = {token.position: column for column, token in reversed(list(enumerate(keys)))}
    found: list[list[tuple[int, float]]] = []
    for row in range(shape[0]):
        found.append([])
        for place, one in enumerate(listed[row]):
            column = columns.get(one["key"])
            if column is None:
                raise entry.wrong(f"top[{row}][{place}].key", f"is {one['key']}, which is no key's position")
            found[row].append((column, np.nan if one["weight"] is None else one["weight"]))
    longest = max(map(len, found), default=0)
    columns_of = np.full((shape[0], longest), NO_COLUMN, np.int32)
    weights = np.full((shape[0], longest), np.nan, np.float32)
    with np.errstate(over="ignore"):
        for row, listed_keys in enumerate(found):
            for place, (column, weight) in enumerate(listed_keys):
                columns_of[row, place], weights[row, place] = column, weight
    require_range(weights, unit, lambda what: entry.wrong("top", what))
    nothing = np.zeros((0, 0), np.float32)
    return Matrix(nothing, listed=Listed(columns_of, weights, shape[1], _runs(entry, shape)))


def filled(matrix: Matrix) -> Matrix:
    """Return a matrix of which only the strongest keys were saved all its places; what is not known is NaN.

    Raises:
        TooLargeError: It does not fit in memory.
    """
    if matrix.listed is None:
        return matrix
    shape, listed = matrix.shape, matrix.listed
    require_memory(
        shape[0] * shape[1] * 5,
        f"a map of {shape[0]:,}×{shape[1]:,}",
        "formats that list the strongest keys need less: --format table, csv or json",
    )
    values = np.full(shape, np.nan, np.float32)
    allowed = None if listed.spans is None else np.zeros(shape, np.bool_)
    if allowed is not None and listed.spans is not None:
        for row, runs in enumerate(listed.spans):
            for first, last in runs:
                allowed[row, first : last + 1] = True
        values[~allowed] = 0.0
    rows, places = np.nonzero(listed.columns != NO_COLUMN)
    values[rows, listed.columns[rows, places]] = listed.weights[rows, places]
    return replace(matrix, values=values, allowed=allowed, listed=None)
