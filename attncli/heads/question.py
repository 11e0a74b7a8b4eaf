"""What `attncli heads` is asked: checked as far as it can be before the model runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from attncli.cli.options import ModelOptions, OutputOptions, ScratchOptions, TextInput
from attncli.errors import UsageError, did_you_mean
from attncli.models.shipped import DEFAULT

if TYPE_CHECKING:
    from attncli.heads.changes import OldRun
    from attncli.heads.corpus_state import TextSource
    from attncli.heads.options import CorpusOptions, ProbeOptions, RankingOptions
    from attncli.heads.probes import RepeatedTokens
    from attncli.heads.scores import Thresholds
    from attncli.heads.sounds import SoundsRequest
    from attncli.inputs.corpus import BadLine, Pair
    from attncli.models.batches import RowRule
    from attncli.observers.selection import Selection
    from attncli.record import Kind


@dataclass(frozen=True)
class HeadsRequest:
    """Everything that is settled before the first pass.

    Args:
        lines: Where texts come from; None for a probe.
        probe: Random tokens in their place.
        settings: On what the numbers depend: a run is gone on with only where these are the same.
        state: What an interrupted run has found, with --resume.
        old: An older run, with --compare-to, and its name.
    """

    source: TextSource
    kind: Kind
    by: str
    metric_names: tuple[str, ...]
    thresholds: Thresholds
    layers: Selection
    heads: Selection
    rule: RowRule
    lines: Lines | None
    probe: RepeatedTokens | None
    device: str
    seed: int
    corpus: CorpusOptions
    settings: Mapping[str, Any]
    state: Mapping[str, Any] | None
    old: tuple[str, OldRun] | None
    medium: str = "text"


class Lines(Protocol):
    """A corpus, opened when it is gone through."""

    @property
    def size(self) -> int | None:
        """Bytes; None where they are not known."""

    def read(self) -> Iterator[Pair | BadLine]:
        """Return the texts and the lines that cannot be used."""


def ask(
    text: TextInput,
    ranking: RankingOptions,
    corpus: CorpusOptions,
    probe: ProbeOptions,
    model: ModelOptions,
    scratch: ScratchOptions,
    output: OutputOptions,
) -> HeadsRequest:
    """Settle what is asked.

    Raises:
        AttnCliError: It does not go together, or something is not available.
    """
    from attncli.heads.scores import parse_thresholds
    from attncli.models.alignment_heads import spelled_out
    from attncli.models.before_loading import Wanted, check_before_loading
    from attncli.models.opening import is_pretrained
    from attncli.observers.selection import NO_MEAN, parse_heads

    _check_probe(probe, model, scratch)
    thresholds = parse_thresholds(ranking.threshold or ())
    layers, heads = parse_heads(ranking.layer, spelled_out(ranking.head, model), no_mean=NO_MEAN)
    by = _metric_to_rank_by(ranking.by, probe, ranking.compare_to)
    old = _old_run(ranking.compare_to)
    state = _resumed(corpus.resume)
    sounds = None
    if is_pretrained(model) and not _is_probe(probe):
        from attncli.heads.sounds import sounds_of

        sounds = sounds_of(text, ranking, corpus, model, output)
    lines = None if _is_probe(probe) else (sounds and sounds.lines) or _lines(text, corpus)
    one = lines if isinstance(lines, OneText) and not model.truncate else None
    said, pair = (None, None) if one is None else (one.text, one.pair)
    check_before_loading(model, Wanted(said, pair, ranking.kind, (layers, heads)), scratch)
    source, drawn, rule, device = _open(lines, corpus, probe, model, scratch, output, sounds)
    if sounds is not None:
        corpus = sounds.corpus

    from attncli.cli.common import choose_kind
    from attncli.models.opening import model_name

    kind = choose_kind(source.kinds, ranking.kind)
    names = _metric_names(kind, by, ranking.where)
    _check_old(old, kind, source.depth(kind), by)
    settings = {
        "model": DEFAULT if drawn is not None and model.model is None else model_name(model, scratch),
        "kind": kind,
        "layer": ranking.layer,
        "head": ranking.head,
        "first_row": rule.first_for(kind),
        "exclude_special": corpus.exclude_special,
        "batch_size": corpus.batch_size,
        "null_texts": corpus.null_texts,
        "seed": scratch.seed or 0,
        "field": corpus.field,
        "pair_field": corpus.pair_field,
        "truncate": model.truncate,
        "dtype": model.dtype,
        "no_adapter": model.no_adapter or None,
        "probe": None
        if drawn is None
        else {"texts": len(drawn.first), "length": drawn.length, "ids": probe.ids},
    }
    if state is not None:
        _check_same(state, settings)
    return HeadsRequest(
        source, kind, by, names, thresholds, layers, heads, rule, lines, drawn, device, scratch.seed or 0, corpus,
        settings, None if state is None else state["progress"], old,
        "text" if sounds is None else "sound",
    )  # fmt: skip


def _is_probe(probe: ProbeOptions) -> bool:
    return probe.probe is not None or probe.ids is not None


def _check_probe(probe: ProbeOptions, model: ModelOptions, scratch: ScratchOptions) -> None:
    if probe.probe not in (None, "induction"):
        raise UsageError(f"--probe {probe.probe}: unknown probe", did_you_mean(probe.probe, ["induction"]))
    if _is_probe(probe) and (model.model == "scratch" or scratch.given()):
        raise UsageError("--probe needs a trained model", "--model names one")


def _metric_to_rank_by(asked: str | None, probe: ProbeOptions, old: str | None) -> str:
    from attncli import registry
    from attncli.heads.ranking import metric_named
    from attncli.heads.scores import CHANGES, ROLE

    by = asked or ("induction" if _is_probe(probe) else ROLE)
    if by in CHANGES and old is None:
        raise UsageError(f"--by {by} needs an older run", "--compare-to FILE names it")
    return metric_named(by, [ROLE, *CHANGES, *registry.entries("metrics")])


def _metric_names(kind: Kind, by: str, where: str | None) -> tuple[str, ...]:
    from attncli import registry
    from attncli.heads.scores import CHANGES, ROLE

    entries = registry.entries("metrics")
    names = tuple(name for name, entry in entries.items() if kind in entry.attributes["kinds"])  # type: ignore[operator]
    if by not in (ROLE, *CHANGES, *names):
        raise UsageError(
            f"--by {by}: it has no meaning for {kind} attention", f"choose from: {', '.join(names)}"
        )
    return names


@dataclass(frozen=True)
class OneText:
    """A corpus of the one text on the command line."""

    text: str
    pair: str | None

    @property
    def size(self) -> int | None:
        """Bytes."""
        return len(self.text.encode())

    def read(self) -> Iterator[Pair | BadLine]:
        """Yield it."""
        from attncli.inputs.corpus import Line

        yield Line(1, self.text), self.pair


def _lines(text: TextInput, corpus: CorpusOptions) -> Lines:
    """Find what to read: the text, a file, or a pipe."""
    from attncli.inputs.corpus import CorpusFile
    from attncli.inputs.media import refuse_medium

    if text.text not in (None, "-"):
        only = text.read("heads")
        if not only.strip():
            raise UsageError("the text is empty: there is nothing to attend to")
        refuse_medium(only)
        refuse_medium(corpus.pair)
        return OneText(only, corpus.pair)
    if text.file is None and text.text is None and (sys.stdin is None or sys.stdin.isatty()):
        raise UsageError(
            "no text was given",
            "try: attncli heads --file corpus.txt -m MODEL  or  … | attncli heads -m MODEL",
        )
    path = text.file or "-"
    refuse_medium(path)
    return CorpusFile.named(path, corpus.field, corpus.pair_field)


def _open(
    lines: Lines | None,
    corpus: CorpusOptions,
    probe: ProbeOptions,
    model: ModelOptions,
    scratch: ScratchOptions,
    output: OutputOptions,
    sounds: SoundsRequest | None,
) -> tuple[TextSource, RepeatedTokens | None, RowRule, str]:
    """Open the model; give it, the probe's tokens, which rows count, and the device."""
    from attncli.models.batches import RowRule
    from attncli.models.opening import is_pretrained

    rule = RowRule(corpus.min_row)
    paired = corpus.pair is not None or corpus.pair_field is not None
    if not is_pretrained(model):
        if lines is None:
            from attncli.heads.probes import probe_of_shipped

            return probe_of_shipped(probe, model, scratch)
        return _text_by_text(lines, rule, corpus, model, scratch, output), None, rule, "cpu"

    from attncli.heads.probes import Vocabulary, drawn_for
    from attncli.heads.ranks import ranks_from
    from attncli.models.batches import BatchedModel
    from attncli.models.opening import check_reads, load_model

    device = (
        f"cuda:{ranks_from().local}" if model.device == "cuda" and ranks_from().count > 1 else model.device
    )
    if sounds is not None:
        return sounds.open(model, output, device, rule), None, rule, device
    check_reads(model, output, lines.text if isinstance(lines, OneText) else None)
    loaded = load_model(model, output, device)
    drawn = drawn_for(Vocabulary.of(loaded), probe, scratch) if lines is None else None
    rule = rule if drawn is None else drawn.rule
    made = BatchedModel(
        loaded, rule, paired, truncate=model.truncate, verify=not model.no_verify, fast=model.fast
    )
    return made, drawn, rule, device


def _text_by_text(
    lines: Lines,
    rule: RowRule,
    corpus: CorpusOptions,
    model: ModelOptions,
    scratch: ScratchOptions,
    output: OutputOptions,
) -> TextSource:
    from attncli.heads.single_texts import TextByText
    from attncli.models.opening import open_source

    example: tuple[str, str | None] = "a", "a" if corpus.pair_field else None
    if isinstance(lines, OneText):
        example = lines.text, lines.pair
    return TextByText(lambda text, other: open_source(text, other, model, scratch, output), rule, example)


def _old_run(path: str | None) -> tuple[str, OldRun] | None:
    if path is None:
        return None
    from attncli.heads.saved import load_heads
    from attncli.labels import safe_label

    return safe_label(path), load_heads(path)


def _check_old(old: tuple[str, OldRun] | None, kind: Kind, depth: int, by: str) -> None:
    """Refuse to compare with a run that has nothing in common with this one."""
    from attncli.heads.scores import CHANGES, ROLE

    if old is None:
        return
    name, heads = old
    common = [head for (its, layer, _), head in heads.items() if its == kind and layer < depth]
    if not common:
        raise UsageError(
            f"--compare-to {name}: none of its heads are this model's {kind} heads",
            "compare runs of one model",
        )
    if by not in (ROLE, *CHANGES) and not any(by in head.numbers for head in common):
        raise UsageError(f"--compare-to {name}: it has no {by}", "rank by another metric")


def _resumed(path: str | None) -> Mapping[str, Any] | None:
    if path is None:
        return None
    from attncli.heads.saved import load_progress

    return load_progress(path)


def _check_same(state: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Refuse to go on with a run that was asked something else."""
    before = state["settings"]
    for name, value in settings.items():
        if before.get(name) != value:
            option = "--" + {"first_row": "min-row"}.get(name, name).replace("_", "-")
            raise UsageError(
                f"--resume: that run had {option} {before.get(name)}, this one {value}",
                "repeat its options, or start afresh without --resume",
            )
