"""A corpus through a model, window by window: sorted, batched, measured, stopped and gone on with.

A window is so many lines. Its texts are sorted by length and put into batches, which run one after another; what a
batch gives is added up when it is done and not before. So a run can stop after any batch, and another can go on
behind it with the same batches in the same order, to the last bit. Of several ranks each runs every n-th batch.
"""

from __future__ import annotations

import hashlib
import itertools
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

from attncli.analysis.observers.head_tallies import HeadTallies, LayerTallies
from attncli.analysis.overlap import HeadOverlap
from attncli.analysis.tallies import Tally
from attncli.errors import ReadError
from attncli.record import Kind, Observer, Run, Site
from attncli.sources.batches import Encoded, Feed, cut_into_batches
from attncli.sources.corpus import BadLine, Line

LOOK_AHEAD = 512
"""Lines that are sorted together: enough for batches of like length, and no more memory for a longer corpus."""

Pair = tuple[Line, str | None]


class TextSource(Protocol):
    """Reads texts in batches."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention that a pass has."""

    @property
    def cut(self) -> int:
        """How many texts were cut to the model's length."""

    def depth(self, kind: Kind) -> int:
        """Give the number of layers with a kind of attention."""

    def encode(self, lines: Sequence[Pair], first_ordinal: int) -> list[Encoded | BadLine]:
        """Cut texts into tokens."""

    def feed(self, texts: Sequence[Encoded], shuffle: int | None = None) -> Feed:
        """Put texts into a batch."""

    def run(self, feed: Feed, observers: Sequence[Observer]) -> Run:
        """Run a batch."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One forward pass to be made.

    Args:
        null: Whether it is of other tokens.
    """

    make: Callable[[], Feed]
    null: bool


@dataclass(frozen=True, slots=True)
class Way:
    """How a corpus is gone through.

    Args:
        batch_size: Texts in a batch at most.
        null_texts: So many texts, the first ones, are run once more with their tokens shuffled.
        seed: Of the shuffling.
        rank: Which of several processes this is.
        ranks: How many there are.
    """

    batch_size: int
    null_texts: int
    seed: int
    rank: int = 0
    ranks: int = 1


@dataclass
class Ledger:
    """What was added up, and how far the run has come.

    Args:
        line: Lines before the window that is at work.
        before: Texts before it.
        units: Passes of the window that are done.
        cut: Texts before the window that were cut to the model's length.
        digest: Of all lines before the window, so that another corpus is noticed.
        run: The first pass.
        notes: What holds of every text: notes that all passes over texts as they are have had.
    """

    tallies: HeadTallies
    overlap: HeadOverlap
    texts: int = 0
    tokens: int = 0
    rows: int = 0
    null_texts: int = 0
    bad_lines: int = 0
    line: int = 0
    before: int = 0
    units: int = 0
    cut: int = 0
    digest: str = ""
    complete: bool = False
    run: Run | None = None
    notes: tuple[str, ...] | None = None

    def take(self, source: TextSource, unit: Unit) -> int:
        """Make a pass and add up what it gives; give the bytes of its lines."""
        feed = unit.make()
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

    def state(self) -> dict[str, Any]:
        """Give everything that another run needs to go on, for a file or another rank."""
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
        other = Ledger(_like(tallies), overlap)
        other.restore(state)
        for name in ("texts", "tokens", "rows", "null_texts"):
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

    def _layer(self, state: Mapping[str, Any]) -> tuple[int, LayerTallies]:
        heads = tuple(int(head) for head in state["picked"])
        site = Site(self.tallies.kind, int(state["layer"]), int(state["heads"]), int(state["kv_heads"]))
        parts = (Tally.of_state(part, len(self.tallies.names), len(heads)) for part in state["sums"])
        return site.layer, LayerTallies(site, heads, *parts)

    def _restore_overlap(self, state: Mapping[str, Any]) -> None:
        import numpy as np

        self.overlap.found = [(int(layer), int(head)) for layer, head in state["heads"]]
        products = state["products"]
        self.overlap.products = None if products is None else np.array(products, dtype=np.float64)
        self.overlap.rows = float(state["rows"])
        size = len(self.overlap.found)
        if self.overlap.products is not None and self.overlap.products.shape != (size, size):
            raise ValueError("the overlaps are of another number of heads")


_COUNTS = ("texts", "tokens", "rows", "null_texts", "bad_lines", "line", "before", "units", "cut", "digest")


def _layer_state(layer: LayerTallies) -> dict[str, Any]:
    site = layer.site
    return {
        "layer": site.layer,
        "heads": site.heads,
        "kv_heads": site.kv_heads,
        "picked": list(layer.heads),
        "sums": [part.state() for part in layer.parts()],
    }


def _like(tallies: HeadTallies) -> HeadTallies:
    return HeadTallies(
        tallies.kind, tallies.measures, tallies.layers, tallies.heads, tallies.depth, tallies.exclude_special
    )


class Interrupted(Exception):
    """The user, or a scheduler, has asked to stop; what is done is in the ledger."""


@dataclass
class CorpusRun:
    """Goes through a corpus.

    Args:
        tell_bad: Told of each line that cannot be used.
        tell_done: Told how many bytes and texts are done, more and more.
    """

    source: TextSource
    ledger: Ledger
    way: Way
    tell_bad: Callable[[BadLine], None]
    tell_done: Callable[[int, int], None]
    _turn: int = 0
    _stop: list[bool] = field(default_factory=list)

    def over_lines(self, lines: Iterable[Pair | BadLine]) -> None:
        """Go through all lines, or from where the ledger has come to.

        Raises:
            Interrupted: It was asked to stop.
            ReadError: The corpus is another one than that of the run that is gone on with.
        """
        digest, cut_before = hashlib.sha256(), self.ledger.cut
        rest = self._skipped(iter(lines), digest)
        with self._stopping():
            while window := list(itertools.islice(rest, LOOK_AHEAD)):
                texts = self._encoded(window)
                self._do(self._units(texts))
                self.ledger.line += len(window)
                self.ledger.before += len(texts)
                self.ledger.units = 0
                self.ledger.cut = cut_before + self.source.cut
                _update(digest, window)
                self.ledger.digest = digest.hexdigest()
        self.ledger.complete = True

    def over_feeds(self, feeds: Sequence[tuple[Feed, bool]]) -> None:
        """Make passes that are ready.

        Raises:
            Interrupted: It was asked to stop.
        """
        with self._stopping():
            self._do([Unit(lambda feed=feed: feed, null) for feed, null in feeds])  # type: ignore[misc]
        self.ledger.complete = True

    def _skipped(self, lines: Iterator[Pair | BadLine], digest: Any) -> Iterator[Pair | BadLine]:
        if self.ledger.line:
            for start in range(0, self.ledger.line, LOOK_AHEAD):
                _update(digest, list(itertools.islice(lines, min(LOOK_AHEAD, self.ledger.line - start))))
            if digest.hexdigest() != self.ledger.digest:
                raise ReadError(
                    "--resume: the corpus has changed since that run began", "start afresh without --resume"
                )
        return lines

    def _encoded(self, window: Sequence[Pair | BadLine]) -> list[Encoded]:
        """Cut the window's texts into tokens, and tell of lines that cannot be used, in their order."""
        good = [pair for pair in window if not isinstance(pair, BadLine)]
        encoded = iter(self.source.encode(good, self.ledger.before))
        found = [line if isinstance(line, BadLine) else next(encoded) for line in window]
        texts = []
        for one in found:
            if isinstance(one, Encoded):
                texts.append(one)
            elif not self.ledger.units:  # those of a window that was begun have been told of
                self.ledger.bad_lines += 1
                self.tell_bad(one)
        return texts

    def _units(self, texts: Sequence[Encoded]) -> list[Unit]:
        sample = [text for text in texts if text.ordinal < self.way.null_texts]
        size, seed, feed = self.way.batch_size, self.way.seed, self.source.feed
        # A few texts differ more in length: with half as many in a batch there is less padding to go through.
        half = max(size // 2, 1)
        null = [Unit(lambda part=part: feed(part, seed), True) for part in cut_into_batches(sample, half)]  # type: ignore[misc]
        plain = [Unit(lambda part=part: feed(part), False) for part in cut_into_batches(texts, size)]  # type: ignore[misc]
        return [*null, *plain]

    def _do(self, units: Sequence[Unit]) -> None:
        for unit in units[self.ledger.units :]:
            mine = self._turn % self.way.ranks == self.way.rank
            self._turn += 1
            if mine:
                size = self.ledger.take(self.source, unit)
                self.tell_done(size * self.way.ranks, self.ledger.texts * self.way.ranks)
            self.ledger.units += 1
            if self._stop:
                raise Interrupted

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """Let Ctrl-C stop the run between two passes; pressed again, it stops at once.

        So does SIGTERM, with which schedulers end a job; of several ranks it ends each at once, as torchrun expects.
        """

        def on_signal(number: int, frame: FrameType | None) -> None:
            if self._stop and number == signal.SIGINT:
                raise KeyboardInterrupt
            self._stop.append(True)

        numbers = (signal.SIGINT,) if self.way.ranks > 1 else (signal.SIGINT, signal.SIGTERM)
        try:
            before = {number: signal.signal(number, on_signal) for number in numbers}
        except ValueError:  # not in the main thread, where no signal arrives
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _update(digest: Any, window: Sequence[Pair | BadLine]) -> None:
    for line in window:
        text = f"\x00{line.reason}" if isinstance(line, BadLine) else f"{line[0].text}\x00{line[1]}"
        digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
