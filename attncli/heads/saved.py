"""Saved rankings of heads: read back to be drawn, to be compared with, and to go on from where one was interrupted."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from attncli import registry
from attncli.documents.fields import Fields
from attncli.errors import ReadError
from attncli.heads.changes import Change, Old, OldRun
from attncli.heads.scores import ROLE, Head, Number
from attncli.heads.tables import Measured, Ranked, ranking_of
from attncli.labels import fit, safe_label
from attncli.record import KINDS, Kind
from attncli.view import SCHEMA, Header, HeadRanking

_HINT = "attncli heads writes one with --json or -o FILE.json"


def load_heads(path: str) -> OldRun:
    """Read the heads of a saved run.

    Raises:
        ReadError: It cannot be read, or is no ranking of heads.
    """
    heads = map(_head, _document(path).parts("heads"))
    return {(head.kind, head.layer, head.head): _old(head) for head in heads}


def read_view(document: Fields, header: Header) -> HeadRanking:
    """Make the view that a ranking's document was written from.

    Raises:
        ReadError: Something in it is not as it should be.
    """
    return ranking_of(ranked_heads(document), header, document.body)


def ranked_heads(document: Fields) -> Ranked:
    """Return the heads of a ranking's document in their order, and what else was found of them.

    Raises:
        ReadError: Something in it is not as it should be.
    """
    by = document.choice("by", (ROLE, *registry.entries("metrics")))
    entries = document.parts("heads")
    heads = [_head(entry) for entry in entries]
    measured = _measured(document, heads)
    for entry, head in zip(entries, heads, strict=True):
        if head.kind != measured.kind or head.layer not in measured.layers or head.head not in measured.heads:
            raise entry.wrong("head", "is not among those that were measured")
    return Ranked(by, document.count("top"), heads, measured, _groups(document), _changes(document))


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


def _head(entry: Fields) -> Head:
    layer, head, metrics = _index(entry, "layer"), _index(entry, "head"), entry.part("metrics")
    for name in metrics.values:
        if not re.fullmatch(r"[a-z0-9_]{1,40}", name):
            raise metrics.wrong(fit(safe_label(name), 30), "is no metric's name")
    kv_head, nearest = entry.count("kv_head"), entry.maybe("nearest", dict)
    return Head(
        cast(Kind, entry.choice("kind", KINDS)),
        layer,
        head,
        head if kv_head is None else kv_head,
        {name: _number(metrics.part(name)) for name in metrics.values},
        entry.texts("labels"),
        None if nearest is None else _place(entry.part("nearest")),
        entry.number("excluded"),
    )


def _old(head: Head) -> Old:
    return Old({name: (number.mean, number.stderr) for name, number in head.numbers.items()}, head.labels)


def _number(fields: Fields) -> Number:
    mean, stderr, null, chance, shuffled = (
        _float(fields, key) for key in ("mean", "stderr", "null", "chance", "shuffled")
    )
    return Number(mean, stderr, null, chance, shuffled, fields.count("rows") or 0)


def _float(fields: Fields, key: str) -> float:
    value = fields.real(key)
    return math.nan if value is None else float(value)


def _index(fields: Fields, key: str) -> int:
    index = fields.count(key)
    if index is None:
        raise fields.wrong(key, "is missing")
    return index


def _place(fields: Fields) -> tuple[int, int]:
    return _index(fields, "layer"), _index(fields, "head")


def _measured(document: Fields, heads: list[Head]) -> Measured:
    """Return what was measured; earlier documents say it only of the heads that they list."""
    if document.maybe("measured", dict) is None:
        return Measured.of(heads[0].kind if heads else "encoder", heads)
    fields = document.part("measured")
    kind = cast(Kind, fields.choice("kind", KINDS))
    layers, numbers, count = fields.counts("layers"), fields.counts("heads"), fields.count("count")
    if count is None:
        whole = document.values.get("top") is None and document.values.get("where") is None
        count = len(heads) if whole else len(layers) * len(numbers)
    return Measured(kind, layers, numbers, fields.texts("metrics"), count)


def _groups(document: Fields) -> list[list[tuple[int, int]]]:
    groups = document.maybe("clusters", list) or []
    named = (Fields({"heads": group}, document.file, f"clusters[{i}].") for i, group in enumerate(groups))
    return [[_place(head) for head in group.parts("heads")] for group in named]


def _changes(document: Fields) -> tuple[str, list[Change]] | None:
    if document.maybe("changes", list) is None:
        return None
    name = safe_label(document.text("compared_to", "an older run"))
    return name, [_change(entry) for entry in document.parts("changes")]


def _change(entry: Fields) -> Change:
    before, now, z = (_float(entry, key) for key in ("before", "now", "z"))
    kind, metric = entry.choice("kind", KINDS), entry.get("metric", str)
    names = entry.texts("labels_before"), entry.texts("labels")
    return Change(kind, *_place(entry), metric, before, now, z, *names)
