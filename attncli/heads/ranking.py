"""In which order heads are given, which of them, and how that is told. Without torch, so that saved ones are too."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attncli import registry
from attncli.errors import UsageError, did_you_mean
from attncli.heads.condition import Condition
from attncli.heads.scores import CHANGES, ROLE, Head
from attncli.heads.tables import metric_column
from attncli.maps.views import source_title
from attncli.record import Kind, SourceInfo

_NULLS = {
    "chance": "the same rows with their weight spread evenly over what they may attend to",
    "places": "the larger of chance and of the same places in shuffled texts",
    "pairs": "the larger of chance and of the same two tokens when shuffling has parted them",
    "shuffled": "the same head on shuffled texts",
}


@dataclass(frozen=True, slots=True)
class RankingRequest:
    """How heads are to be ranked and shown.

    Args:
        by: A metric, or ``role``.
        ascending: Whether the smallest comes first.
        top: How many to give; None for all, of which people see the first few.
        where: Which heads to give, and as it was typed.
        fail_if: What no head may fulfil, and as it was typed.
        fail_over: What no head's number may exceed.
        groups: Whether people see which heads do the same.
    """

    by: str
    ascending: bool = False
    top: int | None = None
    where: tuple[Condition, str] | None = None
    fail_if: tuple[Condition, str] | None = None
    fail_over: float | None = None
    groups: bool = False


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
        medium: ``sound`` where they are sounds.
        sha256: Of all lines; None where they were not read to their end.
    """

    texts: int
    tokens: int
    rows: int
    null_texts: int
    bad_lines: int
    rule: str
    probe: str | None = None
    medium: str = "text"
    sha256: str | None = None


def metric_named(by: str, known: Iterable[str], wrong: str = "unknown metric") -> str:
    """Return the metric that ``--by`` names; dashes may stand for underscores.

    Args:
        wrong: What to say of one that is not known.

    Raises:
        UsageError: It is not among those known.
    """
    name, names = by.replace("-", "_"), list(known)
    if name not in names:
        raise UsageError(f"--by {by}: {wrong}", did_you_mean(name, names))
    return name


def rank(heads: Sequence[Head], wanted: RankingRequest, *, ranked: bool = False) -> list[Head]:
    """Choose and sort heads; those without the number that they are ranked by come last.

    Args:
        ranked: Whether they stand in their order already.
    """
    kept = [head for head in heads if wanted.where is None or wanted.where[0](head)]
    sign = 1 if wanted.ascending else -1

    def key(head: Head) -> tuple[bool, float, int, int]:
        value = head.value(wanted.by)
        if wanted.by in ("change", "z"):
            value = abs(value)
        return math.isnan(value), 0.0 if math.isnan(value) else sign * value, head.layer, head.head

    return (kept if ranked else sorted(kept, key=key))[: wanted.top]


def ranking_title(
    source: SourceInfo | None, kind: Kind, shown: int, count: int, by: str, corpus: Corpus
) -> str:
    """Return what is ranked, in one line.

    Args:
        shown: How many heads are given,
        count: of how many that were measured.
    """
    column = metric_column(by)
    of = f"{count} {kind} heads" if count != 1 else f"one {kind} head"
    if shown < count:
        of = f"{shown} of {of}"
    probe = "random repeated tokens" if corpus.probe else f"{corpus.texts:,} {corpus.medium}s"
    texts = probe if corpus.texts != 1 else f"one {corpus.medium}"
    by_text = column.title or column.name.replace("_", " ")
    model = "" if source is None else f"{source_title(source)} · "
    return f"{model}{of} by {by_text} · {texts}"


def rows_note(corpus: Corpus) -> str:
    """Return which rows count, and how many they are."""
    nothing = "" if corpus.rows else ": nothing was measured"
    return f"rows: {corpus.rule} ({corpus.rows:,} of {corpus.tokens:,} tokens){nothing}"


def metric_notes(by: str, heads: Sequence[Head], corpus: Corpus) -> list[str]:
    """Return what hangs on the number that heads are ranked by: where it is undefined, and what its null is.

    Args:
        heads: All that were measured.
    """
    left_out = _undefined(by, heads, corpus)
    notes = [] if left_out is None else [left_out]
    if by == ROLE:
        return [
            *notes,
            "baseline: even weight, or shuffled texts where they explain more",
        ]
    if by in CHANGES:
        return [
            "change: of the metric of each head's strongest role now; p: corrected for the number of heads (Holm)"
        ]
    null = registry.entries("metrics")[by].attributes.get("null")
    return [*notes, f"baseline: {_null_text(str(null), corpus)}"] if null else notes


def _null_text(null: str, corpus: Corpus) -> str:
    text = _NULLS[null]
    if corpus.probe:
        return text.replace("in shuffled texts", "where nothing is repeated").replace(
            "on shuffled texts", "where nothing is repeated"
        )
    return text if corpus.null_texts or null == "chance" else f"{_NULLS['chance']} (nothing was shuffled)"


def _undefined(name: str, heads: Sequence[Head], corpus: Corpus) -> str | None:
    """Return the number of rows in which a metric has no number."""
    if name in (ROLE, "similarity", *CHANGES) or not heads:
        return None
    if registry.entries("metrics")[name].attributes["per"] != "row":
        return None
    rows = [head.numbers[name].rows if name in head.numbers else 0 for head in heads]
    missing = corpus.rows - max(rows)
    if not missing:
        return None
    return f"{name.replace('_', ' ')} is undefined in {missing:,} rows, which are left out"
