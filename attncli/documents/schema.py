"""JSON Schemas, made of the structures that documents are read with."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from msgspec.json import schema_components

from attncli.documents import forms
from attncli.documents.forms.common import Form
from attncli.view import SCHEMA


@cache
def known_forms() -> dict[str, Form]:
    """Return the forms of all documents by the command that writes them, in alphabetical order."""
    modules = [import_module(f"{forms.__name__}.{module.name}") for module in iter_modules(forms.__path__)]
    return dict(sorted(form for module in modules for form in getattr(module, "FORMS", {}).items()))


def schema_id(command: str) -> str:
    """Name the schema of a command's JSON."""
    return f"urn:attncli:schema:{SCHEMA}:{command}"


def json_schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a command's JSON.

    Raises:
        KeyError: It has no JSON.
    """
    form = known_forms()[command]
    roots, components = schema_components(form.shapes, ref_template="#/$defs/{name}")
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": schema_id(command),
        "title": form.title,
        "description": form.description,
    }
    if len(roots) > 1:
        root: dict[str, Any] = {"type": "object", "oneOf": list(roots)}
    else:
        root = components.pop(form.shapes[0].__name__)
    return {**head, **(root | head), **form.rules, "$defs": components}
