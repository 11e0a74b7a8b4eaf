"""From one explained row to what ``explain`` shows: steps and a diagram for people, data for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from attncli.explain.diagram import flow
from attncli.explain.row import Explained, Made
from attncli.explain.steps import Walk
from attncli.maps.views import source_title
from attncli.record import Provenance, Run
from attncli.view import Column, Header, Steps, Table

LISTED = 8
"""Without ``--top``, so many keys are listed for people."""

_KINDS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}
_DATA = (
    "query", "key", "query_token", "key_token", "dot", "scaled", "bias", "score", "allowed", "weight", "value_norm",
)  # fmt: skip


def explained_view(
    row: Explained,
    run: Run,
    made: Provenance,
    *,
    top: int | None = None,
    dims: int = 6,
    notes: Sequence[str] = (),
) -> Steps:
    """Make the view of ``explain``.

    Args:
        top: List only this many of the strongest keys; where None, `LISTED` for people and all for programs.
        dims: How many of a vector's first numbers people see.
        notes: How what was not named was chosen, and the like.
    """
    shown = strongest(row.weights, top or LISTED, row.allowed)
    token = row.query_token
    name = f"{_KINDS[row.layer.kind]} layer {row.layer.index} head {row.head}"
    header = Header(
        command="explain",
        title=f"{source_title(run.source)} · {name} · row {token.position} “{token.label}”",
        provenance=made,
        source=run.source,
        notes=(*run.notes, *notes),
    )
    listed = tuple(range(len(row.weights))) if top is None else shown
    data = Table(header, tuple(map(Column, _DATA)), tuple(_data(row, place) for place in listed), "keys")
    return Steps(header, Walk(row, shown, dims, header).steps(), flow(row), data, document(row, listed))


def strongest(
    weights: NDArray[np.float32], count: int, allowed: NDArray[np.bool_] | None = None
) -> tuple[int, ...]:
    """Return the places of the largest weights among the allowed keys, rising; of equals, the earlier.

    >>> strongest(np.array([0.1, 0.5, 0.1, 0.3], np.float32), 3)
    (0, 1, 3)
    """
    order = np.argsort(-weights, kind="stable")
    order = order if allowed is None else order[allowed[order]]
    return tuple(sorted(order[:count].tolist()))


def document(row: Explained, listed: Sequence[int]) -> dict[str, object]:
    """Return everything, for JSON.

    Args:
        listed: The keys to write, as places.
    """
    layer = row.layer
    return {
        "topic": "steps",
        "site": {
            "kind": layer.kind,
            "layer": layer.index,
            "head": row.head,
            "kv_head": row.kv_head,
            "heads": layer.heads,
            "kv_heads": layer.kv_heads,
            "module": layer.module,
        },
        "shapes": dict(row.shapes),
        "query_token": row.query_token,
        "input": row.input,
        "made": {letter: _made(made) for letter, made in row.made.items()},
        "query": row.query,
        "query_before_position": row.query_before,
        "factor": row.factor,
        "scale": row.scale,
        "softcap": row.softcap,
        "sink": row.sink,
        "scaling": {"own": asdict(row.own), "other": asdict(row.other)},
        "key_count": len(row.weights),
        "weight_sum": float(row.weights.sum(dtype=np.float64)),
        "keys": [_key(row, place) for place in listed],
        "output": row.output,
        "output_error": row.output_error,
        "added": None if row.added is None else _added(row),
        "diagram": [asdict(node) for node in flow(row)],
    }


def _key(row: Explained, place: int) -> dict[str, object]:
    """Write all of one key; what is None for every key of the row is left out."""
    entry: dict[str, object] = {
        "token": row.key_tokens[place],
        "input": None if row.key_input is None else row.key_input[place],
        "key": row.key[place],
        "key_before_position": None if row.key_before is None else row.key_before[place],
        "products": row.products[place],
        "dot": row.dots[place],
        "scaled": row.scaled[place],
        "capped": None if row.softcap is None else row.capped[place],
        "bias": None if row.bias is None else row.bias[place],
        "score": row.scores[place],
        "allowed": True if row.allowed is None else bool(row.allowed[place]),
        "weight": row.weights[place],
        "value": None if row.value is None else row.value[place],
    }
    return {name: value for name, value in entry.items() if value is not None}


def _made(made: Made) -> dict[str, object]:
    return {
        "formula": made.formula,
        "layer": made.layer,
        "rotated": made.rotated,
        "norms": made.norms,
        "modules": made.modules,
    }


def _added(row: Explained) -> dict[str, object]:
    added = row.added
    assert added is not None
    norms = {
        "norm": _norm(added.vector),
        "layer_norm": _norm(added.all_heads),
        "bias_norm": added.bias,
        "stream_norm": _norm(added.stream),
    }
    return {
        "vector": added.vector,
        "between": added.between,
        "gate": added.gate,
        "layer": added.all_heads,
        "stream": added.stream,
        **norms,
    }


def _norm(vector: NDArray[np.float32] | None) -> float | None:
    return None if vector is None else float(np.linalg.norm(vector.astype(np.float64)))


def _data(row: Explained, place: int) -> tuple[object, ...]:
    key = row.key_tokens[place]
    return (
        row.query_token.position,
        key.position,
        row.query_token.text,
        key.text,
        row.dots[place],
        row.scaled[place],
        None if row.bias is None else row.bias[place],
        row.scores[place],
        row.allowed is None or bool(row.allowed[place]),
        row.weights[place],
        None if row.value is None else np.float32(np.linalg.norm(row.value[place])),
    )
