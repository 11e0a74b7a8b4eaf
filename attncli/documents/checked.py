"""A document as a typed structure: what a file holds is never taken on trust."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import ValidationError, convert

from attncli import record
from attncli.documents.forms import common as forms
from attncli.errors import ReadError
from attncli.labels import fit, safe_label
from attncli.record import SourceInfo
from attncli.view import SCHEMA, Header

T = TypeVar("T")

_PLAIN = {"int": "whole number", "float": "number", "str": "text", "array": "list", "bool": "true or false"}
_OF_ALL = ("schema", "command", "title", "notes", "provenance")


def parse(content: bytes, name: str, hint: str) -> dict[str, Any]:
    """Parse a document and check that it is one of ours, of a form that is known.

    Args:
        name: The file's name, safe to show.
        hint: How to make a file that can be read.

    Raises:
        ReadError: It is not.
    """
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError) as error:
        where = f"at character {error.pos:,}" if isinstance(error, json.JSONDecodeError) else "in its text"
        raise ReadError(
            f"{name}: neither a JSON document nor an .npz archive (broken {where})", hint
        ) from error
    if not isinstance(parsed, dict) or not isinstance(parsed.get("schema"), int) or "command" not in parsed:
        raise ReadError(f"{name}: it is not attncli's: no schema and command in it", hint)
    if parsed["schema"] > SCHEMA:
        raise ReadError(
            f"{name}: written by a later attncli (schema {parsed['schema']}; this one reads {SCHEMA})",
            "update attncli",
        )
    return parsed


def checked(parsed: Mapping[str, Any], structure: type[T], name: str) -> T:
    """Return a document as a structure; keys that the structure has not are left out.

    Raises:
        ReadError: Something in it is not as it should be.
    """
    try:
        return convert(parsed, structure)
    except ValidationError as error:
        raise _told(str(error), name) from error


def _told(error: str, name: str) -> ReadError:
    """Turn what msgspec says into a path and what is wrong there."""
    what, _, path = error.replace("`", "").replace("Invalid enum value", "unknown word").partition(" - at ")
    path = path.removeprefix("key in ").removeprefix("$").removeprefix(".")
    if (missing := what.removeprefix("Object missing required field ")) != what:
        return damaged(name, f"{path}.{missing}".removeprefix("."), "is missing")
    what = re.sub(r"\b(int|float|str|array|bool)\b", lambda word: _PLAIN[word[0]], what)
    return damaged(name, path or "the document", f"{what[:1].lower()}{what[1:]}")


def damaged(name: str, path: str, what: str) -> ReadError:
    """Make the error for a value that is not as it should be."""
    colon = "" if what.startswith(("is ", "has ", "holds ", "goes ")) else ":"
    told = f"{name}: {safe_label(path)}{colon} {fit(safe_label(what), 100)}"
    return ReadError(told, "the file is damaged, or not attncli's (attncli schema)")


def header_of(document: forms.Document) -> Header:
    """Return what a document says of itself."""
    source: Any = document.get("source")
    return Header(
        command=str(document.get("command")),
        title=document.get("title", ""),
        provenance=_provenance(document["provenance"]),
        source=None if source is None else SourceInfo(**source),
        notes=tuple(safe_label(note) for note in document.get("notes", ()) if note),
    )


def body_of(parsed: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a document holds besides the keys that all documents have."""
    return {key: value for key, value in parsed.items() if key not in _OF_ALL}


def _provenance(made: forms.Provenance) -> record.Provenance:
    values: dict[str, Any] = {**made, "argv": tuple(made["argv"])}
    if "original" in made:
        values["original"] = _provenance(made["original"])
    return record.Provenance(**values)
