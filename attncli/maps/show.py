"""What ``show`` makes of its options: all weights, words instead of pieces, or a pooled picture of a long text."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

from attncli import registry
from attncli.axis_cells import SIDE, cell_tokens
from attncli.cli.common import provenance
from attncli.cli.output import Plan, refuse_too_many
from attncli.errors import UsageError, did_you_mean
from attncli.inputs.token_selection import pick
from attncli.maps.options import ShowOptions
from attncli.models.opening import Opened
from attncli.observers.selection import Selection, parse_selection
from attncli.record import HeadRole, Kind, Observer, Run, Tokens
from attncli.render import formats_with, listing_formats
from attncli.view import MatrixGrid, Pooling

if TYPE_CHECKING:
    from attncli.capture.measures import Measure
    from attncli.observers.pooled import PooledPicture

How = Literal["max", "mean"]

_POSITIONS = re.compile(r"[-\d,\s]+")


@dataclass(frozen=True)
class Shown:
    """What was seen of a source.

    Args:
        pictures: What formats that draw show instead of `view`, where that is a list.
    """

    view: MatrixGrid
    run: Run
    pictures: MatrixGrid | None = None


@dataclass(frozen=True)
class Question:
    """What is to be watched while a source runs, and what follows from it.

    Args:
        finish: Makes the answer of what the observers have kept.
        if_signed: Asks in another way, where the weights turn out to have any sign.
    """

    observers: Sequence[Observer]
    finish: Callable[[Run], Shown]
    if_signed: Callable[[], Question] | None = None

    def without_keys(self, keys: Tokens, special: bool, first: bool) -> Question:
        """Leave special tokens, or the first one, out as keys; what is left of each row has its old sum again.

        Raises:
            UsageError: No key would be left.
        """
        from attncli.maps.left_out import left_out

        observers, told = left_out(self.observers, keys, special=special, first=first)
        again = self.if_signed
        return Question(
            observers,
            lambda run: self.finish(told(run)),
            None if again is None else lambda: again().without_keys(keys, special, first),
        )

    def answer(self, source: Opened) -> Shown:
        """Run a source and make the answer."""
        run = source.run(self.observers)
        if run.signed and self.if_signed is not None:
            return self.if_signed().answer(source)
        return self.finish(run)


@dataclass(frozen=True)
class MapRequest:
    """A source and what is to be seen of it.

    Args:
        laid_over: Whether the weights will be laid over a picture, which needs each of them.
        why: What to say of the choice of heads.
        texts: What the user gave to read.
        measure: What the source shows in place of its weights.
    """

    source: Opened
    kind: Kind
    layers: Selection
    heads: Selection
    wanted: ShowOptions
    laid_over: bool = False
    why: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    measure: Measure | None = None

    def of_one_head(self, roles: Sequence[HeadRole]) -> MapRequest:
        """Show the one head that has most to say of the text, as far as any is known to do something."""
        from attncli.maps.hints import head_to_show

        role = head_to_show(roles, self.source.axes(self.kind)[0])
        return self if role is None else self._of(role.layer, role.head)

    def of_telling_head(self) -> MapRequest:
        """Show the head whose rows give words farther away the most weight; all where the text is long."""
        from attncli.observers.strongest_head import TellingHeadOfText

        queries, keys = self.source.axes(self.kind)
        if max(len(queries), len(keys)) > SIDE:
            return self
        telling = TellingHeadOfText(self.kind, queries, keys)
        self.source.run([telling])
        layer, head, count = telling.found() or (0, 0, 1)
        if count == 1:
            return self
        whom = "single keys" if self.kind == "cross" else "faraway words"
        why = f"of {count} heads this one gives {whom} most weight (all: --head all)"
        return replace(self._of(layer, head), why=(why,))

    def explained(self, view: MatrixGrid) -> MatrixGrid:
        """Add to a view's notes why just these heads are shown."""
        return replace(view, header=replace(view.header, notes=(*self.why, *view.header.notes)))

    def _of(self, layer: int, head: int) -> MapRequest:
        chosen = parse_selection(str(layer), "layer"), parse_selection(str(head), "head")
        return replace(self, layers=chosen[0], heads=chosen[1])

    def shown(self, plan: Plan) -> Shown:
        """Run the source and make the view; where some formats list and others draw, one for each.

        Raises:
            AttnCliError: The options contradict each other, or name what is not there; or the answer is too large.
        """
        return self.question(plan).answer(self.source)

    def question(self, plan: Plan) -> Question:
        """Return what to watch, and what follows; see `shown`."""
        asked = self._question(plan)
        special, first = self.wanted.exclude_special, self.wanted.exclude_first
        return (
            asked.without_keys(self.source.axes(self.kind)[1], special, first) if special or first else asked
        )

    def _question(self, plan: Plan) -> Question:
        formats = plan.formats
        if "pharaoh" in formats:
            from attncli.maps.alignment import aligned

            chosen = self.layers, self.heads
            observer, links = aligned(self.source, self.kind, chosen, self.wanted, self.texts)
            return Question([observer], lambda run: Shown(links(run), run))
        if self.wanted.threshold or self.wanted.join or self.wanted.reverse:
            raise UsageError("--threshold, --join and --reverse are for -f pharaoh", "add -f pharaoh")
        queries, keys = self.source.axes(self.kind)
        rows, columns = self._rows(queries), None if self.wanted.key is None else pick(keys, self.wanted.key)
        picked = rows is not None or columns is not None
        if self.wanted.spans is not None:
            return self._between_spans(queries, keys)
        how = self._pooling(queries, keys, picked=picked)
        drawn = formats if self.wanted.pool is not None else formats & formats_with("draws")
        picture = None if how is None or not drawn else self._picture(how, queries, keys)
        if picture is not None and drawn == formats:
            kept = picture
            return Question([kept], lambda run: Shown(self._pooled(kept, run, queries, keys), run))
        if not self.wanted.words:
            shape = len(queries if rows is None else rows), len(keys if columns is None else columns)
            refuse_too_many(plan, self.least_maps, *shape, self.wanted.top, at_least=True)
        whole = formats if self.wanted.top is None else formats - listing_formats()
        written = max((_written_bytes(name) for name in whole), default=0)
        weights = partial(self._weights, queries, keys, rows, columns, written)
        over = rows is not None and bool(getattr(self.source, "pictures", ()))
        if self._is_list(formats if picture is None else formats - drawn) and columns is None and not over:
            return self._strongest(queries, keys, rows, picture, weights, spans="json" in formats)
        return weights()

    @property
    def least_maps(self) -> int:
        """How many maps there will be at least; before the model runs, its heads are not known."""
        layers, heads = self.layers, self.heads
        if heads.named:
            return 1 if heads.merged else len(heads.named)
        all_layers = layers.mean or layers.ranges is None
        of_layers = 1 if all_layers else len(layers.resolve(self.source.depth(self.kind)))
        return of_layers * (1 if heads.merged or heads.ranges is None else len(set(heads.ranges)))

    def _rows(self, queries: Tokens) -> Sequence[int] | None:
        query, rows = self.wanted.query, self.wanted.rows
        if rows is not None and not _POSITIONS.fullmatch(rows):
            raise UsageError(f"--rows {rows}: not positions", "write 100-120, or name tokens with --query")
        asked = rows if query is None else query
        return None if asked is None else pick(queries, asked)

    def _pooling(self, queries: Tokens, keys: Tokens, *, picked: bool) -> How | None:
        """Choose how pictures are pooled: as asked, or by itself where the text is long; None if not at all."""
        asked = self.wanted.pool
        if asked is None:
            whole = not (picked or self.wanted.words or self.laid_over)
            if not whole or max(len(queries), len(keys)) <= SIDE:
                return None
            return "mean" if self.layers.mean else "max"
        if asked not in ("max", "mean"):
            raise UsageError(f"--pool {asked}: unknown value", did_you_mean(asked, ("max", "mean")))
        if picked or self.wanted.words or self.wanted.top is not None:
            raise UsageError(
                "--pool shows a whole map", "leave out --rows, --query, --key, --words and --top"
            )
        return cast(How, asked)

    def _is_list(self, formats: Collection[str]) -> bool:
        wanted, merged = self.wanted, self.layers.mean or self.heads.merged
        return (
            wanted.top is not None and listing_formats().issuperset(formats) and not (wanted.words or merged)
        )

    def _strongest(
        self,
        queries: Tokens,
        keys: Tokens,
        rows: Sequence[int] | None,
        picture: PooledPicture | None,
        if_signed: Callable[[], Question],
        *,
        spans: bool,
    ) -> Question:
        """List the strongest keys of each row without keeping any other weight.

        Args:
            picture: Keeps what formats that draw will show, where there are any.
            spans: Whether it is wanted which keys each row may attend to.
        """
        from attncli.maps.views import listed_matrices, weights_view
        from attncli.observers.allowed_keys import AllowedSpans
        from attncli.observers.strongest import StrongestKeys
        from attncli.observers.weights import FullWeights

        assert self.wanted.top is not None
        chosen = (self.layers, self.heads, self.source.depth(self.kind), len(queries))
        places = range(len(queries)) if rows is None else rows
        span = range(min(places, default=0), max(places, default=-1) + 1)
        found = StrongestKeys(self.kind, min(self.wanted.top, len(keys)), *chosen, span)
        firsts = FullWeights(self.kind, *chosen, len(keys), rows, [0])
        allowed = AllowedSpans(self.kind, *chosen, len(keys), span) if spans else None

        def finish(run: Run) -> Shown:
            self.layers.refuse_missing(run, self.kind, self.source.depth(self.kind))
            named, shown = firsts.matrices(), tuple(queries[place] for place in places)
            its_places = [place - span.start for place in places]
            matrices = listed_matrices(named, found, allowed, its_places, len(keys))
            made, top = provenance(run), self.wanted.top
            view = weights_view(
                matrices, run, self.kind, shown, keys, made, top, firsts=named, measure=self.measure
            )
            return Shown(view, run, None if picture is None else self._pooled(picture, run, queries, keys))

        observers = [one for one in (found, firsts, allowed, picture) if one is not None]
        return Question(observers, finish, if_signed)

    def _weights(
        self,
        queries: Tokens,
        keys: Tokens,
        rows: Sequence[int] | None,
        columns: Sequence[int] | None,
        written: int,
    ) -> Question:
        from attncli.maps.views import weights_view
        from attncli.observers import words
        from attncli.observers.weights import FullWeights

        merging = self.wanted.words
        shown = queries if rows is None else tuple(queries[i] for i in rows)
        across = keys if columns is None else tuple(keys[i] for i in columns)
        starts: tuple[Sequence[int], Sequence[int]] = ((), ())
        if merging:
            for tokens in (queries, keys):
                words.require_offsets(tokens)
            rows, below, shown = words.chosen_words(queries, rows)
            columns, beside, across = words.chosen_words(keys, columns)
            starts = below, beside
        sizes = self.source.depth(self.kind), len(queries), len(keys)
        kept = FullWeights(self.kind, self.layers, self.heads, *sizes, rows, columns, written=written)

        def finish(run: Run) -> Shown:
            self.layers.refuse_missing(run, self.kind, self.source.depth(self.kind))
            matrices = kept.matrices()
            if merging:
                matrices = tuple(words.merge(matrix, *starts) for matrix in matrices)
            made, notes = provenance(run), [words.RULE] if merging else []
            if self.heads.largest:
                if run.signed:
                    raise UsageError("--head max: these weights have signs", "--head mean")
                notes.append("of each pair the largest weight of the heads, so that a row need not sum to 1")
            view = weights_view(
                matrices,
                run,
                self.kind,
                shown,
                across,
                made,
                self.wanted.top,
                notes=notes,
                measure=self.measure,
            )
            return Shown(view, run)

        return Question([kept], finish)

    def _between_spans(self, queries: Tokens, keys: Tokens) -> Question:
        """Sum the weights between spans of the text; no map of single tokens is kept."""
        from attncli.inputs.named_spans import RULE, overlap, span_tokens, spans_of
        from attncli.maps.views import weights_view
        from attncli.observers.span_weights import SpanWeights

        assert self.wanted.spans is not None
        down, across = spans_of((queries, keys), self.wanted.spans, self.texts)
        sizes = self.source.depth(self.kind), len(queries), len(keys)
        places = [span.places for span in down], [span.places for span in across]
        kept = SpanWeights(self.kind, self.layers, self.heads, *sizes, *places)
        notes = [RULE]
        if overlap(across):
            notes.append("some tokens are in several spans, so that a row may sum to more than 1")
        shown = span_tokens(queries, down), span_tokens(keys, across)

        def finish(run: Run) -> Shown:
            self.layers.refuse_missing(run, self.kind, self.source.depth(self.kind))
            made, top = provenance(run), self.wanted.top
            matrices, measure = kept.matrices(), self.measure
            view = weights_view(matrices, run, self.kind, *shown, made, top, notes=notes, measure=measure)
            return Shown(view, run)

        return Question([kept], finish)

    def _picture(self, how: How, queries: Tokens, keys: Tokens) -> PooledPicture:
        """Make the observer that keeps a pooled picture."""
        from attncli.observers.pooled import PooledPicture

        sizes = self.source.depth(self.kind), len(queries), len(keys)
        return PooledPicture(self.kind, self.layers, self.heads, *sizes, how)

    def _pooled(self, kept: PooledPicture, run: Run, queries: Tokens, keys: Tokens) -> MatrixGrid:
        """Make the view of a pooled picture."""
        from attncli.maps.views import weights_view

        self.layers.refuse_missing(run, self.kind, self.source.depth(self.kind))
        shown, across = cell_tokens(queries, kept.query_starts), cell_tokens(keys, kept.key_starts)
        pooled = Pooling(kept.how, len(queries), len(keys))
        made, measure = provenance(run), self.measure
        return weights_view(
            kept.matrices(), run, self.kind, shown, across, made, None, pooled=pooled, measure=measure
        )


def _written_bytes(form: str) -> int:
    """Return what a weight takes at most while it is written in a format, besides the weight itself."""
    return cast(int, registry.entries("formats")[form].attributes.get("bytes_per_weight", 0))
