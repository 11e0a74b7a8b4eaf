"""Two texts whose words are linked by attention: what ``show -f pharaoh`` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from attncli.cli.common import provenance
from attncli.errors import UsageError
from attncli.inputs.alignments import (
    Links,
    blank_words,
    check_join,
    join_links,
    read_reverse,
    strongest_links,
)
from attncli.inputs.named_spans import NamedSpan, span_tokens
from attncli.maps.views import weights_view
from attncli.observers.selection import Selection
from attncli.observers.words import require_offsets
from attncli.record import Kind, Run, Tokens
from attncli.view import Matrix, MatrixGrid

if TYPE_CHECKING:
    from attncli.maps.options import ShowOptions
    from attncli.models.opening import Opened

RULE = (
    "words are what blanks part; weights on a word's tokens are summed, those of its rows averaged; in cross-attention "
    "its rows are those that write it"
)

Places = list[tuple[int, ...]]


def words_of_pair(axes: tuple[Tokens, Tokens], kind: Kind, text: str, pair: str) -> tuple[Places, Places]:
    """Return the tokens of each target word (rows) and of each source word (columns).

    In cross-attention a token's row is the one that writes it, as in Marian: that of the token before it.

    Raises:
        UsageError: The kind of attention has not both texts.
    """
    for tokens in axes:
        require_offsets(tokens)
    queries, keys = axes
    if kind == "cross":
        written = [tuple(place - 1 for place in word if place) for word in blank_words(queries, pair)]
        return written, blank_words(keys, text)
    if not any(token.sequence == 1 for token in queries):
        raise UsageError(f"{kind} attention is of one text alone here", "--kind cross")
    return blank_words(queries, pair, 1), blank_words(keys, text, 0)


def weights_of_pair(
    source: Opened, kind: Kind, chosen: tuple[Selection, Selection], words: tuple[Places, Places]
) -> tuple[tuple[Matrix, ...], Run]:
    """Run a source and return each head's weights from target words to source words."""
    from attncli.observers.span_weights import SpanWeights

    queries, keys = source.axes(kind)
    depth = source.depth(kind)
    kept = SpanWeights(kind, *chosen, depth, len(queries), len(keys), *words)
    run = source.run([kept])
    chosen[0].refuse_missing(run, kind, depth)
    return kept.matrices(), run


def aligned(
    source: Opened, kind: Kind, chosen: tuple[Selection, Selection], wanted: ShowOptions, text: str
) -> tuple[MatrixGrid, Run]:
    """Link each target word to the source word that it attends to most, or join both directions.

    Args:
        chosen: Which layers and heads.
        text: The source text.

    Raises:
        UsageError: There are not two texts, or several heads.
    """
    check_join(wanted.join)
    if wanted.pair is None:
        raise UsageError("-f pharaoh needs two texts", "--pair gives the translation")
    others = (wanted.query, wanted.key, wanted.rows, wanted.pool, wanted.spans, wanted.top)
    if any(one is not None for one in others):
        raise UsageError(
            "-f pharaoh shows whole texts", "leave out --rows, --query, --key, --spans, --pool and --top"
        )
    axes = source.axes(kind)
    words = words_of_pair(axes, kind, text, wanted.pair)
    matrices, run = weights_of_pair(source, kind, chosen, words)
    if len(matrices) != 1:
        raise UsageError(
            f"-f pharaoh writes one line, and {len(matrices)} heads were asked for",
            "--layer N --head N, --head L3H2, or their mean; attncli find --alignments says which is best",
        )
    links = _links(matrices[0], wanted.threshold, wanted.join, wanted.reverse)
    shown = _words(axes[0], words[0], wanted.pair), _words(axes[1], words[1], text)
    rows, columns = matrices[0].shape
    linked = np.zeros((rows, columns), np.bool_)
    for left, right in links:
        if right < rows and left < columns:
            linked[right, left] = True
    matrix = replace(matrices[0], values=np.where(linked, matrices[0].values, 0), allowed=linked)
    view = weights_view((matrix,), run, kind, *shown, provenance(run), None, notes=[RULE])
    return replace(view, links=True, about="rows are linked to columns"), run


def _links(matrix: Matrix, threshold: float, join: str | None, reverse: str | None) -> Links:
    forward = strongest_links(matrix.values, threshold)
    if join is None:
        return forward
    if reverse is not None:
        return join_links(forward, read_reverse(reverse), join)
    turned = strongest_links(matrix.values.T, threshold)
    return join_links(forward, frozenset((source, target) for target, source in turned), join)


def _words(tokens: Tokens, words: Sequence[tuple[int, ...]], text: str) -> Tokens:
    """Return a token for each word; one that was cut off stands at the end."""
    names = text.split()
    spans = [NamedSpan(name, found or (len(tokens) - 1,)) for name, found in zip(names, words, strict=True)]
    return span_tokens(tokens, spans)
