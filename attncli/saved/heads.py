"""Saved rankings of heads: read back to be compared with, and to go on from where one was interrupted."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attncli.analysis.head_changes import Old, OldRun
from attncli.errors import ReadError
from attncli.labels import safe_label
from attncli.record import KINDS
from attncli.saved.fields import Fields
from attncli.view import SCHEMA

_HINT = "attncli heads writes one with --json or -o FILE.json"


def load_heads(path: str) -> OldRun:
    """Read the heads of a saved run.

    Raises:
        ReadError: It cannot be read, or is no ranking of heads.
    """
    document = _document(path)
    found = {}
    for entry in document.parts("heads"):
        layer, head = entry.count("layer"), entry.count("head")
        if layer is None or head is None:
            raise entry.wrong("layer" if layer is None else "head", "is missing")
        metrics = entry.part("metrics")
        numbers = {name: _number(metrics.part(name)) for name in metrics.values}
        found[entry.choice("kind", KINDS), layer, head] = Old(numbers, entry.texts("labels"))
    return found


def load_progress(path: str) -> Mapping[str, Any]:
    """Read what an interrupted run needs to go on: its ``settings`` and its ``progress``.

    Raises:
        ReadError: It cannot be read, or the run was finished.
    """
    document = _document(path)
    if document.maybe("progress", dict) is None:
        raise ReadError(f"{safe_label(path)}: that run was finished: there is nothing to go on with")
    return {"settings": document.get("settings", dict), "progress": document.get("progress", dict)}


def _document(path: str) -> Fields:
    shown = safe_label(path)
    try:
        parsed = json.loads(Path(path).expanduser().read_bytes())
    except (OSError, RuntimeError) as error:
        raise ReadError(f"{shown}: {getattr(error, 'strerror', None) or error}") from error
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{shown}: no JSON that can be read", _HINT) from error
    if not isinstance(parsed, dict) or parsed.get("command") != "heads":
        raise ReadError(f"{shown}: no answer of attncli heads", _HINT)
    if not isinstance(parsed.get("schema"), int) or parsed["schema"] > SCHEMA:
        raise ReadError(f"{shown}: written by a later attncli", "update attncli")
    return Fields(parsed, shown)


def _number(fields: Fields) -> tuple[float, float]:
    return _float(fields, "mean"), _float(fields, "stderr")


def _float(fields: Fields, key: str) -> float:
    value = fields.values.get(key)
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise fields.wrong(key, "is no number")
    return float(value)
