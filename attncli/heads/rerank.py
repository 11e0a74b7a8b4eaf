"""Ranks the heads of a saved run again: by another of its metrics, or some of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from attncli import registry
from attncli.documents.checked import checked
from attncli.documents.forms.heads import RankedHeads
from attncli.heads.condition import parse_where
from attncli.heads.ranking import (
    Corpus,
    RankingRequest,
    metric_named,
    metric_notes,
    rank,
    ranking_title,
)
from attncli.heads.saved import ranked_heads
from attncli.heads.scores import CHANGES, ROLE
from attncli.heads.tables import Measured, Ranked, metric_column, ranking_of
from attncli.labels import safe_label
from attncli.maps.saved_selection import places
from attncli.observers.selection import NO_MEAN, parse_selection
from attncli.render import json_format
from attncli.view import HeadRanking


@dataclass(frozen=True, slots=True)
class Again:
    """How a saved ranking is to be ranked now; by default as it was.

    Args:
        by: A metric, or ``role``; None for the order in which heads were saved.
        ascending: Whether the smallest comes first.
        top: How many to give.
        where: Which heads to give.
        layer: As ``--layer``: of which layers.
        head: As ``--head``.
        groups: Whether people see which heads do the same.
    """

    by: str | None = None
    ascending: bool = False
    top: int | None = None
    where: str | None = None
    layer: str = "all"
    head: str = "all"
    groups: bool = False

    @property
    def parts(self) -> str:
        """Which layers and heads were asked for, as it was typed."""
        asked = (("--layer", self.layer), ("--head", self.head))
        return " ".join(f"{option} {what}" for option, what in asked if what != "all")


def rank_again(view: HeadRanking, again: Again, file: str) -> HeadRanking:
    """Rank the heads of a saved run again.

    Args:
        view: What `attncli.heads.saved.read_view` made of it.
        file: Its name, safe to show.

    Raises:
        UsageError: What is asked for is not in the run.
        ReadError: Something in it is not as it should be.
    """
    document = checked(json_format.document(view), RankedHeads, file)
    saved, corpus = ranked_heads(document, file), _corpus(document)
    metrics = registry.entries("metrics")
    names = [name for name in saved.measured.metrics if name in metrics or name in CHANGES]
    by = saved.by if again.by is None else metric_named(again.by, [ROLE, *names], "not in the run")
    where = None if again.where is None else (parse_where(again.where, names), again.where)
    measured = _part(saved, again)
    chosen = {(layer, head) for layer in measured.layers for head in measured.heads}
    inside = [head for head in saved.heads if (head.layer, head.head) in chosen]
    in_order = again.by is None and not again.ascending
    heads = rank(inside, RankingRequest(by, again.ascending, again.top, where), ranked=in_order)
    changes = None
    if saved.changes is not None:
        name, all_changes = saved.changes
        changes = name, [change for change in all_changes if (change.layer, change.head) in chosen]
    groups = [[place for place in group if place in chosen] for group in saved.groups]
    groups = sorted((group for group in groups if len(group) > 1), key=len, reverse=True)
    ranked = Ranked(by, again.top, heads, measured, groups, changes, again.groups)
    about = metric_notes(by, saved.heads, corpus)
    notes = [*_notes_with(view.header.notes, _old_metric_notes(document, saved, corpus), about)]
    notes += _what_is_left(saved, measured, again)
    title = ranking_title(view.header.source, measured.kind, len(heads), measured.count, by, corpus)
    header = replace(view.header, title=title, notes=tuple(dict.fromkeys(notes)))
    return ranking_of(
        ranked, header, {**view.document, **_changed(view.document, ranked, again), "metric_notes": about}
    )


def _old_metric_notes(document: RankedHeads, saved: Ranked, corpus: Corpus) -> Sequence[str]:
    """Return those of the saved notes that hang on the number that the heads were ranked by."""
    if "metric_notes" in document:
        return [safe_label(note) for note in document["metric_notes"]]
    return metric_notes(saved.by, saved.heads, corpus)  # saved before the run named them


def _notes_with(notes: Sequence[str], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield notes with others in the place of some of them; at the end where there were none."""
    place = min((notes.index(note) for note in old if note in notes), default=len(notes))
    yield from notes[:place]
    yield from new
    yield from (note for note in notes[place:] if note not in old)


def _part(saved: Ranked, again: Again) -> Measured:
    """Narrow what was measured to the layers and heads asked for."""
    layers = parse_selection(again.layer, "layer", no_mean=NO_MEAN)
    heads = parse_selection(again.head, "head", no_mean=NO_MEAN)
    if not again.parts:
        return saved.measured
    kept_layers, kept_heads = places(layers, saved.measured.layers), places(heads, saved.measured.heads)
    part = replace(
        saved.measured,
        layers=tuple(layer for layer in saved.measured.layers if layer in kept_layers),
        heads=tuple(head for head in saved.measured.heads if head in kept_heads),
    )
    count = len(part.layers) * len(part.heads)
    if len(saved.heads) == saved.measured.count:  # all were saved, and layers may differ in their heads
        count = sum(head.layer in kept_layers and head.head in kept_heads for head in saved.heads)
    return replace(part, count=count)


def _what_is_left(saved: Ranked, measured: Measured, again: Again) -> Iterable[str]:
    """Yield what a reader of the new ranking must know of the old one, and of what was left out."""
    other = again.by is not None or again.ascending or again.where is not None or again.parts
    if other and len(saved.heads) == saved.top and len(saved.heads) < saved.measured.count:
        by = metric_column(saved.by)
        yield f"only the first {saved.top} heads by {by.title or by.name.replace('_', ' ')} were saved"
    if measured != saved.measured:
        yield f"{measured.count} of {saved.measured.count} {measured.kind} heads: {again.parts}"


def _changed(document: Mapping[str, Any], ranked: Ranked, again: Again) -> dict[str, object]:
    """Return the keys of the document that are others now."""
    entries = {(entry["layer"], entry["head"]): entry for entry in document["heads"]}
    before = document.get("where")
    both = again.where if before is None else f"({before}) and ({again.where})"
    keys: dict[str, object] = {
        "by": ranked.by,
        "where": before if again.where is None else both,
        "top": ranked.top,
        "measured": asdict(ranked.measured),
        "heads": [entries[head.layer, head.head] for head in ranked.heads],
        "clusters": [[{"layer": layer, "head": head} for layer, head in group] for group in ranked.groups],
    }
    if ranked.changes is not None:
        kept = {(change.layer, change.head) for change in ranked.changes[1]}
        changes = document["changes"]
        keys["changes"] = [change for change in changes if (change["layer"], change["head"]) in kept]
    return keys


def _corpus(document: RankedHeads) -> Corpus:
    saved = document["corpus"]
    texts, tokens, rows = saved["texts"], saved["tokens"], saved["rows"]
    other, bad = saved.get("null_texts", 0), saved.get("bad_lines", 0)
    about = saved.get("rule", ""), saved.get("probe"), saved.get("medium", "text")
    return Corpus(texts, tokens, rows, other, bad, *about)
