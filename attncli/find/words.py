"""What ``find`` makes of its options for one text: two words of it, and the heads that link them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attncli.cli.common import choose_kind, provenance
from attncli.cli.options import ModelOptions, OutputOptions, ScratchOptions
from attncli.errors import UsageError, did_you_mean
from attncli.find.options import FindOptions, WordOptions
from attncli.labels import quoted_for_shell, safe_label
from attncli.models.before_loading import Wanted, check_before_loading
from attncli.models.opening import Opened, open_source
from attncli.models.shipped import DEFAULT
from attncli.observers.selection import Selection, parse_heads
from attncli.record import Kind, Run, Span, Tokens
from attncli.view import HeadRanking

if TYPE_CHECKING:
    from attncli.find.word_pair import WordPairQuery


@dataclass(frozen=True)
class Search:
    """Which heads are searched, of which model."""

    wanted: FindOptions
    layers: Selection
    heads: Selection
    model: ModelOptions
    output: OutputOptions

    @classmethod
    def of(cls, wanted: FindOptions, model: ModelOptions, output: OutputOptions) -> Search:
        """Read the selections.

        Raises:
            UsageError: They do not parse, or ask for a mean.
        """
        why = "find looks at heads one by one"
        layers, heads = parse_heads(wanted.layer, wanted.head, no_mean=why)
        return cls(wanted, layers, heads, model, output)

    def asked(self, text: str | None = None, find: Callable[[Tokens], object] | None = None) -> Wanted:
        """Return what is known of the search before a model is loaded."""
        places, whole = (self.layers, self.heads), not self.model.truncate
        return Wanted(text, self.wanted.pair, self.wanted.kind, places, find=find, whole=whole)

    def show_command(self, text: str, file: str | None = None) -> str:
        """Write the command that shows a head on a text, up to the head."""
        given = quoted_for_shell(text) if file is None else f"--file {quoted_for_shell(file)}"
        pair = "" if self.wanted.pair is None else f" --pair {quoted_for_shell(self.wanted.pair)}"
        kind = "" if self.wanted.kind is None else f" --kind {self.wanted.kind}"
        measure = "" if self.wanted.measure == "weight" else f" --measure {self.wanted.measure}"
        return f"attncli show {given} -m {quoted_for_shell(self.model.model or DEFAULT)}{pair}{kind}{measure}"


def check_words(words: WordOptions, model: ModelOptions) -> None:
    """Refuse a search in the untrained model or without words, before anything is loaded.

    Raises:
        UsageError: It is the untrained one, or a word is missing.
    """
    if model.model == "scratch":
        raise UsageError("find needs a trained model: random weights link no words", "-m names one")
    if words.examples is not None or words.alignments is not None:
        return
    if words.from_ is None or words.to is None:
        missing = "--from" if words.from_ is None else "--to"
        raise UsageError(f"{missing} is missing: which words?", "try: --from it --to animal, or --examples")


def rank_in_text(
    search: Search, text: str, file: str | None, query: str, key: str
) -> tuple[HeadRanking, Run]:
    """Rank the heads by how much more one word of a text attends to another than to that distance anyway.

    Args:
        file: Where the text was read from.

    Raises:
        AttnCliError: The words are not to be found there, or the model is not available.
    """
    wanted = search.wanted

    def find_words(tokens: Tokens) -> None:
        for spec, option in ((query, "--from"), (key, "--to")):
            _place(tokens, (text,), spec, option)

    check_before_loading(search.model, search.asked(text, None if wanted.pair else find_words))
    source = open_source(text, wanted.pair, search.model, ScratchOptions(), search.output)
    kind = choose_kind(source.kinds, wanted.kind)
    texts = _texts_of(source, kind, text, wanted.pair)

    from attncli.capture.measures import MEASURES
    from attncli.find.word_pair import links
    from attncli.find.word_pair_view import TextSearch, link_view
    from attncli.observers.word_pairs import WordWeights

    axes = source.axes(kind)
    spans, question = _question(axes, texts, kind, (query, key))
    kept = WordWeights(kind, search.layers, search.heads, source.depth(kind), question.pairs)
    measure, known = wanted.measure, MEASURES[1:3]
    if measure in known:
        from attncli.maps.measured import measured

        source, _ = measured(source, kind, measure, raw=False)
    elif measure != "weight":
        hint = did_you_mean(measure, ("weight", *known))
        raise UsageError(f"--measure {measure}: find has no such measure", hint)
    run = source.run([kept])
    search.layers.refuse_missing(run, kind, source.depth(kind))
    names = [one[span.sequence][span.start : span.end] for one, span in zip(texts, spans, strict=True)]
    command = search.show_command(text, file)
    asked = TextSearch(question, (names[0], names[1]), spans, len(axes[0]), command, measure)
    found = links(question, kept.found())
    return link_view(found, asked, run, provenance(run), wanted.top), run


def _texts_of(source: Opened, kind: Kind, text: str, pair: str | None) -> tuple[Sequence[str], Sequence[str]]:
    """Return the texts that the query tokens and the key tokens point into."""
    if pair is None:
        return (text,), (text,)
    if "cross" not in source.kinds:  # both in one
        return (text, pair), (text, pair)
    of_kind: dict[Kind, tuple[str, str]] = {
        "encoder": (text, text),
        "decoder": (pair, pair),
        "cross": (pair, text),
    }
    query, key = of_kind[kind]
    return (query,), (key,)


def _question(
    axes: tuple[Tokens, Tokens],
    texts: tuple[Sequence[str], Sequence[str]],
    kind: Kind,
    named: tuple[str, str],
) -> tuple[tuple[Span, Span], WordPairQuery]:
    """Find the two words, and the words around them."""
    from attncli.find.word_pair import WordPairQuery
    from attncli.observers.words import units

    (query_span, query), (key_span, key) = (
        _place(tokens, of, spec, option)
        for tokens, of, spec, option in zip(axes, texts, named, ("--from", "--to"), strict=True)
    )
    same = kind != "cross"
    if same and set(query) & set(key):
        raise UsageError(
            f"--from {safe_label(named[0])} and --to {safe_label(named[1])} are the same word, or overlap"
        )
    if kind == "decoder" and key.start > query.start:
        raise UsageError(
            f'a causal model: "{safe_label(named[0])}" cannot look ahead at "{safe_label(named[1])}"',
            "swap --from and --to: the later word attends to the earlier one",
        )
    whole = ((query, key), (query, key)) if same else ((query,), (key,))
    words = [units(tokens, places) for tokens, places in zip(axes, whole, strict=True)]
    places = words[0].index(query), words[1].index(key)
    made = WordPairQuery(tuple(words[0]), tuple(words[1]), *places, same, causal=kind == "decoder")
    return (query_span, key_span), made


def _place(tokens: Tokens, texts: Sequence[str], spec: str, option: str) -> tuple[Span, range]:
    """Find a word that the user named: its characters, and the places of its tokens."""
    from attncli.inputs.token_selection import pick_one
    from attncli.observers.words import places_of, require_offsets, word_starts, word_tokens

    require_offsets(tokens)
    span = pick_one(word_tokens(tokens, word_starts(tokens)), tokens, spec, option, texts)
    places = places_of(tokens, span, texts)
    if places is None:
        raise UsageError(f"{option} {safe_label(spec)}: no token stands for it")
    return span, places
