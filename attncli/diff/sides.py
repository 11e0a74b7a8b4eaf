"""One side of a comparison: a model that reads texts, or a saved run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attncli.cli.options import ModelOptions, OutputOptions, ScratchOptions
from attncli.errors import UsageError
from attncli.labels import safe_label
from attncli.observers.selection import Selection
from attncli.record import KINDS, Kind, Provenance, Run, SourceInfo, Tokens
from attncli.view import Matrix

if TYPE_CHECKING:
    from attncli.models.loading import Loaded
    from attncli.models.opening import Opened

Head = tuple[int, int]
"""Layer and head."""


@dataclass(frozen=True)
class Seen:
    """What was seen on one side.

    Args:
        depth: Number of layers of the stack.
        maps: By layer and head.
        run: What was run; None for a saved run.
    """

    source: SourceInfo
    kind: Kind
    depth: int
    maps: Mapping[Head, Matrix]
    queries: Tokens
    keys: Tokens
    run: Run | None = None

    def by_words(self) -> Seen:
        """Merge word pieces."""
        from attncli.observers import words

        starts = words.word_starts(self.queries), words.word_starts(self.keys)
        return replace(
            self,
            maps={head: words.merge(matrix, *starts) for head, matrix in self.maps.items()},
            queries=words.word_tokens(self.queries, starts[0]),
            keys=words.word_tokens(self.keys, starts[1]),
        )


@dataclass
class Reader:
    """A model, opened once, that reads texts.

    Args:
        kind: Which attention; the first that the model has where None.
    """

    model: ModelOptions
    output: OutputOptions
    kind: str | None
    layers: Selection
    heads: Selection
    _loaded: Loaded | None = None

    def read(self, text: str, pair: str | None = None) -> Seen:
        """Run a text and keep the weights of the chosen heads.

        Raises:
            AttnCliError: The model does not take the text, or the weights do not fit in memory.
        """
        from attncli.cli.common import choose_kind
        from attncli.observers.weights import FullWeights

        source = self._open(text, pair)
        kind = choose_kind(source.kinds, self.kind)
        queries, keys = source.axes(kind)
        depth = source.depth(kind)
        kept = FullWeights(kind, self.layers, self.heads, depth, len(queries), len(keys))
        run = source.run([kept])
        self.layers.refuse_missing(run, kind, depth)
        maps = {(one.layer, one.head): one for one in kept.matrices()}
        return Seen(run.source, kind, depth, maps, queries, keys, run)  # type: ignore[arg-type]

    def _open(self, text: str, pair: str | None) -> Opened:
        from attncli.models.opening import check_reads, load_model, open_source
        from attncli.models.shipped import shipped_models

        if self.model.model in (None, "scratch", *shipped_models()):
            return open_source(text, pair, self.model, ScratchOptions(), self.output)
        if self._loaded is None:
            check_reads(self.model, self.output, text)
            self._loaded = load_model(self.model, self.output)
        from attncli.models.prepared_text import prepare
        from attncli.models.pretrained import PretrainedSource

        prepared = prepare(self._loaded, text, pair, truncate=self.model.truncate)
        return PretrainedSource(self._loaded, prepared, not self.model.no_verify, fast=self.model.fast)


def saved(path: str, kind: str | None, layers: Selection, heads: Selection) -> tuple[Seen, Provenance]:
    """Read a saved run.

    Raises:
        ReadError: It cannot be read.
        UsageError: It holds no full weights of single heads, or none of those asked for.
    """
    from attncli.cli.common import choose_kind
    from attncli.documents.reading import load_run
    from attncli.view import MatrixGrid

    run, name = load_run(path), safe_label(path)
    whole = isinstance(run, MatrixGrid) and run.unit != "mask" and run.pooled is None
    if not isinstance(run, MatrixGrid) or not whole or any(one.listed is not None for one in run.matrices):
        raise UsageError(
            f"{name}: it holds no weights of single heads", "write one: attncli show … -o run.npz"
        )
    if run.header.source is None or any(not isinstance(one.layer, int) for one in run.matrices):
        raise UsageError(
            f"{name}: it holds no weights of a model's layers", "write one: attncli show … -o run.npz"
        )
    kinds = [kind for kind in KINDS if any(one.kind == kind for one in run.matrices)]
    chosen = choose_kind(kinds, kind)
    of_kind = {(one.layer, one.head): one for one in run.matrices if one.kind == chosen}
    depth, count = (
        1 + max(number for number in side if isinstance(number, int)) for side in zip(*of_kind, strict=True)
    )
    wanted = {(layer, head) for layer in layers.resolve(depth) for head in heads.resolve(count)}
    maps = {head: matrix for head, matrix in of_kind.items() if head in wanted}
    seen = Seen(run.header.source, chosen, depth, maps, run.query_tokens, run.key_tokens)
    return seen, run.header.provenance
