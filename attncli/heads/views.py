"""From what was found of heads to what is shown: a ranking, maps, and the document that programs read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from attncli.heads.changes import Change, change_entry
from attncli.heads.ranking import Corpus, RankingRequest, metric_notes, rank, ranking_title, rows_note
from attncli.heads.scores import STANDARD_ERRORS, THRESHOLD, Head, Thresholds
from attncli.heads.similarity import HeadOverlap, clusters
from attncli.heads.tables import ALIKE, Measured, Ranked, finite, ranking_of
from attncli.record import Kind, Provenance, SourceInfo
from attncli.view import Header, HeadRanking


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


def heads_view(answer: Answer, wanted: RankingRequest, made: Provenance) -> HeadRanking:
    """Rank the heads."""
    heads = rank(answer.heads, wanted)
    measured, groups = Measured.of(answer.kind, answer.heads), _groups(answer.overlap)
    ranked = Ranked(wanted.by, wanted.top, heads, measured, groups, answer.changes, wanted.groups)
    header = Header(
        command="heads",
        title=ranking_title(
            answer.source, answer.kind, len(heads), len(answer.heads), wanted.by, answer.corpus
        ),
        provenance=made,
        source=answer.source,
        notes=tuple(_notes(answer, wanted)),
    )
    return ranking_of(ranked, header, _document(answer, wanted, ranked))


def _notes(answer: Answer, wanted: RankingRequest) -> list[str]:
    corpus = answer.corpus
    notes = [*answer.notes]
    if answer.progress is not None:
        notes.append(f"interrupted: this is what {corpus.texts:,} texts gave; --resume goes on")
    notes += [rows_note(corpus), *metric_notes(wanted.by, answer.heads, corpus)]
    changed = answer.thresholds.changed()
    notes.append(
        f"named: {THRESHOLD:g} above its baseline{f' ({changed})' if changed else ''} and by "
        f"{STANDARD_ERRORS:g} standard errors (--threshold)"
    )
    dropped = [head.excluded for head in answer.heads if head.excluded is not None]
    silence = corpus.medium == "sound" and answer.kind != "decoder"
    if any(dropped) or (dropped and not silence):
        what = "the silence after a sound is" if silence else "special tokens"
        notes.append(
            f"{what} left out as keys: {100 * float(np.mean(dropped)):.0f} % of a row's weight on average over "
            f"{len(dropped)} heads; the rest was scaled to the old sum"
        )
    if corpus.bad_lines:
        notes.append(f"{corpus.bad_lines:,} {'lines' if corpus.bad_lines > 1 else 'line'} could not be used")
    return notes


def _groups(overlap: HeadOverlap) -> list[list[tuple[int, int]]]:
    overlaps = overlap.overlaps()
    if overlaps is None:
        return []
    return [[overlap.found[place] for place in group] for group in clusters(overlaps, ALIKE)]


# For programs


def _document(answer: Answer, wanted: RankingRequest, ranked: Ranked) -> dict[str, object]:
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
            "medium": corpus.medium,
            "sha256": corpus.sha256,
        },
        "by": wanted.by,
        "where": None if wanted.where is None else wanted.where[1],
        "thresholds": {"default": THRESHOLD, **answer.thresholds.by_metric},
        "settings": dict(answer.settings),
        "top": ranked.top,
        "metric_notes": metric_notes(wanted.by, answer.heads, corpus),
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
