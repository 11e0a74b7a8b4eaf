"""What a run over a corpus has added up, and how far it has come: enough for another run to go on with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from attncli.errors import ReadError
from attncli.heads.corpus_sums import CorpusSums, LayerSums
from attncli.heads.running_sums import RunningSums
from attncli.heads.similarity import HeadOverlap
from attncli.inputs.corpus import BadLine, Pair
from attncli.models.batches import Encoded, ModelBatch
from attncli.record import AttentionLayer, Kind, Observer, Run


class TextSource(Protocol):
    """Reads texts in batches."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention that a pass has."""

    @property
    def cut(self) -> int:
        """How many texts were cut to the model's length."""

    def depth(self, kind: Kind) -> int:
        """Return the number of layers with a kind of attention."""

    def encode(self, lines: Sequence[Pair], first_ordinal: int) -> list[Encoded | BadLine]:
        """Cut texts into tokens."""

    def feed(self, texts: Sequence[Encoded], shuffle: int | None = None) -> ModelBatch:
        """Put texts into a batch."""

    def run(self, feed: ModelBatch, observers: Sequence[Observer]) -> Run:
        """Run a batch."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass to be made.

    Args:
        make: Puts texts into a batch.
        null: Whether it is of other tokens.
        texts: Those that are put into it; none where the batch is ready.
    """

    make: Callable[[Sequence[Encoded]], ModelBatch]
    null: bool
    texts: Sequence[Encoded] = ()


@dataclass
class CorpusState:
    """What was added up, and how far the run has come.

    Args:
        line: Lines before the window that is at work.
        before: Texts before it.
        bad_lines: Lines that could not be read.
        failed_lines: Lines that the model did not run on.
        units: Passes of the window that are done.
        cut: Texts before the window that were cut to the model's length.
        digest: Of all lines before the window, so that another corpus is noticed.
        run: The first pass.
        notes: What holds of every text: notes that all passes over texts as they are have had.
    """

    tallies: CorpusSums
    overlap: HeadOverlap
    texts: int = 0
    tokens: int = 0
    rows: int = 0
    null_texts: int = 0
    bad_lines: int = 0
    failed_lines: int = 0
    line: int = 0
    before: int = 0
    units: int = 0
    cut: int = 0
    digest: str = ""
    complete: bool = False
    run: Run | None = None
    notes: tuple[str, ...] | None = None

    def take(self, source: TextSource, unit: Pass) -> int:
        """Make a pass and add up what it gives; give the bytes of its lines."""
        feed = unit.make(unit.texts)
        batch = feed.batches[self.tallies.kind]
        shuffled = None if feed.shuffled is None else feed.shuffled[self.tallies.kind]
        self.tallies.begin(batch, null=unit.null, shuffled=shuffled)
        observers: list[Observer] = [self.tallies]
        if not unit.null:
            self.overlap.begin(batch)
            observers.append(self.overlap)
        run = source.run(feed, observers)
        if self.run is None:
            self.tallies.layers.refuse_missing(run, self.tallies.kind, self.tallies.depth)
            self.run = run
        self.tallies.commit()
        if unit.null:
            self.null_texts += feed.texts
            return 0
        self.overlap.commit()
        self.notes = tuple(note for note in run.notes if self.notes is None or note in self.notes)
        self.texts += feed.texts
        self.tokens += feed.tokens
        self.rows += int(batch.rows.sum())
        return feed.size

    @property
    def unused_lines(self) -> int:
        """Lines that the answer is not of."""
        return self.bad_lines + self.failed_lines

    def state(self) -> dict[str, Any]:
        """Return everything that another run needs to go on, for a file or another rank."""
        return {
            **{name: getattr(self, name) for name in _COUNTS},
            "layers": [_layer_state(layer) for _, layer in sorted(self.tallies.by_layer.items())],
            "overlap": {
                "heads": [list(head) for head in self.overlap.found],
                "products": None if self.overlap.products is None else self.overlap.products.tolist(),
                "rows": self.overlap.rows,
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` has given.

        Raises:
            ReadError: It is damaged, or of another question.
        """
        try:
            for name in _COUNTS:
                setattr(self, name, type(getattr(self, name))(state[name]))
            self.tallies.by_layer.clear()
            self.tallies.by_layer.update(map(self._layer, state["layers"]))
            self._restore_overlap(state["overlap"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ReadError(f"--resume: what the file holds of the run is damaged ({error})") from error

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add up what another rank has found."""
        tallies = self.tallies
        overlap = HeadOverlap(
            tallies.kind, tallies.layers, tallies.heads, tallies.depth, tallies.exclude_special
        )
        other = CorpusState(_like(tallies), overlap)
        other.restore(state)
        for name in ("texts", "tokens", "rows", "null_texts", "failed_lines"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for layer, theirs in other.tallies.by_layer.items():
            ours = self.tallies.by_layer.setdefault(layer, theirs)
            if ours is not theirs:
                for mine, tally in zip(ours.parts(), theirs.parts(), strict=True):
                    mine.merge(tally)
        if other.overlap.products is not None:
            self.overlap.found = other.overlap.found
            added = other.overlap.products
            self.overlap.products = added if self.overlap.products is None else self.overlap.products + added
            self.overlap.rows += other.overlap.rows

    def _layer(self, state: Mapping[str, Any]) -> tuple[int, LayerSums]:
        heads = tuple(int(head) for head in state["picked"])
        layer = AttentionLayer(
            self.tallies.kind, int(state["layer"]), int(state["heads"]), int(state["kv_heads"])
        )
        parts = (RunningSums.of_state(part, len(self.tallies.names), len(heads)) for part in state["sums"])
        return layer.index, LayerSums(layer, heads, *parts)

    def _restore_overlap(self, state: Mapping[str, Any]) -> None:
        import numpy as np

        self.overlap.found = [(int(layer), int(head)) for layer, head in state["heads"]]
        products = state["products"]
        self.overlap.products = None if products is None else np.array(products, dtype=np.float64)
        self.overlap.rows = float(state["rows"])
        size = len(self.overlap.found)
        if self.overlap.products is not None and self.overlap.products.shape != (size, size):
            raise ValueError("the overlaps are of another number of heads")


_COUNTS = (
    "texts",
    "tokens",
    "rows",
    "null_texts",
    "bad_lines",
    "failed_lines",
    "line",
    "before",
    "units",
    "cut",
    "digest",
)


def _layer_state(sums: LayerSums) -> dict[str, Any]:
    layer = sums.layer
    return {
        "layer": layer.index,
        "heads": layer.heads,
        "kv_heads": layer.kv_heads,
        "picked": list(sums.heads),
        "sums": [part.state() for part in sums.parts()],
    }


def _like(tallies: CorpusSums) -> CorpusSums:
    return CorpusSums(
        tallies.kind, tallies.measures, tallies.layers, tallies.heads, tallies.depth, tallies.exclude_special
    )
