"""Two texts whose words are linked by attention: what ``show -f pharaoh`` shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from attncli.record import Kind, Observer, Run, Tokens
from attncli.view import Matrix, MatrixGrid

if TYPE_CHECKING:
    from attncli.maps.options import ShowOptions
    from attncli.models.opening import Opened
    from attncli.observers.span_weights import SpanWeights

RULE = (
    "words are what blanks part; weights on a word's tokens are summed, those of its rows averaged; in cross-attention "
    "its rows are those that write it"
)

Words = tuple[list[NamedSpan], list[NamedSpan]]
"""Target words (rows) and source words (columns)."""


def words_of_pair(axes: tuple[Tokens, Tokens], kind: Kind, texts: Sequence[str] = ()) -> Words:
    """Return the target words and the source words.

    Args:
        texts: What the tokens may be of.

    Raises:
        UsageError: The kind of attention has not both texts.
    """
    for tokens in axes:
        require_offsets(tokens)
    queries, keys = axes
    if kind == "cross":
        return blank_words(queries, 0, texts), blank_words(keys, 0, texts)
    if not any(token.sequence == 1 for token in queries):
        raise UsageError("-f pharaoh needs two texts", "--pair gives the translation")
    return blank_words(queries, 1, texts), blank_words(keys, 0, texts)


def weights_of_pair(
    source: Opened, kind: Kind, chosen: tuple[Selection, Selection], words: Words
) -> SpanWeights:
    """Return what keeps each head's weights from target words to source words.

    In cross-attention a token's row is the one that writes it, as in Marian: that of the token before it.
    """
    from attncli.observers.span_weights import SpanWeights

    back = int(kind == "cross")
    rows = [[place - back for place in word.places if place >= back] for word in words[0]]
    queries, keys = source.axes(kind)
    sizes = source.depth(kind), len(queries), len(keys)
    return SpanWeights(kind, *chosen, *sizes, rows, [word.places for word in words[1]])


def aligned(
    source: Opened,
    kind: Kind,
    chosen: tuple[Selection, Selection],
    wanted: ShowOptions,
    texts: Sequence[str],
) -> tuple[Observer, Callable[[Run], MatrixGrid]]:
    """Link each target word to the source word that it attends to most, or join both directions.

    Args:
        chosen: Which layers and heads.
        texts: What the user gave to read.

    Returns:
        What watches the source, and what makes the view of its run.

    Raises:
        UsageError: There are not two texts, or several heads.
    """
    check_join(wanted.join)
    others = (wanted.query, wanted.key, wanted.rows, wanted.pool, wanted.spans, wanted.top)
    if any(one is not None for one in others):
        raise UsageError(
            "-f pharaoh shows whole texts", "leave out --rows, --query, --key, --spans, --pool and --top"
        )
    axes = source.axes(kind)
    words = words_of_pair(axes, kind, texts)
    kept = weights_of_pair(source, kind, chosen, words)

    def finish(run: Run) -> MatrixGrid:
        chosen[0].refuse_missing(run, kind, source.depth(kind))
        matrices = kept.matrices()
        if len(matrices) != 1:
            raise UsageError(
                f"-f pharaoh writes one line, and {len(matrices)} heads were asked for",
                "--layer N --head N, --head L3H2, or their mean; attncli find --alignments says which is best",
            )
        rows, columns = matrices[0].shape
        linked = np.zeros((rows, columns), np.bool_)
        for left, right in _links(matrices[0], wanted.threshold, wanted.join, wanted.reverse):
            if right < rows and left < columns:
                linked[right, left] = True
        matrix = replace(matrices[0], values=np.where(linked, matrices[0].values, 0), allowed=linked)
        shown = span_tokens(axes[0], words[0]), span_tokens(axes[1], words[1])
        view = weights_view((matrix,), run, kind, *shown, provenance(run), None, notes=[RULE])
        return replace(view, links=True, about="rows are linked to columns")

    return kept, finish


def _links(matrix: Matrix, threshold: float, join: str | None, reverse: str | None) -> Links:
    forward = strongest_links(matrix.values, threshold)
    if join is None:
        return forward
    if reverse is not None:
        return join_links(forward, read_reverse(reverse), join)
    turned = strongest_links(matrix.values.T, threshold)
    return join_links(forward, frozenset((source, target) for target, source in turned), join)
