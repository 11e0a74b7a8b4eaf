"""Saved rankings of heads: read back to be drawn, to be compared with, and to go on from where one was interrupted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attncli import registry
from attncli.documents.checked import body_of, checked, damaged, header_of, parse
from attncli.documents.forms.heads import HeadChange, HeadNumber, RankedHead, RankedHeads
from attncli.errors import ReadError
from attncli.heads.changes import Change, Old, OldRun
from attncli.heads.scores import CHANGES, ROLE, Head, Number
from attncli.heads.tables import Measured, Ranked, ranking_of
from attncli.labels import safe_label
from attncli.view import HeadRanking

_HINT = "attncli heads writes one with --json or -o FILE.json"


def load_heads(path: str) -> OldRun:
    """Read the heads of a saved run.

    Raises:
        ReadError: It cannot be read, or is no ranking of heads.
    """
    heads = map(_head, _document(path)["heads"])
    return {(head.kind, head.layer, head.head): _old(head) for head in heads}


def read_view(parsed: Mapping[str, Any], name: str) -> HeadRanking:
    """Make the view that a ranking's document was written from.

    Raises:
        ReadError: Something in it is not as it should be.
    """
    document = checked(parsed, RankedHeads, name)
    return ranking_of(ranked_heads(document, name), header_of(document), body_of(parsed))


def ranked_heads(document: RankedHeads, name: str) -> Ranked:
    """Return the heads of a ranking's document in their order, and what else was found of them.

    Raises:
        ReadError: What it says of them does not fit together.
    """
    if (by := document["by"]) not in (ROLE, *CHANGES, *registry.entries("metrics")):
        raise damaged(name, "by", f'is "{by}", expected {ROLE} or a metric (attncli list metrics)')
    heads = [_head(entry) for entry in document["heads"]]
    measured = _measured(document, heads)
    if len({*measured.layers}) < len(measured.layers) or len({*measured.heads}) < len(measured.heads):
        raise damaged(name, "measured", "has a layer or head twice")
    for place, head in enumerate(heads):
        if head.kind != measured.kind or head.layer not in measured.layers or head.head not in measured.heads:
            raise damaged(name, f"heads[{place}].head", "is not among those that were measured")
    groups = [[(head["layer"], head["head"]) for head in group] for group in document["clusters"]]
    return Ranked(by, document.get("top"), heads, measured, groups, _changes(document))


def load_progress(path: str) -> Mapping[str, Any]:
    """Read what an interrupted run needs to go on: its ``settings`` and its ``progress``.

    Raises:
        ReadError: It cannot be read, or the run was finished.
    """
    document = _document(path)
    if "progress" not in document:
        raise ReadError(f"{safe_label(path)}: that run was finished: there is nothing to go on with")
    return {"settings": document["settings"], "progress": document["progress"]}


def _document(path: str) -> RankedHeads:
    shown = safe_label(path)
    try:
        content = Path(path).expanduser().read_bytes()
    except (OSError, RuntimeError) as error:
        raise ReadError(f"{shown}: {getattr(error, 'strerror', None) or error}") from error
    parsed = parse(content, shown, _HINT)
    if parsed["command"] != "heads":
        raise ReadError(f"{shown}: no answer of attncli heads", _HINT)
    return checked(parsed, RankedHeads, shown)


def _head(entry: RankedHead) -> Head:
    nearest = entry.get("nearest")
    return Head(
        entry["kind"],
        entry["layer"],
        entry["head"],
        entry.get("kv_head", entry["head"]),
        {name: _number(number) for name, number in entry["metrics"].items()},
        _labels(entry["labels"]),
        None if nearest is None else (nearest["layer"], nearest["head"]),
        entry.get("excluded"),
    )


def _labels(saved: list[str]) -> tuple[str, ...]:
    """Return labels as metrics are spelt; older documents have ``previous-token``."""
    return tuple(label.replace("-", "_") for label in saved)


def _old(head: Head) -> Old:
    return Old({name: (number.mean, number.stderr) for name, number in head.numbers.items()}, head.labels)


def _number(saved: HeadNumber) -> Number:
    mean, stderr, null = map(_float, (saved["mean"], saved["stderr"], saved["null"]))
    return Number(
        mean, stderr, null, _float(saved.get("chance")), _float(saved.get("shuffled")), saved["rows"]
    )


def _float(value: float | None) -> float:
    return math.nan if value is None else value


def _measured(document: RankedHeads, heads: list[Head]) -> Measured:
    """Return what was measured; earlier documents say it only of the heads that they list."""
    if "measured" not in document:
        return Measured.of(heads[0].kind if heads else "encoder", heads)
    saved = document["measured"]
    layers, numbers, count = tuple(saved["layers"]), tuple(saved["heads"]), saved.get("count")
    if count is None:
        whole = document.get("top") is None and document.get("where") is None
        count = len(heads) if whole else len(layers) * len(numbers)
    return Measured(saved["kind"], layers, numbers, tuple(saved["metrics"]), count)


def _changes(document: RankedHeads) -> tuple[str, list[Change]] | None:
    if "changes" not in document:
        return None
    name = safe_label(document.get("compared_to", "an older run"))
    return name, [_change(entry) for entry in document["changes"]]


def _change(entry: HeadChange) -> Change:
    before, now, z = map(_float, (entry["before"], entry["now"], entry["z"]))
    place, names = (
        (entry["layer"], entry["head"]),
        (_labels(entry["labels_before"]), _labels(entry["labels"])),
    )
    return Change(entry["kind"], *place, entry["metric"], before, now, z, *names)
