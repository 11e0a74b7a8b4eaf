"""What ``diff`` shows: heads ranked by their distance, or the maps of the first of them side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np

from attncli.diff.alignment import Alignment
from attncli.diff.compare import Score
from attncli.diff.document import ranking_of
from attncli.diff.options import DiffOptions
from attncli.diff.run import Answer
from attncli.labels import safe_label
from attncli.maps.views import source_title
from attncli.record import Provenance, Tokens
from attncli.view import Header, HeadRanking, Matrix, MatrixGrid

_SHOWN_CHANGES = 6


def diff_view(found: Answer, choice: DiffOptions, made: Provenance) -> HeadRanking:
    """Make the view of ranked heads."""
    scores = found.scores if choice.top is None else found.scores[: choice.top]
    header = Header(
        command="diff",
        title=f"{_title(found)} · {len(found.scores)} {found.first.kind} heads",
        provenance=made,
        source=found.first.source,
        notes=tuple(_notes(found, choice)),
    )
    document = {
        "by": choice.by,
        "source": asdict(found.first.source),
        "other_source": asdict(found.second.source),
        "names": list(found.names),
        "corpus": _corpus(found),
        "top": choice.top,
        "heads": [_entry(score, found) for score in scores],
        "maps": [_map(found, choice.by)],
    }
    return ranking_of(document, header)


def maps_view(found: Answer, choice: DiffOptions, made: Provenance) -> MatrixGrid:
    """Make the view of the first heads: each side's map over the aligned tokens, and what changed."""
    assert found.pairs is not None and choice.maps is not None
    rows, keys = found.pairs.rows, found.pairs.keys
    matrices = []
    for score in found.scores[: choice.maps]:
        ours = found.first.maps[score.head].values[np.ix_(rows.before, keys.before)]
        theirs = found.second.maps[score.other].values[np.ix_(rows.after, keys.after)]
        name = _head_name(score)
        named = zip((*found.names, "difference"), (ours, theirs, theirs - ours), strict=True)
        matrices += [
            Matrix(
                values,
                kind=found.first.kind,
                layer=score.head[0],
                head=score.head[1],
                label=f"{name} · {side}",
            )
            for side, values in named
        ]
    header = Header(
        command="diff",
        title=f"{_title(found)} · maps of A, of B, and B − A",
        provenance=made,
        source=found.first.source,
        notes=tuple(_notes(found, choice)),
    )
    queries = _aligned(found.first.queries, found.second.queries, rows)
    return MatrixGrid(
        header, tuple(matrices), queries, _aligned(found.first.keys, found.second.keys, keys), "signed"
    )


def _title(found: Answer) -> str:
    model = source_title(found.first.source)
    if found.names == ("A", "B"):
        return f"{model} · text A against text B"
    return f"{model} · {found.names[0]} against {found.names[1]}"


def _notes(found: Answer, choice: DiffOptions) -> list[str]:
    runs = (found.first.run, found.second.run) if found.sums is None else ()
    notes = list(dict.fromkeys(note for run in runs if run is not None for note in run.notes))
    if found.pairs is not None:
        notes += _token_notes(found, found.pairs.rows)
        if any(not math.isfinite(score.distance) for score in found.scores):
            notes.append("heads without a distance have signed or empty rows; max_abs compares them")
    if choice.words:
        notes.append("words are compared: weights on a word's tokens are summed, those of its rows averaged")
    if choice.by_depth:
        notes.append(
            "layers are matched by relative depth, and each head of A with the closest head of B's layer"
        )
    if found.sums is not None and found.sums.null_texts:
        notes.append(
            f"baseline: each head of A against itself on another text, by position ({found.sums.null_texts} pairs)"
        )
    notes.append(
        "distance: Jensen–Shannon, base 2, mean over the rows of tokens that both have; "
        "0 is the same, 1 has no key in common"
    )
    return notes


def _token_notes(found: Answer, rows: Alignment) -> list[str]:
    """Return which tokens were replaced, removed and added."""
    before, after = found.first.queries, found.second.queries
    parts = {
        "replaced": [
            f"{_label(before[one])} → {_label(after[other])}"
            for one, other, replaced in zip(rows.before, rows.after, rows.replaced, strict=True)
            if replaced
        ],
        "only in A": [_label(before[place]) for place in rows.removed],
        "only in B": [_label(after[place]) for place in rows.added],
    }
    return [f"{what}: {_listed(tokens)}" for what, tokens in parts.items() if tokens]


def _listed(parts: Sequence[str]) -> str:
    rest = len(parts) - _SHOWN_CHANGES
    return ", ".join(parts[:_SHOWN_CHANGES]) + (f" and {rest} more" if rest > 0 else "")


def _label(token: object) -> str:
    return f'"{safe_label(getattr(token, "text", "").strip() or getattr(token, "label", ""))}"'


def _aligned(before: Tokens, after: Tokens, pairs: Alignment) -> Tokens:
    """Return the tokens of aligned places, those of both sides where they differ."""
    return tuple(
        replace(before[one], label=f"{before[one].label}→{after[other].label}") if replaced else before[one]
        for one, other, replaced in zip(pairs.before, pairs.after, pairs.replaced, strict=True)
    )


def _head_name(score: Score) -> str:
    name = f"L{score.head[0]}H{score.head[1]}"
    return name if score.head == score.other else f"{name} / L{score.other[0]}H{score.other[1]}"


def _entry(score: Score, found: Answer) -> dict[str, object]:
    entry: dict[str, object] = {
        "kind": found.first.kind,
        "layer": score.head[0],
        "head": score.head[1],
        "other": {"layer": score.other[0], "head": score.other[1]},
        "metrics": _metrics(score),
    }
    if score.row is not None and found.pairs is not None:
        rows = found.pairs.rows
        entry["largest_row"] = {
            "distance": _number(score.row_distance),
            "position": found.first.queries[rows.before[score.row]].position,
            "other_position": found.second.queries[rows.after[score.row]].position,
            "token": found.first.queries[rows.before[score.row]].text,
            "other_token": found.second.queries[rows.after[score.row]].text,
            "label": _aligned(found.first.queries, found.second.queries, rows)[score.row].label,
        }
    return entry


def _metrics(score: Score) -> dict[str, object]:
    return {
        "distance": _number(score.distance),
        "divergence": _number(score.divergence),
        "max_abs": _number(score.max_abs),
        "rows": score.rows,
        "stderr": _number(score.stderr),
        "baseline": _number(score.null),
    }


def _corpus(found: Answer) -> dict[str, object]:
    if found.sums is not None:
        return {"texts": found.sums.texts, "null_texts": found.sums.null_texts}
    assert found.pairs is not None
    rows = found.pairs.rows
    return {
        "texts": 1,
        "null_texts": 0,
        "aligned": len(rows.before),
        "replaced": sum(rows.replaced),
        "only_a": len(rows.removed),
        "only_b": len(rows.added),
    }


def _map(found: Answer, by: str) -> dict[str, object]:
    """Lay the metric of all heads out by layer and head."""
    layers = sorted({score.head[0] for score in found.scores})
    heads = sorted({score.head[1] for score in found.scores})
    numbers = {score.head: _number(score.value(by)) for score in found.scores}
    values = [[numbers.get((layer, head)) for head in heads] for layer in layers]
    return {"kind": found.first.kind, "layers": layers, "heads": heads, "values": values}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
