"""Runs what `attncli heads` was asked, and takes the answer to where it should go."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from attncli.cli.common import provenance
from attncli.cli.options import OutputOptions
from attncli.cli.output import Plan, deliver, say
from attncli.cli.progress import Update, progress
from attncli.errors import AttnCliError, CheckFailed, ReadError, UsageError
from attncli.heads.changes import changes_since, with_changes
from attncli.heads.corpus_run import CorpusRun, Interrupted, PassSettings
from attncli.heads.corpus_state import CorpusState
from attncli.heads.corpus_sums import CorpusSums
from attncli.heads.labels import heads_of
from attncli.heads.metrics_of_block import Measures
from attncli.heads.question import HeadsRequest
from attncli.heads.ranking import Corpus, RankingRequest
from attncli.heads.ranks import Ranks, gather
from attncli.heads.scores import CHANGES, ROLE, Head
from attncli.heads.similarity import HeadOverlap
from attncli.heads.views import Answer, heads_view
from attncli.inputs.corpus import BadLine, CorpusFile
from attncli.labels import safe_label
from attncli.record import SourceInfo

_NAMED = 12
"""So many heads are named in a message."""


def find(question: HeadsRequest, ranks: Ranks, output: OutputOptions) -> CorpusState:
    """Go through the corpus, or as far as the user lets it."""
    depth = question.source.depth(question.kind)
    selections = question.layers, question.heads
    tallies = CorpusSums(
        question.kind, Measures.of_kind(question.kind), *selections, depth, question.corpus.exclude_special
    )
    overlap = HeadOverlap(question.kind, *selections, depth, question.corpus.exclude_special)
    ledger = CorpusState(tallies, overlap)
    if question.state is not None:
        ledger.restore(question.state)
        if not ranks.is_first:
            _forget_sums(ledger)
    way = PassSettings(
        _batch_size(question), question.corpus.null_texts, question.seed, ranks.rank, ranks.count
    )
    if ranks.count > 1 and getattr(question.lines, "path", None) == "-":
        raise UsageError("several ranks cannot share stdin", "give the corpus with --file")
    size = None if question.lines is None else question.lines.size
    shown = ranks.is_first and question.lines is not None
    with progress("texts", output, total=size, shown=shown) as update:
        tell = _teller(question, output)
        tell_bad = tell if ranks.is_first else lambda bad: None
        run = CorpusRun(question.source, ledger, way, tell_bad, tell, _tell_rate(update, ledger.texts))
        try:
            if question.probe is not None:
                from attncli.heads.single_texts import ShippedModel
                from attncli.models.batches import BatchedModel

                assert isinstance(question.source, BatchedModel | ShippedModel)
                run.over_feeds(question.probe.feeds(question.source, way.batch_size))
            else:
                assert question.lines is not None
                run.over_lines(question.lines.read())
        except Interrupted:
            if ranks.count > 1:
                raise KeyboardInterrupt from None  # the others are somewhere else: there is no finished part
    return ledger


def finish(
    ledger: CorpusState, question: HeadsRequest, wanted: RankingRequest, plan: Plan, ranks: Ranks
) -> None:
    """Put together what all ranks have found, and write it.

    Raises:
        KeyboardInterrupt: The run was stopped; what is done has been written.
        ReadError: Lines could not be used.
        UsageError: The corpus is empty.
    """
    others = gather(ranks, ledger.state())
    if not ranks.is_first:
        return
    for state in others[1:]:
        ledger.merge(state)
    if ledger.run is None and not ledger.texts:
        raise _nothing(ledger)
    answer = _answer(ledger, question, wanted)
    deliver(heads_view(answer, wanted, provenance(ledger.run)), plan)
    if not ledger.complete:
        _tell_how_to_resume(plan)
        raise KeyboardInterrupt
    if ledger.unused_lines and not question.corpus.skip_errors:
        lines = "lines" if ledger.unused_lines > 1 else "line"
        raise ReadError(
            f"{ledger.unused_lines:,} {lines} could not be used; the answer is of the others",
            "--skip-errors accepts that",
        )
    _check(answer.heads, wanted)


def _check(heads: Sequence[Head], wanted: RankingRequest) -> None:
    """Raise `CheckFailed` if a head is over ``--fail-over``, or fulfils what ``--fail-if`` names."""
    if wanted.fail_over is not None:
        over = [head for head in heads if abs(head.value(wanted.by)) > wanted.fail_over]
        if over:
            worst = max(over, key=lambda head: abs(head.value(wanted.by)))
            raise CheckFailed(
                f"L{worst.layer}H{worst.head} has {wanted.by} {worst.value(wanted.by):.3g}, over --fail-over "
                f"{wanted.fail_over:g}",
                f"{len(over)} of {len(heads)} heads are over it",
            )
    if wanted.fail_if is None:
        return
    condition, text = wanted.fail_if
    failing = [f"L{head.layer}H{head.head}" for head in heads if condition(head)]
    if failing:
        shown = ", ".join(failing[:_NAMED]) + (", …" if len(failing) > _NAMED else "")
        many = f"{len(failing)} of {len(heads)} heads fulfil" if len(failing) > 1 else "one head fulfils"
        raise CheckFailed(f"{many} --fail-if {safe_label(text)}", shown)


def _nothing(ledger: CorpusState) -> AttnCliError:
    if ledger.unused_lines:
        return ReadError(
            f"none of the {ledger.unused_lines:,} lines could be used",
            "each is named with what is wrong, unless -q was given",
        )
    return UsageError(
        "the corpus is empty: there is nothing to attend to", "one text a line, or --field for JSON lines"
    )


def _answer(ledger: CorpusState, question: HeadsRequest, wanted: RankingRequest) -> Answer:
    heads = heads_of(ledger.tallies, ledger.overlap, question.thresholds)
    named = getattr(question.source, "alignment_heads", ()) if question.kind == "cross" else ()
    heads = [
        replace(head, labels=(*head.labels, "alignment")) if (head.layer, head.head) in named else head
        for head in heads
    ]
    source = (
        ledger.run.source
        if ledger.run is not None
        else SourceInfo(str(question.settings["model"]), "pretrained")
    )
    corpus = Corpus(
        ledger.texts,
        ledger.tokens,
        ledger.rows,
        ledger.null_texts,
        ledger.unused_lines,
        _rule(question),
        None if question.probe is None else "induction",
        question.medium,
        (ledger.digest or None) if ledger.complete else None,
    )
    changes = None
    if question.old is not None:
        by = ROLE if wanted.by in CHANGES else wanted.by
        changes = question.old[0], changes_since(heads, question.old[1], by)
        heads = with_changes(heads, changes[1])
    notes = list(ledger.notes or ())
    if named:
        notes.append("alignment: heads that the model's generation_config names for its timestamps of words")
    cut = question.source.cut + (0 if question.state is None else int(question.state["cut"]))
    if cut:
        texts = "texts were" if cut > 1 else "text was"
        notes.append(f"{cut:,} {texts} cut to the model's length")
    return Answer(
        question.kind,
        heads,
        ledger.overlap,
        question.thresholds,
        corpus,
        source,
        question.settings,
        None if ledger.complete else ledger.state(),
        changes,
        notes,
    )


def _tell_rate(update: Update, before: int) -> Callable[[int, int], None]:
    """Return what is called with how many bytes more and how many texts in all are done.

    Args:
        before: Texts of an earlier run.
    """
    started = time.monotonic()

    def tell(size: int, texts: int) -> None:
        rate = (texts - before) / max(time.monotonic() - started, 1e-9)
        update(f"{texts:,} texts, {rate:,.0f} texts/s", size)

    return tell


def _rule(question: HeadsRequest) -> str:
    """Return which rows count."""
    if question.probe is not None:
        return f"the second half of {question.probe.length} repeated random tokens, without its last"
    first = question.rule.first_for(question.kind)
    return f"content tokens from position {first} on" if first else "content tokens"


def _batch_size(question: HeadsRequest) -> int:
    from attncli.models.batches import BatchedModel

    return question.corpus.batch_size if isinstance(question.source, BatchedModel) else 1


def _forget_sums(ledger: CorpusState) -> None:
    """Leave to the first rank what an interrupted run had found."""
    ledger.tallies.by_layer.clear()
    ledger.overlap.products, ledger.overlap.rows = None, 0.0
    ledger.texts = ledger.tokens = ledger.rows = ledger.null_texts = ledger.failed_lines = 0


def _teller(question: HeadsRequest, output: OutputOptions) -> Callable[[BadLine], None]:
    def tell(bad: BadLine) -> None:
        if not output.quiet:
            lines = question.lines
            say(lines.name_of(bad) if isinstance(lines, CorpusFile) else f"line {bad.number}: {bad.reason}")

    return tell


def _tell_how_to_resume(plan: Plan) -> None:
    names = [str(path) for path, name in plan.files if name == "json"]
    if names:
        say(f"interrupted; --resume {safe_label(names[0])} goes on")
    elif plan.stdout == "json":
        say("interrupted; --resume FILE goes on from this JSON")
    else:
        say("interrupted; with -o FILE.json a run can be gone on with (--resume)")
