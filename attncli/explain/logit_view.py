"""From a logit taken apart to what ``explain --to`` shows: a map of heads, tables, and the document for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attncli.explain.logit import Attribution, HeadPart
from attncli.maps.views import source_title
from attncli.record import Provenance, Run, Token, Tokens
from attncli.view import Column, Header, HeadMap, HeadRanking, Table

LISTED = 8
"""Without ``--top``, so many heads and networks are listed for people."""

_KEYS = 3


def logit_view(
    found: Attribution,
    run: Run,
    row: Token,
    token: Token,
    made: Provenance,
    top: int | None,
    notes: Sequence[str] = (),
) -> HeadRanking:
    """Make the view of ``explain --to``.

    Args:
        row: The position after which the token would come.
        top: How many heads and networks are listed for people.
    """
    name = f"the logit of “{token.label}” after “{row.label}” ({row.position})"
    header = Header(
        command="explain",
        title=f"{source_title(run.source)} · {name}",
        provenance=made,
        source=run.source,
        notes=(*run.notes, *notes, *_notes(found)),
    )
    ranked = sorted(found.heads, key=lambda one: -abs(one.logit))
    listed = ranked[: top or LISTED]
    tables = [_sum(found, header), _heads(listed, run, header)]
    if found.feed_forward:
        tables.append(_networks(found, header, top or LISTED))
    return HeadRanking(
        header,
        Column("logit", digits=3),
        _maps(found),
        tuple(tables),
        _data(found, header),
        _document(found, run, row, token),
    )


def _notes(found: Attribution) -> list[str]:
    notes = [
        f"logit {found.logit:.3f}, probability {found.probability:.3g}, rank {found.rank:,} of all tokens; "
        f"the parts sum to it within {abs(found.error):.0e}"
    ]
    if found.scale is not None:
        notes.append(
            f"the final norm is folded in by the scale that it had here, {found.scale:.4g}, which itself depends on "
            "all parts: a part's number is not what would be lost without it"
        )
    if found.how == "soft-cap":
        notes.append(f"the soft-cap on the logits is folded in by its ratio here, {found.factor:.4f}")
    if found.how == "scale":
        notes.append(f"the model multiplies its logits by {found.factor:.4g}: that is folded in")
    return notes


def _sum(found: Attribution, header: Header) -> Table:
    heads, networks = [one.logit for one in found.heads], list(found.feed_forward.values())
    rows = (
        ("embedding", 1, found.embedding),
        ("heads", len(heads), sum(heads)),
        ("feed-forward networks", len(networks), sum(networks)),
        ("biases", None, found.biases),
        ("logit", None, found.logit),
    )
    columns = (Column("part"), Column("count"), Column("logit"))
    return Table(replace(header, title="What adds up to the logit", notes=()), columns, rows)


def _heads(listed: Sequence[HeadPart], run: Run, header: Header) -> Table:
    rows = tuple(
        (rank, _name(one), one.logit, _strongest(one, run.keys[one.layer.kind]))
        for rank, one in enumerate(listed, 1)
    )
    columns = (Column("rank"), Column("head"), Column("logit"), Column("from", "from these tokens"))
    return Table(replace(header, title="The heads that add or take most", notes=()), columns, rows)


def _name(one: HeadPart) -> str:
    return f"{'cross ' if one.layer.kind == 'cross' else ''}L{one.layer.index}H{one.head}"


def _strongest(one: HeadPart, keys: Tokens) -> str:
    if one.by_key is None:
        return "not to be told apart"
    order = sorted(range(len(one.by_key)), key=lambda key: -abs(one.by_key[key]))  # type: ignore[index]
    return ", ".join(f"{key} {keys[key].label} {one.by_key[key]:+.2f}" for key in order[:_KEYS])


def _networks(found: Attribution, header: Header, count: int) -> Table:
    ranked = sorted(found.feed_forward.items(), key=lambda one: -abs(one[1]))[:count]
    rows = tuple((rank, f"L{layer}", logit) for rank, (layer, logit) in enumerate(ranked, 1))
    title = "The feed-forward networks that add or take most"
    columns = (Column("rank"), Column("layer"), Column("logit"))
    return Table(replace(header, title=title, notes=()), columns, rows)


def _maps(found: Attribution) -> tuple[HeadMap, ...]:
    maps = []
    for kind in dict.fromkeys(one.layer.kind for one in found.heads):
        own = [one for one in found.heads if one.layer.kind == kind]
        layers = tuple(sorted({one.layer.index for one in own}))
        heads = tuple(range(max(one.head for one in own) + 1))
        values = np.full((len(layers), len(heads)), np.nan, np.float32)
        for one in own:
            values[layers.index(one.layer.index), one.head] = one.logit
        maps.append(HeadMap(kind, layers, heads, values))
    return tuple(maps)


def _data(found: Attribution, header: Header) -> Table:
    rows: list[tuple[object, ...]] = [("embedding", None, None, None, found.embedding)]
    rows += [("head", one.layer.kind, one.layer.index, one.head, one.logit) for one in found.heads]
    rows += [("feed_forward", None, layer, None, logit) for layer, logit in found.feed_forward.items()]
    rows.append(("biases", None, None, None, found.biases))
    return Table(header, tuple(map(Column, ("part", "kind", "layer", "head", "logit"))), tuple(rows), "parts")


def _document(found: Attribution, run: Run, row: Token, token: Token) -> dict[str, object]:
    return {
        "topic": "logit",
        "query_token": row,
        "token": token,
        "logit": found.logit,
        "probability": found.probability,
        "rank": found.rank,
        "norm_scale": found.scale,
        "factor": found.factor,
        "after": found.how or None,
        "error": found.error,
        "embedding": found.embedding,
        "biases": found.biases,
        "heads": [
            {
                "kind": one.layer.kind,
                "layer": one.layer.index,
                "head": one.head,
                "logit": one.logit,
                "keys": None if one.by_key is None else list(one.by_key),
            }
            for one in found.heads
        ],
        "feed_forward": [{"layer": layer, "logit": logit} for layer, logit in found.feed_forward.items()],
        "key_tokens": {
            kind: list(run.keys[kind]) for kind in dict.fromkeys(o.layer.kind for o in found.heads)
        },
    }
