"""From a saved run's bytes to its view: a .json document, or a .npz archive with the document and the numbers apart."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np
from numpy.typing import NDArray

from attncli.documents.checked import checked, damaged, header_of, parse
from attncli.documents.forms import common as forms
from attncli.documents.forms.grids import SHAPES as GRIDS
from attncli.documents.numbers import Entry, matrix_from_json, require_range
from attncli.errors import AttnCliError, ReadError
from attncli.labels import safe_label
from attncli.memory import require_memory
from attncli.record import Token, Tokens
from attncli.render.npz import by_name
from attncli.terminal import read_standard_input
from attncli.view import Curves, HeadRanking, Matrix, MatrixGrid, Pooling

_ZIP = b"PK"
_NO_RUN = "render draws what show, mask, compare, bench, heads and find wrote with -o run.json or -o run.npz"
_READERS = {
    "bench": "attncli.bench.saved",
    "heads": "attncli.heads.saved",
    "find": "attncli.find.saved",
    "diff": "attncli.diff.document",
}
"""The modules that read answers which are no matrices: each has ``read_view(parsed, name)``."""

_OF_ENTRY = {"name", "kind", "layer", "head", "kv_head", "shape", "weights", "allowed", "top", "allowed_keys"}

Saved = MatrixGrid | Curves | HeadRanking
Unit = Literal["weight", "mask", "signed"]


def load_run(path: str) -> Saved:
    """Read a saved run; ``-`` is stdin. What kind of file it is, its first bytes tell.

    Raises:
        ReadError: It cannot be read, or is no saved run, or is damaged.
        TooLargeError: It does not fit in memory.
    """
    if path == "-":
        return read_run(io.BytesIO(read_standard_input()), "stdin")
    with _opened(path) as stream:
        return read_run(stream, safe_label(path))


def _opened(path: str) -> BinaryIO:
    """Open a file; a pipe is read to its end, since archives are read from the end."""
    try:
        stream = Path(path).expanduser().open("rb")
        if stream.seekable():
            return stream
        with stream:
            return io.BytesIO(stream.read())
    except (OSError, RuntimeError, ValueError) as error:  # also a ~user who is not known, a name with a NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise ReadError(f"{safe_label(path)}: {safe_label(reason)}") from error


def read_run(stream: BinaryIO, name: str) -> Saved:
    """Read a run from an open file.

    Args:
        name: The file's name, safe to show.

    Raises:
        ReadError: It is no saved run, or is damaged.
    """
    start = stream.read(len(_ZIP))
    stream.seek(0)
    return _from_npz(stream, name) if start == _ZIP else _from_json(stream.read(), name)


def _from_json(content: bytes, name: str) -> Saved:
    parsed = _parsed(content, name)
    if (command := parsed["command"]) in _READERS and "attention" not in parsed:
        view: Saved = import_module(_READERS[command]).read_view(parsed, name)
        return view
    return _grid(parsed, name, matrix_from_json)


def _from_npz(stream: BinaryIO, name: str) -> MatrixGrid:
    arrays = _Arrays(stream, name)
    meta = arrays.get("meta")
    if meta.ndim != 0 or meta.dtype.kind != "U":
        raise arrays.wrong("meta", "is no text")
    parsed = _parsed(str(meta[()]).encode("utf-8", "surrogatepass"), name)
    if parsed["command"] not in GRIDS:
        raise arrays.wrong("meta", "describes no matrices")
    grid = _grid(parsed, name, _empty)
    matrices: dict[int, Matrix] = {}
    for array, members in by_name(grid).items():
        filled = arrays.fill(array, members, grid)
        matrices |= {id(empty): matrix for empty, matrix in zip(members, filled, strict=True)}
    return replace(grid, matrices=tuple(matrices[id(empty)] for empty in grid.matrices))


class _Arrays:
    """The arrays of an archive; whatever is wrong with it is told in one line."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._name = name
        archive = self._guarded(lambda: np.load(stream, allow_pickle=False), "no readable .npz archive")
        self._archive = cast(Mapping[str, NDArray[Any]], archive)
        size = sum(entry.file_size for entry in archive.zip.infolist())
        require_memory(size, f"the arrays of {name}")

    def get(self, key: str) -> NDArray[Any]:
        if key not in self._archive:
            raise ReadError(f"{self._name}: no array {safe_label(key)}, so it is no run of attncli", _NO_RUN)
        found = self._guarded(lambda: self._archive[key], f"the array {safe_label(key)} cannot be read")
        if not isinstance(found, np.ndarray):
            raise self.wrong(key, "is no array")
        return found

    def fill(self, name: str, members: list[Matrix], grid: MatrixGrid) -> list[Matrix]:
        """Return the matrices that share an array their numbers."""
        values = self.get(name)
        shape = (len(members), len(grid.query_tokens), len(grid.key_tokens))
        kinds = "b" if grid.unit == "mask" else "f"
        self._check(name, values, shape, kinds)
        values = values.astype(np.float32, copy=False)
        require_range(values, grid.unit, lambda what: self.wrong(name, what))
        allowed: NDArray[np.bool_] | None = values > 0 if grid.unit == "mask" else None
        if f"{name}.allowed" in self._archive:
            allowed = self.get(f"{name}.allowed")
            self._check(f"{name}.allowed", allowed, shape, "b")
        return [
            replace(one, values=values[i], allowed=None if allowed is None else allowed[i])
            for i, one in enumerate(members)
        ]

    def _check(self, key: str, array: NDArray[Any], shape: tuple[int, ...], kinds: str) -> None:
        if array.dtype.kind not in kinds:
            raise self.wrong(key, f"holds {array.dtype}, expected {'truths' if kinds == 'b' else 'numbers'}")
        if array.shape != shape:
            raise self.wrong(key, f"has the shape {array.shape}, the tokens and heads make {shape}")

    def wrong(self, key: str, what: str) -> ReadError:
        return ReadError(f"{self._name}: the array {safe_label(key)} {what}", "the file is damaged")

    def _guarded(self, read: Callable[[], Any], what: str) -> Any:
        """Read from the archive; what a damaged one can raise on the way, from zlib to tokenize, has no end."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                return read()
        except (MemoryError, AttnCliError):
            raise
        except Exception as error:
            reason = str(error)
            if "pickle" in reason:
                raise ReadError(
                    f"{self._name}: it holds pickled objects, which attncli does not load", _NO_RUN
                ) from error
            raise ReadError(f"{self._name}: {what}: truncated or damaged", _NO_RUN) from error


def _parsed(content: bytes, name: str) -> dict[str, Any]:
    parsed = parse(content, name, _NO_RUN)
    if parsed["command"] not in [*_READERS, *GRIDS]:
        told = f"{name}: an answer of attncli {safe_label(str(parsed['command']))}, which has nothing to draw"
        raise ReadError(told, _NO_RUN)
    return parsed


def _grid(
    parsed: Mapping[str, Any], name: str, numbers: Callable[[Entry, str, Tokens, Tokens], Matrix]
) -> MatrixGrid:
    """Make the view that a document was written from.

    Args:
        numbers: Gives an entry's matrix, nameless: from the entry itself, or empty.
    """
    shape = GRIDS[parsed["command"]]
    document: Any = checked(parsed, shape, name)
    unit: Unit = document.get("unit", "weight")
    queries, keys = (tuple(map(_token, document[axis])) for axis in ("query_tokens", "key_tokens"))
    entries = [Entry(name, f"attention[{i}]", entry) for i, entry in enumerate(document["attention"])]
    if not entries:
        raise damaged(name, "attention", "is empty: there is nothing to draw")
    matrices = tuple(_named(entry.values, numbers(entry, unit, queries, keys)) for entry in entries)
    facts = tuple({k: v for k, v in one.items() if k not in _OF_ENTRY} for one in parsed["attention"])
    listed = (len(row) for entry in entries for row in entry.values.get("top", ()))
    top = document.get("top") or max(listed, default=0)
    about = facts if any(facts) else ()
    pooled = Pooling(**document["pooled"]) if "pooled" in document else None
    return MatrixGrid(header_of(document), matrices, queries, keys, unit, top or None, about, pooled)


def _empty(entry: Entry, unit: str, queries: Tokens, keys: Tokens) -> Matrix:
    return Matrix(np.zeros((0, 0), np.float32))


def _named(entry: Mapping[str, Any], matrix: Matrix) -> Matrix:
    kind, layer, head, kv_head, name = map(entry.get, ("kind", "layer", "head", "kv_head", "name"))
    return replace(matrix, kind=kind, layer=layer, head=head, kv_head=kv_head, label=name)


def _token(saved: forms.Token) -> Token:
    """Return a token; what is left out of the document is its text."""
    text = saved["text"]
    written = None if saved["start"] is None else text
    return Token(**{"piece": text, "written": written, "sequence": None, **saved})  # type: ignore[arg-type]
