"""What ``show`` makes of its options: all weights, words instead of pieces, or a pooled picture of a long text."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from attncli.cli.common import provenance
from attncli.cli.output import LISTS, PICTURES, Plan, refuse_too_many
from attncli.errors import UsageError, did_you_mean
from attncli.inputs.token_selection import pick
from attncli.maps.options import ShowOptions
from attncli.models.opening import Opened
from attncli.observers.selection import Selection, parse_selection
from attncli.record import HeadRole, Kind, Run, Tokens
from attncli.view import MatrixGrid, Pooling

How = Literal["max", "mean"]

_POSITIONS = re.compile(r"[-\d,\s]+")


@dataclass(frozen=True)
class Showing:
    """A source and what is to be seen of it."""

    source: Opened
    kind: Kind
    layers: Selection
    heads: Selection
    wanted: ShowOptions

    def of_one_head(self, roles: Sequence[HeadRole]) -> Showing:
        """Show the one head that has most to say of the text, as far as any is known to do something."""
        from attncli.maps.hints import head_to_show

        role = head_to_show(roles, self.source.axes(self.kind)[0])
        if role is None:
            return self
        layers = parse_selection(str(role.layer), "layer")
        return replace(self, layers=layers, heads=parse_selection(str(role.head), "head"))

    def view(self, plan: Plan) -> tuple[MatrixGrid, Run]:
        """Run the source and make the view.

        Raises:
            AttnCliError: The options contradict each other, or name what is not there; or the answer is too large.
        """
        formats = plan.formats
        queries, keys = self.source.axes(self.kind)
        rows, columns = self._rows(queries), None if self.wanted.key is None else pick(keys, self.wanted.key)
        how = self._pooling(formats, queries, keys, picked=rows is not None or columns is not None)
        if how is not None:
            return self._pooled(how, queries, keys)
        if not self.wanted.words:
            shape = len(queries if rows is None else rows), len(keys if columns is None else columns)
            refuse_too_many(plan, self._least_maps(), *shape, self.wanted.top, at_least=True)
        if self._is_list(formats) and columns is None:
            view, run = self._strongest(queries, keys, rows, spans="json" in formats)
            if not run.signed:
                return view, run
        return self._weights(queries, keys, rows, columns)

    def _least_maps(self) -> int:
        """Say how many maps there will be at least; before the model runs, its heads are not known."""
        layers, heads = self.layers, self.heads
        all_layers = layers.mean or layers.ranges is None
        of_layers = 1 if all_layers else len(layers.resolve(self.source.depth(self.kind)))
        return of_layers * (1 if heads.mean or heads.ranges is None else len(set(heads.ranges)))

    def _rows(self, queries: Tokens) -> Sequence[int] | None:
        query, rows = self.wanted.query, self.wanted.rows
        if query is not None and rows is not None:
            raise UsageError("--query and --rows both say which rows", "give one of them")
        if rows is not None and not _POSITIONS.fullmatch(rows):
            raise UsageError(f"--rows {rows}: not positions", "write 100-120, or name tokens with --query")
        asked = rows if query is None else query
        return None if asked is None else pick(queries, asked)

    def _pooling(
        self, formats: Collection[str], queries: Tokens, keys: Tokens, *, picked: bool
    ) -> How | None:
        """Choose how to pool: as asked, or by itself where pictures alone are wanted and the text is long."""
        from attncli.observers.pooled import SIDE

        asked = self.wanted.pool
        if asked is None:
            by_itself = not picked and not self.wanted.words and PICTURES.issuperset(formats)
            if not by_itself or max(len(queries), len(keys)) <= SIDE:
                return None
            return "mean" if self.layers.mean else "max"
        if asked not in ("max", "mean"):
            raise UsageError(f"--pool {asked}: no such way", did_you_mean(asked, ("max", "mean")))
        if picked or self.wanted.words or self.wanted.top is not None:
            raise UsageError(
                "--pool shows a whole map", "leave out --rows, --query, --key, --words and --top"
            )
        return cast(How, asked)

    def _is_list(self, formats: Collection[str]) -> bool:
        wanted, mean = self.wanted, self.layers.mean or self.heads.mean
        return wanted.top is not None and LISTS.issuperset(formats) and not (wanted.words or mean)

    def _strongest(
        self, queries: Tokens, keys: Tokens, rows: Sequence[int] | None, *, spans: bool
    ) -> tuple[MatrixGrid, Run]:
        """List the strongest keys of each row without keeping any other weight.

        Args:
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
        run = self.source.run([found, firsts] if allowed is None else [found, firsts, allowed])
        self.layers.refuse_missing(run, self.kind, self.source.depth(self.kind))
        named, shown = firsts.matrices(), tuple(queries[place] for place in places)
        matrices = listed_matrices(named, found, allowed, [place - span.start for place in places], len(keys))
        made, top = provenance(run), self.wanted.top
        return weights_view(matrices, run, self.kind, shown, keys, made, top, firsts=named), run

    def _weights(
        self, queries: Tokens, keys: Tokens, rows: Sequence[int] | None, columns: Sequence[int] | None
    ) -> tuple[MatrixGrid, Run]:
        from attncli.maps.views import weights_view
        from attncli.observers import words
        from attncli.observers.weights import FullWeights

        merging = self.wanted.words
        if merging and (rows is not None or columns is not None):
            raise UsageError("--words shows whole words", "leave out --rows, --query and --key")
        sizes = self.source.depth(self.kind), len(queries), len(keys)
        kept = FullWeights(self.kind, self.layers, self.heads, *sizes, rows, columns)
        run = self.source.run([kept])
        self.layers.refuse_missing(run, self.kind, self.source.depth(self.kind))
        matrices = kept.matrices()
        if merging:
            starts = words.word_starts(queries), words.word_starts(keys)
            matrices = tuple(words.merge(matrix, *starts) for matrix in matrices)
            queries, keys = words.word_tokens(queries, starts[0]), words.word_tokens(keys, starts[1])
        shown = queries if rows is None else tuple(queries[i] for i in rows)
        across = keys if columns is None else tuple(keys[i] for i in columns)
        made, notes = provenance(run), [words.RULE] if merging else []
        return weights_view(matrices, run, self.kind, shown, across, made, self.wanted.top, notes=notes), run

    def _pooled(self, how: How, queries: Tokens, keys: Tokens) -> tuple[MatrixGrid, Run]:
        from attncli.maps.views import cell_tokens, weights_view
        from attncli.observers.pooled import PooledPicture

        sizes = self.source.depth(self.kind), len(queries), len(keys)
        kept = PooledPicture(self.kind, self.layers, self.heads, *sizes, how)
        run = self.source.run([kept])
        self.layers.refuse_missing(run, self.kind, self.source.depth(self.kind))
        shown, across = cell_tokens(queries, kept.query_cuts), cell_tokens(keys, kept.key_cuts)
        pooled = Pooling(how, len(queries), len(keys))
        made = provenance(run)
        return weights_view(kept.matrices(), run, self.kind, shown, across, made, None, pooled=pooled), run
