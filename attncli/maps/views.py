"""From what observers kept to what is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attncli.labels import safe_label
from attncli.maps.hints import what_to_look_at
from attncli.record import GridUnit, Kind, Provenance, Run, SourceInfo, Tokens
from attncli.view import NO_COLUMN, Header, Listed, Matrix, MatrixGrid, Pooling

if TYPE_CHECKING:
    from attncli.capture.measures import Measure
    from attncli.maps.comparison import Comparison
    from attncli.observers.allowed_keys import AllowedSpans
    from attncli.observers.strongest import StrongestKeys

_OF_KIND: Mapping[str, str] = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}


_WORTH_SAYING = 0.4
"""The least share of attention on the first token that is told."""


def weights_view(
    matrices: Sequence[Matrix],
    run: Run,
    kind: Kind,
    queries: Tokens,
    keys: Tokens,
    made: Provenance,
    top: int | None,
    *,
    pooled: Pooling | None = None,
    notes: Sequence[str] = (),
    firsts: Sequence[Matrix] | None = None,
    measure: Measure | None = None,
) -> MatrixGrid:
    """Make the view of ``show``.

    Args:
        queries: Tokens of the rows that were kept.
        keys: Tokens of the columns that were kept.
        made: How the answer was made.
        top: List only this many strongest keys of each row.
        pooled: How the matrices were pooled, where they were; the tokens are then `cell_tokens`.
        notes: More facts to tell.
        firsts: Of matrices that are only listed, the first column.
        measure: What is shown in place of the weights.
    """
    if measure is not None and measure.joins_heads:
        matrices = [replace(matrix, head=None, kv_head=None) for matrix in matrices]
    merged = pooled is not None or bool(notes)  # of pooled cells, or of words, the first is no token
    if pooled is not None:
        size = f"{len(queries)}×{len(keys)} cells show {pooled.queries:,}×{pooled.keys:,} tokens"
        notes = (*notes, f"pooled by {pooled.how}: {size}; a label is its cell's first position")
    plain = measure is None and not pooled and not notes
    hint = what_to_look_at(matrices, run.roles, queries, keys) if plain else None
    about: list[str] = [] if pooled else _dead_row_notes(matrices)
    if measure is not None:
        about += _carried_notes(measure, run, kind, None if merged else queries)
    elif not merged:
        about += _first_token_notes(firsts or matrices, run, queries, keys if firsts is None else keys[:1])
    header = Header(
        command="show",
        title=f"{source_title(run.source)} · {what_is_shown(matrices, kind)}"
        + ("" if measure is None else f" · {measure.title}"),
        provenance=made,
        source=run.source,
        notes=(*((hint,) if hint else ()), *run.notes, *notes, *about),
    )
    unit: GridUnit = "signed" if run.signed else "weight"
    if measure is not None:
        unit = "size" if measure.raw else "share"
    name = None if measure is None else measure.name
    return MatrixGrid(header, tuple(matrices), queries, keys, unit, top, pooled=pooled, measure=name)


def listed_matrices(
    named: Sequence[Matrix],
    found: StrongestKeys,
    allowed: AllowedSpans | None,
    rows: Sequence[int],
    width: int,
) -> tuple[Matrix, ...]:
    """Make matrices of which only the strongest keys are known.

    Args:
        named: A matrix for each, with its name.
        rows: Places of the wanted rows among those that were kept.
        width: Number of keys that there are.
    """
    strongest, made = found.strongest(), []
    for matrix in named:
        assert isinstance(matrix.layer, int) and isinstance(matrix.head, int)
        kept = strongest[matrix.layer]
        head = kept.heads.index(matrix.head)
        spans = None if allowed is None else allowed.spans(matrix.layer, matrix.head)
        listed = Listed(
            kept.keys[head, rows],
            kept.weights[head, rows],
            width,
            None if spans is None else [spans[row] for row in rows],
        )
        made.append(replace(matrix, values=matrix.values[:0, :0], allowed=None, listed=listed))
    return tuple(made)


def comparison_view(
    found: Sequence[Comparison],
    tokens: Tokens,
    made: Provenance,
    *,
    source: SourceInfo | None = None,
    kind: Kind = "encoder",
    notes: Sequence[str] = ("queries, keys and values come from random weights, not trained",),
) -> MatrixGrid:
    """Make the view of ``compare``: each variant's weights, with its distance from full attention's.

    Args:
        source: Where queries, keys and values come from; None for random weights.
        notes: What to say of them.
    """
    mixed = any(one.name.endswith(" (causal)") for one in found)
    header = Header(
        command="compare",
        title=f"{len(found)} {'variant' if len(found) == 1 else 'variants'} on the same queries, keys and values",
        provenance=made,
        source=source or SourceInfo("scratch", "scratch", family="full"),
        notes=(
            *notes,
            *(["a causal variant is held against causal full attention"] if mixed else []),
            *(f"{one.name} with {one.settings}" for one in found if one.settings),
        ),
    )
    matrices = tuple(Matrix(one.weights, one.weights != 0, kind=kind, label=one.name) for one in found)
    facts = tuple(
        {"relative_error": one.relative_error, "kl_bits": one.kl_bits, "max_abs_error": one.max_abs_error}
        for one in found
    )
    signed = any(one.signed for one in found)
    return MatrixGrid(header, matrices, tokens, tokens, "signed" if signed else "weight", None, facts)


def mask_view(
    masks: Sequence[tuple[Matrix, NDArray[np.bool_]]],
    title: str,
    queries: Tokens,
    keys: Tokens,
    made: Provenance,
    *,
    source: SourceInfo | None = None,
    notes: Sequence[str] = (),
    facts: Sequence[Mapping[str, object]] = (),
) -> MatrixGrid:
    """Make the view of ``mask``.

    Args:
        masks: For each, an empty matrix that names it, and which keys each row may attend to ``(query, key)``.
        facts: More to say of each mask, in their order; it goes before what is measured on the mask itself, which for
            a pooled picture is not the truth.
    """
    matrices = tuple(
        Matrix(mask.astype(np.float32), mask, kind=named.kind, layer=named.layer, head=named.head)
        for named, mask in masks
    )
    extra = list(facts) or [{}] * len(masks)
    all_facts = tuple({**mask_facts(mask), **more} for (_, mask), more in zip(masks, extra, strict=True))
    header = Header(command="mask", title=title, provenance=made, source=source, notes=tuple(notes))
    return MatrixGrid(header, matrices, queries, keys, "mask", None, all_facts)


def mask_facts(mask: NDArray[np.bool_]) -> dict[str, object]:
    """Measure a mask.

    Returns:
        ``density`` (share of the pairs that are allowed), ``keys_per_row`` (least, median and most keys that a row
        sees) and ``rows_without_keys``.

    >>> mask_facts(np.tri(4, dtype=bool))["keys_per_row"]
    {'min': 1, 'median': 2.5, 'max': 4}
    """
    return row_facts(mask.sum(axis=1), mask.shape[1])


def row_facts(counts: NDArray[np.int64], keys: int) -> dict[str, object]:
    """Measure a mask that is known by how many keys each row sees; see `mask_facts`.

    Args:
        keys: How many keys there are to see.
    """
    if not counts.size:
        return {"density": 0.0, "keys_per_row": {"min": 0, "median": 0.0, "max": 0}, "rows_without_keys": 0}
    return {
        "density": float(counts.sum() / (counts.size * keys)) if keys else 0.0,
        "keys_per_row": {
            "min": int(counts.min()),
            "median": float(np.median(counts)),
            "max": int(counts.max()),
        },
        "rows_without_keys": int((counts == 0).sum()),
    }


def source_title(source: SourceInfo) -> str:
    """Name a source in a title: a folder by its last part, with the adapter that was applied to it."""
    if source.kind == "scratch":
        return "scratch (untrained)" + (f" · {source.family}" if source.family not in (None, "full") else "")
    name, adapter = (PurePath(path or "").name or path or "" for path in (source.name, source.adapter))
    if source.adapter is None:
        return safe_label(name)
    return safe_label(
        f"{name} with its adapter" if source.adapter == source.name else f"{name} with adapter {adapter}"
    )


def what_is_shown(matrices: Sequence[Matrix], kind: str) -> str:
    """Return which attention some matrices are, for a title."""
    if len(matrices) != 1:
        return f"{_OF_KIND[kind]}, {len(matrices)} heads"
    only = matrices[0]
    if only.label is not None:
        return f"{_OF_KIND[kind]}, {only.label}"
    layer = f"{only.layer} of layers" if isinstance(only.layer, str) else f"layer {only.layer}"
    head = f"{only.head} of heads" if isinstance(only.head, str) else f"head {only.head}"
    head = "all heads together" if only.head is None else head
    return f"{_OF_KIND[kind]} {layer} {head}"


def _first_token_notes(matrices: Sequence[Matrix], run: Run, queries: Tokens, keys: Tokens) -> list[str]:
    """Return how much of a decoder's attention rests on the first token: that explains most surprises."""
    if run.source.kind == "scratch" or any(matrix.kind != "decoder" for matrix in matrices):
        return []
    share = first_token_share(matrices, queries, keys)
    if share is None or share < _WORTH_SAYING:
        return []
    first = next(token.label for token in keys if token.position == 0)
    after = sum(token.position > 0 for token in queries)
    rows = len(_rows_that_see(matrices, queries, keys))
    whose = "of all attention goes" if rows == after else "of the attention of those that may see it goes"
    where = "" if len(matrices) == 1 else f" (mean of {len(matrices)} heads)"
    return [f'{100 * share:.0f} % {whose} to the first token, "{first}"{where}']


def _carried_notes(measure: Measure, run: Run, kind: Kind, queries: Tokens | None) -> list[str]:
    """Return how much of the weights, and of what they carry, the first token has."""
    keys = run.keys.get(kind, ())
    found = measure.first_token(None if queries is None else {token.position for token in queries})
    if found is None or not keys or kind == "cross":
        return []
    weight, carried = (f"{100 * part:.0f} %" for part in found)
    return [
        f'the first token, "{keys[0].label}", has {weight} of the weight and {carried} of what is carried '
        f"({measure.name}; mean over the rows after it)"
    ]


def first_token_share(matrices: Sequence[Matrix], queries: Tokens, keys: Tokens) -> float | None:
    """Return the mean weight on position 0 over all matrices and all rows after it; None where there are no such rows.

    Rows that may not attend to it in any of them, as those of later windows of a long text, are left out.
    """
    rows = _rows_that_see(matrices, queries, keys)
    if not rows:
        return None
    first = next(column for column, token in enumerate(keys) if token.position == 0)
    return float(np.mean([matrix.values[rows, first].mean() for matrix in matrices]))


def _rows_that_see(matrices: Sequence[Matrix], queries: Tokens, keys: Tokens) -> list[int]:
    """Return the rows after position 0 that may attend to it."""
    first = next((column for column, token in enumerate(keys) if token.position == 0), None)
    if first is None or not matrices:
        return []
    seen = np.zeros(len(queries), np.bool_)
    for matrix in matrices:
        seen |= True if matrix.allowed is None else matrix.allowed[:, first]
    return [row for row, token in enumerate(queries) if token.position > 0 and seen[row]]


def _dead_row_notes(matrices: Sequence[Matrix]) -> list[str]:
    """Return how many rows may attend to nothing: their weights are zeros, which is easily mistaken."""
    dead = max(map(_dead_rows, matrices), default=0)
    whose = (
        "1 row may attend to no key at all: its"
        if dead == 1
        else f"{dead} rows may attend to no key at all: their"
    )
    return [f"{whose} weights are zero"] if dead else []


def _dead_rows(matrix: Matrix) -> int:
    if matrix.listed is not None:
        return int((matrix.listed.columns[:, 0] == NO_COLUMN).sum())
    return 0 if matrix.allowed is None else int((~matrix.allowed.any(axis=1)).sum())
