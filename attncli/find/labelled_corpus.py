"""What ``find --examples`` does: it reads labelled pairs, asks every head about each, and counts who was right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attncli.cli.common import choose_kind, provenance
from attncli.cli.options import ScratchOptions
from attncli.cli.progress import counted
from attncli.errors import ModelError, UsageError
from attncli.find.words import Search
from attncli.inputs.corpus import BadLine
from attncli.inputs.labelled_pairs import Pair, PairSet, read_pairs, refuse_lines
from attncli.labels import safe_label
from attncli.models.before_loading import check_before_loading
from attncli.models.opening import Opened, check_reads, load_model, open_source
from attncli.models.shipped import shipped_models
from attncli.observers.words import require_offsets
from attncli.record import Kind, Run, Span, Tokens
from attncli.view import HeadRanking

if TYPE_CHECKING:
    from attncli.find.accuracy import Answers, PairQuestion

Open = Callable[[str], Opened]


@dataclass(frozen=True)
class Asked:
    """One text with its pairs.

    Args:
        questions: Those that can be answered; in a causal model a word after the query word cannot be seen.
    """

    source: Opened
    kind: Kind
    pairs: int
    questions: tuple[PairQuestion, ...]

    @property
    def tokens(self) -> int:
        """Number of its tokens."""
        return len(self.source.axes(self.kind)[0])


def rank_over_pairs(search: Search, name: str, *, reverse: bool, seed: int) -> tuple[HeadRanking, Run]:
    """Rank the heads by how often they are right about labelled pairs.

    Args:
        name: A shipped set's name, or a file.
        reverse: Whether to swap what attends and what is attended to.
        seed: Of the split into two halves.

    Raises:
        AttnCliError: The pairs cannot be read, or the model is not available.
    """
    check_before_loading(search.model, search.asked())
    pairs = read_pairs(name)
    pairs = pairs.reversed() if reverse else pairs
    texts = list(_read(pairs, _opener(search), search.wanted.kind))
    answers, run = _answers(search, texts, pairs)

    from attncli.find.accuracy_view import PairSearch, pairs_view

    best = answers.ranked()[0]
    shown = next((number for number, hit in enumerate(answers.hits[best]) if hit), 0)
    by_text = list(_by_text(pairs))
    asked = PairSearch(
        pairs.name,
        pairs.roles,
        texts=len(texts),
        tokens=sum(one.tokens for one in texts),
        left_out=len(pairs.pairs) - len(answers.questions),
        seed=seed,
        command=search.show_command(by_text[answers.questions[shown].text][0]),
    )
    made = replace(provenance(run), seed=seed)
    return pairs_view(answers, asked, run, made, search.wanted.top), run


def _opener(search: Search) -> Open:
    """Load the model once, and give what makes it ready for a text."""
    model = search.model
    if model.model in (None, *shipped_models()):
        return lambda text: open_source(text, None, model, ScratchOptions(), search.output)
    check_reads(model, search.output)
    loaded = load_model(model, search.output)

    from attncli.models.prepared_text import prepare
    from attncli.models.pretrained import PretrainedSource

    def opened(text: str) -> PretrainedSource:
        prepared = prepare(loaded, text, truncate=model.truncate)
        return PretrainedSource(loaded, prepared, verify=not model.no_verify, fast=model.fast)

    return opened


def _by_text(pairs: PairSet) -> Iterator[tuple[str, list[Pair]]]:
    """Group pairs by their text, in the order in which texts first stand there."""
    found: dict[str, list[Pair]] = {}
    for pair in pairs.pairs:
        found.setdefault(pair.text, []).append(pair)
    yield from found.items()


def _read(pairs: PairSet, opened: Open, asked_kind: str | None) -> Sequence[Asked]:
    """Make every text ready before any is run, so that all bad lines are told at once."""
    bad: list[BadLine] = []
    texts = []
    for number, (text, its_pairs) in enumerate(_by_text(pairs)):
        try:
            source = opened(text)
        except (UsageError, ModelError) as error:
            bad.append(BadLine(its_pairs[0].line, error.message))
            continue
        kind = choose_kind(source.kinds, asked_kind)
        tokens = source.axes(kind)[0]
        require_offsets(tokens)
        read = [_question(pair, tokens, kind, number) for pair in its_pairs]
        bad += [one for one in read if isinstance(one, BadLine)]
        answerable = (one for one in read if not isinstance(one, BadLine) and one.answerable)
        texts.append(Asked(source, kind, len(its_pairs), tuple(answerable)))
    refuse_lines(pairs.name, sorted(bad, key=lambda line: line.number))
    return texts


def _question(pair: Pair, tokens: Tokens, kind: Kind, number: int) -> PairQuestion | BadLine:
    """Find a pair's words among the tokens."""
    from attncli.find.accuracy import PairQuestion
    from attncli.observers.words import places_of, units

    texts = (pair.text,)
    query, key = places_of(tokens, pair.query, texts), places_of(tokens, pair.key, texts)
    for name, span, places in (("from", pair.query, query), ("to", pair.key, key)):
        if places is None:
            return BadLine(pair.line, f'its "{name}" {_shown(pair.text, span)} hits no token')
    assert query is not None and key is not None
    words = units(tokens, [query])
    targets = frozenset(place for place, word in enumerate(words) if set(word) & set(key) and word != query)
    if not targets:
        return BadLine(pair.line, f"{_shown(pair.text, pair.query)} and its target are one token")
    return PairQuestion(tuple(words), words.index(query), targets, kind == "decoder", number)


def _shown(text: str, span: Span) -> str:
    return f'[{span.start}, {span.end}] "{safe_label(text[span.start : span.end])}"'


def _answers(search: Search, texts: Sequence[Asked], pairs: PairSet) -> tuple[Answers, Run]:
    """Run each text once and ask its questions."""
    import numpy as np

    from attncli.find.accuracy import Answers, answers_of
    from attncli.observers.word_pairs import WordWeights

    runs, hits = [], []
    questions: list[PairQuestion] = []
    heads: tuple[tuple[str, int, int], ...] = ()
    for text in counted([one for one in texts if one.questions], "asking all heads", search.output):
        wanted = [pair for question in text.questions for pair in question.pairs]
        kept = WordWeights(text.kind, search.layers, search.heads, text.source.depth(text.kind), wanted)
        runs.append(text.source.run([kept]))
        search.layers.refuse_missing(runs[-1], text.kind, text.source.depth(text.kind))
        found = answers_of(text.questions, list(kept.found()))
        heads = tuple(found)
        hits.append(np.stack(list(found.values())))
        questions += text.questions
    if not runs:
        query, key = pairs.roles
        raise UsageError(
            f"a causal model: none of the {len(pairs.pairs)} pairs has its {key} before its {query}",
            "swap them with --reverse",
        )
    return Answers(tuple(questions), heads, np.concatenate(hits, axis=1)), together(runs)


def together(runs: Sequence[Run]) -> Run:
    """Return several runs as one: the first's source, the notes and checks of all."""
    notes = dict.fromkeys(note for run in runs for note in run.notes)
    reports = tuple(report for run in runs for report in run.reports)
    return replace(runs[0], notes=tuple(notes), reports=reports)
