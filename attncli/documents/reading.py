"""From a saved run's bytes to its view: a .json document, or a .npz archive with the document and the numbers apart."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np
from numpy.typing import NDArray

from attncli.documents.fields import Fields
from attncli.documents.numbers import matrix_from_json, require_range
from attncli.errors import AttnCliError, ReadError
from attncli.labels import safe_label
from attncli.memory import require_memory
from attncli.record import KINDS, Provenance, SourceInfo, Token, Tokens
from attncli.render.npz import by_site
from attncli.terminal import read_standard_input
from attncli.view import SCHEMA, Curves, Header, HeadRanking, Matrix, MatrixGrid, Pooling

_ZIP = b"PK"
_NO_RUN = "render draws what show, mask, compare, bench, heads and find wrote with -o run.json or -o run.npz"
_LISTS = {"bench": "cells", "heads": "heads", "find": "heads"}
"""The key that holds the answer of commands which give no matrices."""
_READERS = {"bench": "attncli.bench.saved", "heads": "attncli.heads.saved", "find": "attncli.find.saved"}
"""The modules that read such answers: each has ``read_view(document, header)``."""

_OF_ENTRY = {"name", "kind", "layer", "head", "kv_head", "shape", "weights", "allowed", "top", "allowed_keys"}
_SEGMENTS = ("system", "user", "assistant", "prompt", "generated")

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
    document = _document(content, name)
    if (command := document.values["command"]) in _READERS:
        view: Saved = import_module(_READERS[command]).read_view(document, _header(document))
        return view

    def numbers(entry: Fields, unit: str, queries: Tokens, keys: Tokens) -> Matrix:
        return matrix_from_json(entry, unit, len(queries), keys)

    return _grid(document, numbers)


def _from_npz(stream: BinaryIO, name: str) -> MatrixGrid:
    arrays = _Arrays(stream, name)
    meta = arrays.get("meta")
    if meta.ndim != 0 or meta.dtype.kind != "U":
        raise arrays.wrong("meta", "is no text")
    document = _document(str(meta[()]).encode("utf-8", "surrogatepass"), name)
    grid = _grid(document, _empty)
    matrices: dict[int, Matrix] = {}
    for site, members in by_site(grid).items():
        filled = arrays.fill(site, members, grid)
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

    def fill(self, site: str, members: list[Matrix], grid: MatrixGrid) -> list[Matrix]:
        """Return the matrices that share an array their numbers."""
        values = self.get(site)
        shape = (len(members), len(grid.query_tokens), len(grid.key_tokens))
        kinds = "b" if grid.unit == "mask" else "f"
        self._check(site, values, shape, kinds)
        values = values.astype(np.float32, copy=False)
        require_range(values, grid.unit, lambda what: self.wrong(site, what))
        allowed: NDArray[np.bool_] | None = values > 0 if grid.unit == "mask" else None
        if f"{site}.allowed" in self._archive:
            allowed = self.get(f"{site}.allowed")
            self._check(f"{site}.allowed", allowed, shape, "b")
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


def _document(content: bytes, name: str) -> Fields:
    """Parse a document and check that it is one of ours, of a form that is known."""
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError) as error:
        where = f"at character {error.pos:,}" if isinstance(error, json.JSONDecodeError) else "in its text"
        raise ReadError(
            f"{name}: neither a JSON document nor an .npz archive (broken {where})", _NO_RUN
        ) from error
    if not isinstance(parsed, dict) or not isinstance(parsed.get("schema"), int) or "command" not in parsed:
        raise ReadError(f"{name}: it is not attncli's: no schema and command in it", _NO_RUN)
    if parsed["schema"] > SCHEMA:
        raise ReadError(
            f"{name}: written by a later attncli (schema {parsed['schema']}; this one reads {SCHEMA})",
            "update attncli",
        )
    command = str(parsed["command"])
    if _LISTS.get(command, "attention") not in parsed:
        raise ReadError(
            f"{name}: an answer of attncli {safe_label(command)}, which has nothing to draw", _NO_RUN
        )
    return Fields(parsed, name)


def _grid(document: Fields, numbers: Callable[[Fields, str, Tokens, Tokens], Matrix]) -> MatrixGrid:
    """Make the view that a document was written from.

    Args:
        numbers: Gives an entry's matrix, nameless: from the entry itself, or empty.
    """
    unit = document.choice("unit", ("weight", "mask", "signed"), "weight")
    queries, keys = _tokens(document, "query_tokens"), _tokens(document, "key_tokens")
    entries = document.parts("attention")
    if not entries:
        raise document.wrong("attention", "is empty: there is nothing to draw")
    matrices = tuple(_named(entry, numbers(entry, unit, queries, keys)) for entry in entries)
    facts = tuple({k: v for k, v in entry.values.items() if k not in _OF_ENTRY} for entry in entries)
    listed = (len(row) for entry in entries for row in entry.values.get("top", ()))
    top = document.count("top") or max(listed, default=0)
    about = facts if any(facts) else ()
    pooled = None if document.maybe("pooled", dict) is None else _pooling(document.part("pooled"))
    named = cast(Unit, unit)
    return MatrixGrid(_header(document), matrices, queries, keys, named, top or None, about, pooled)


def _header(document: Fields) -> Header:
    return Header(
        command=document.get("command", str),
        title=document.text("title", ""),
        provenance=_provenance(document.part("provenance")),
        source=None if document.maybe("source", dict) is None else _source(document.part("source")),
        notes=tuple(safe_label(note) for note in document.texts("notes") if note),
    )


def _pooling(fields: Fields) -> Pooling:
    how = cast(Literal["max", "mean"], fields.choice("how", ("max", "mean")))
    return Pooling(how, fields.count("queries") or 0, fields.count("keys") or 0)


def _empty(entry: Fields, unit: str, queries: Tokens, keys: Tokens) -> Matrix:
    return Matrix(np.zeros((0, 0), np.float32))


def _named(entry: Fields, matrix: Matrix) -> Matrix:
    kind = None if entry.values.get("kind") is None else entry.choice("kind", KINDS)
    return replace(
        matrix,
        kind=kind,
        layer=_index(entry, "layer"),
        head=_index(entry, "head"),
        kv_head=entry.count("kv_head"),
        label=entry.maybe("name", str),
    )


def _index(entry: Fields, key: str) -> int | Literal["mean", "max"] | None:
    value = entry.values.get(key)
    return "mean" if value == "mean" else "max" if value == "max" else entry.count(key)


def _tokens(document: Fields, key: str) -> Tokens:
    return tuple(_token(fields) for fields in document.parts(key))


def _token(fields: Fields) -> Token:
    position, text = fields.count("position"), fields.get("text", str)
    if position is None:
        raise fields.wrong("position", "is missing")
    segment = fields.values.get("segment")
    return Token(
        position=position,
        id=fields.maybe("id", int),
        text=text,
        label=fields.text("label", safe_label(text)),
        special=fields.maybe("special", bool) or False,
        start=fields.count("start"),
        end=fields.count("end"),
        bytes=fields.maybe("bytes", str),
        piece=fields.text("piece", text),
        sequence=fields.count("sequence"),
        segment=None if segment is None else fields.choice("segment", _SEGMENTS),
        written=None if fields.values.get("start") is None else fields.text("written", text),
    )


def _source(fields: Fields) -> SourceInfo:
    kind = fields.choice("kind", ("pretrained", "scratch", "trained"))
    return SourceInfo(
        name=fields.get("name", str),
        kind=cast(Literal["pretrained", "scratch", "trained"], kind),
        family=fields.maybe("family", str),
        revision=fields.maybe("revision", str),
        adapter=fields.maybe("adapter", str),
        dtype=fields.text("dtype", "float32"),
        device=fields.text("device", "cpu"),
        capture=fields.text("capture", "scratch"),
    )


def _provenance(fields: Fields) -> Provenance:
    has_original = fields.maybe("original", dict) is not None
    return Provenance(
        attncli=fields.get("attncli", str),
        torch=fields.maybe("torch", str),
        transformers=fields.maybe("transformers", str),
        peft=fields.maybe("peft", str),
        argv=fields.texts("argv"),
        seed=fields.maybe("seed", int),
        original=_provenance(fields.part("original")) if has_original else None,
    )
