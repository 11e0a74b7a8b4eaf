"""From what was found of heads to what is shown: a ranking, maps, and the document that programs read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from attncli import registry
from attncli.analysis.head_changes import Change, change_entry
from attncli.analysis.head_numbers import ROLE, STANDARD_ERRORS, THRESHOLD, Head
from attncli.analysis.head_tables import ALIKE, Measured, Ranked, finite, metric_column, ranking_of
from attncli.analysis.overlap import HeadOverlap, clusters
from attncli.analysis.roles import Thresholds
from attncli.analysis.views import source_title
from attncli.analysis.where import Condition
from attncli.record import Kind, Provenance, SourceInfo
from attncli.view import Header, HeadRanking

_NULLS = {
    "chance": "the same rows with their weight spread evenly over what they may attend to",
    "places": "the larger of chance and of the same places in shuffled texts",
    "pairs": "the larger of chance and of the same two tokens when shuffling has parted them",
    "shuffled": "the same head on shuffled texts",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """How heads are to be ranked and shown.

    Args:
        by: A metric, or ``role``.
        ascending: Whether the smallest comes first.
        top: How many to give; None for all, of which people see the first few.
        where: Which heads to give, and as it was typed.
    """

    by: str
    ascending: bool = False
    top: int | None = None
    where: tuple[Condition, str] | None = None


@dataclass(frozen=True)
class Corpus:
    """What the numbers are of.

    Args:
        texts: How many texts were read.
        tokens: How many tokens they have, special ones included.
        rows: How many rows count.
        null_texts: How many texts were run once more with other tokens.
        bad_lines: How many lines could not be used.
        rule: Which rows count, in words.
        probe: ``induction`` where the texts are random tokens.
    """

    texts: int
    tokens: int
    rows: int
    null_texts: int
    bad_lines: int
    rule: str
    probe: str | None = None


@dataclass(frozen=True)
class Answer:
    """Everything that was found.

    Args:
        kind: Which attention.
        heads: By layer and head.
        settings: On what the numbers depend, for the document.
        progress: Where an interrupted run stopped, to go on from; None where it was finished.
        changes: Against an older run.
        notes: More facts to tell.
    """

    kind: Kind
    heads: Sequence[Head]
    overlap: HeadOverlap
    thresholds: Thresholds
    corpus: Corpus
    source: SourceInfo
    settings: Mapping[str, object]
    progress: Mapping[str, object] | None = None
    changes: tuple[str, Sequence[Change]] | None = None
    notes: Sequence[str] = field(default_factory=tuple)


def heads_view(answer: Answer, wanted: Wanted, made: Provenance) -> HeadRanking:
    """Rank the heads."""
    heads = rank(answer.heads, wanted)
    measured, groups = Measured.of(answer.kind, answer.heads), _groups(answer.overlap)
    ranked = Ranked(wanted.by, wanted.top, heads, measured, groups, answer.changes)
    header = Header(
        command="heads",
        title=_title(answer, wanted, len(heads)),
        provenance=made,
        source=answer.source,
        notes=tuple(_notes(answer, wanted)),
    )
    return ranking_of(ranked, header, _document(answer, wanted, ranked))


def rank(heads: Sequence[Head], wanted: Wanted) -> list[Head]:
    """Choose and sort heads; those without the number that they are ranked by come last."""
    kept = [head for head in heads if wanted.where is None or wanted.where[0](head)]
    sign = 1 if wanted.ascending else -1

    def key(head: Head) -> tuple[bool, float, int, int]:
        value = head.value(wanted.by)
        return math.isnan(value), 0.0 if math.isnan(value) else sign * value, head.layer, head.head

    return sorted(kept, key=key)[: wanted.top]


def _title(answer: Answer, wanted: Wanted, shown: int) -> str:
    by, count = metric_column(wanted.by), len(answer.heads)
    of = f"{count} {answer.kind} heads" if count != 1 else f"one {answer.kind} head"
    if shown < count:
        of = f"{shown} of {of}"
    probe = "random repeated tokens" if answer.corpus.probe else f"{answer.corpus.texts:,} texts"
    texts = probe if answer.corpus.texts != 1 else "one text"
    by_text = by.title or by.name.replace("_", " ")
    return f"{source_title(answer.source)} · {of} by {by_text} · {texts}"


def _notes(answer: Answer, wanted: Wanted) -> list[str]:
    corpus = answer.corpus
    notes = [*answer.notes]
    if answer.progress is not None:
        notes.append(f"interrupted: this is what {corpus.texts:,} texts gave; --resume goes on")
    nothing = "" if corpus.rows else ": nothing was measured"
    notes.append(f"rows: {corpus.rule} ({corpus.rows:,} of {corpus.tokens:,} tokens){nothing}")
    left_out = _undefined(answer, wanted.by)
    if left_out:
        notes.append(left_out)
    if wanted.by != ROLE:
        null = registry.entries("metrics")[wanted.by].attributes.get("null")
        if null:
            notes.append(f"null: {_null_text(str(null), corpus)}")
    else:
        notes.append(
            "null: even weight, or shuffled texts where they explain more; attncli list metrics says which"
        )
    changed = answer.thresholds.changed()
    notes.append(
        f"named where the weight is {THRESHOLD:g} above its null{f' ({changed})' if changed else ''} and by more than "
        f"{STANDARD_ERRORS:g} standard errors (--threshold)"
    )
    if answer.heads and answer.heads[0].excluded is not None:
        dropped = np.mean([head.excluded for head in answer.heads if head.excluded is not None])
        notes.append(
            f"special tokens left out as keys: {100 * float(dropped):.0f} % of a row's weight on average; the rest was "
            "scaled to the old sum"
        )
    if corpus.bad_lines:
        notes.append(f"{corpus.bad_lines:,} {'lines' if corpus.bad_lines > 1 else 'line'} could not be used")
    return notes


def _null_text(null: str, corpus: Corpus) -> str:
    text = _NULLS[null]
    if corpus.probe:
        return text.replace("in shuffled texts", "where nothing is repeated").replace(
            "on shuffled texts", "where nothing is repeated"
        )
    return text if corpus.null_texts or null == "chance" else f"{_NULLS['chance']} (nothing was shuffled)"


def _undefined(answer: Answer, name: str) -> str | None:
    """Say in how many rows a metric has no number."""
    if name in (ROLE, "similarity") or not answer.heads:
        return None
    if registry.entries("metrics")[name].attributes["per"] != "row":
        return None
    rows = [head.numbers[name].rows if name in head.numbers else 0 for head in answer.heads]
    missing = answer.corpus.rows - max(rows)
    if not missing:
        return None
    return f"{name.replace('_', ' ')} is undefined in {missing:,} rows, which are left out"


def _groups(overlap: HeadOverlap) -> list[list[tuple[int, int]]]:
    overlaps = overlap.overlaps()
    if overlaps is None:
        return []
    return [[overlap.found[place] for place in group] for group in clusters(overlaps, ALIKE)]


# For programs


def _document(answer: Answer, wanted: Wanted, ranked: Ranked) -> dict[str, object]:
    corpus, source = answer.corpus, answer.source
    return {
        "complete": answer.progress is None,
        "source": {name: getattr(source, name) for name in SourceInfo.__dataclass_fields__},
        "corpus": {
            "texts": corpus.texts,
            "tokens": corpus.tokens,
            "rows": corpus.rows,
            "rule": corpus.rule,
            "null_texts": corpus.null_texts,
            "bad_lines": corpus.bad_lines,
            "probe": corpus.probe,
        },
        "by": wanted.by,
        "where": None if wanted.where is None else wanted.where[1],
        "thresholds": {"default": THRESHOLD, **answer.thresholds.by_metric},
        "settings": dict(answer.settings),
        "top": ranked.top,
        "measured": asdict(ranked.measured),
        "heads": [_entry(head) for head in ranked.heads],
        "clusters": [[{"layer": layer, "head": head} for layer, head in group] for group in ranked.groups],
        **_changes(answer),
        **({} if answer.progress is None else {"progress": answer.progress}),
    }


def _changes(answer: Answer) -> dict[str, object]:
    if answer.changes is None:
        return {}
    name, changes = answer.changes
    return {"compared_to": name, "changes": [change_entry(change) for change in changes]}


def _entry(head: Head) -> dict[str, object]:
    entry: dict[str, object] = {"kind": head.kind, "layer": head.layer, "head": head.head}
    if head.kv_head != head.head:
        entry["kv_head"] = head.kv_head
    metrics = {
        name: {
            "mean": finite(number.mean),
            "stderr": finite(number.stderr),
            "null": finite(number.null),
            "rows": number.rows,
            "chance": finite(number.chance),
            "shuffled": finite(number.shuffled),
        }
        for name, number in head.numbers.items()
    }
    if head.excluded is not None:
        entry["excluded"] = finite(head.excluded)
    entry |= {"metrics": metrics, "labels": list(head.labels)}
    if head.nearest is not None:
        entry["nearest"] = {"layer": head.nearest[0], "head": head.nearest[1]}
    return entry
