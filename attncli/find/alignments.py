"""What ``find --alignments`` does: it asks every head which words belong together, and holds that against gold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from attncli.cli.common import choose_kind, provenance
from attncli.cli.options import ScratchOptions
from attncli.cli.progress import counted
from attncli.errors import CaptureError, ModelError, UsageError
from attncli.find.document import found_of, map_entry
from attncli.find.labelled_corpus import together
from attncli.find.ranked_heads import Head, found_header, head_entry, head_maps, head_name
from attncli.find.words import Search
from attncli.inputs.alignments import Agreement, Gold, diagonal_links, read_gold, strongest_links
from attncli.inputs.corpus import BadLine
from attncli.inputs.labelled_pairs import refuse_lines
from attncli.labels import safe_label
from attncli.maps.alignment import RULE, weights_of_pair, words_of_pair
from attncli.maps.views import source_title
from attncli.models.opening import Opened, check_reads, load_model, open_source
from attncli.models.shipped import shipped_models
from attncli.record import Run
from attncli.view import HeadRanking

if TYPE_CHECKING:
    from attncli.record import Kind


def rank_over_alignments(search: Search, path: str, threshold: float) -> tuple[HeadRanking, Run]:
    """Rank the heads by how far the links of each agree with gold alignments.

    Args:
        path: The file of texts with their translations and gold alignments.
        threshold: Least weight that links two words.

    Raises:
        AttnCliError: The file cannot be read, or the model is not available.
    """
    golds = read_gold(path)
    opened = _opener(search)
    counts: dict[Head, Agreement] = {}
    diagonal, runs, bad, tokens = Agreement(), [], [], 0
    kind: Kind = "cross"
    for gold in counted(golds, "asking all heads", search.output):
        try:
            source = opened(gold.text, gold.pair)
            kind = choose_kind(source.kinds, search.wanted.kind)
            words = words_of_pair(source.axes(kind), kind, (gold.text, gold.pair))
        except (UsageError, ModelError, CaptureError) as error:
            bad.append(BadLine(gold.line, error.message))
            continue
        kept = weights_of_pair(source, kind, (search.layers, search.heads), words)
        runs.append(source.run([kept]))
        search.layers.refuse_missing(runs[-1], kind, source.depth(kind))
        tokens += sum(map(len, source.axes(kind)))
        for matrix in kept.matrices():
            assert isinstance(matrix.layer, int) and isinstance(matrix.head, int)
            links = strongest_links(matrix.values, threshold)
            counts.setdefault((kind, matrix.layer, matrix.head), Agreement()).add(links, gold)
        diagonal.add(diagonal_links(len(gold.text.split()), len(gold.pair.split())), gold)
    refuse_lines(path, bad)
    run = together(runs)
    return _view(search, path, golds, counts, diagonal, run, tokens), run


def _opener(search: Search) -> Callable[[str, str], Opened]:
    """Load the model once, and return what makes it ready for a text and its translation."""
    model = search.model
    if model.model in shipped_models():
        return lambda text, pair: open_source(text, pair, model, ScratchOptions(), search.output)
    check_reads(model, search.output)
    loaded = load_model(model, search.output)

    from attncli.models.prepared_text import prepare
    from attncli.models.pretrained import PretrainedSource

    return lambda text, pair: PretrainedSource(
        loaded,
        prepare(loaded, text, pair, truncate=model.truncate),
        verify=not model.no_verify,
        fast=model.fast,
    )


def _view(
    search: Search,
    path: str,
    golds: Sequence[Gold],
    counts: dict[Head, Agreement],
    diagonal: Agreement,
    run: Run,
    tokens: int,
) -> HeadRanking:
    ranked = sorted(counts, key=lambda head: counts[head].aer)
    kind, first, named = ranked[0][0], head_name(ranked[0]), safe_label(search.model.model or "")
    texts = f"{len(golds):,} text{'s' if len(golds) > 1 else ''} ({safe_label(path)})"
    notes = (
        f"{diagonal.sure:,} sure pairs of words in {texts}; a target word is linked to the source word that it attends "
        "to most",
        RULE,
        f"{first} is first; to write its links: attncli show TEXT --pair TRANSLATION -m {named} --kind {kind} "
        f"--head {first} -f pharaoh",
    )
    made = provenance(run)
    title = f"{source_title(run.source)} · heads that align words"
    document = {
        "by": "aer",
        "source": asdict(run.source),
        "corpus": {"texts": len(golds), "tokens": tokens, "rows": diagonal.found},
        "searched": {"alignments": path, "sure": diagonal.sure},
        "diagonal": _numbers(diagonal),
        "top": search.wanted.top,
        "heads": [head_entry(one, _numbers(counts[one])) for one in ranked[: search.wanted.top]],
        "maps": [map_entry(one) for one in head_maps({one: counts[one].aer for one in counts})],
    }
    return found_of(document, found_header(run, made, title, notes))


def _numbers(counts: Agreement) -> dict[str, object]:
    return {"aer": counts.aer, "precision": counts.precision, "recall": counts.recall, "links": counts.found}
