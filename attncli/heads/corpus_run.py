"""A corpus through a model, window by window: sorted, batched, measured, stopped and gone on with.

A window is so many lines. Its texts are sorted by length and put into batches, which run one after another; what a
batch gives is added up when it is done and not before. So a run can stop after any batch, and another can go on
after it with the same batches in the same order, to the last bit. Of several ranks each runs every n-th batch.
"""

from __future__ import annotations

import hashlib
import itertools
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

from attncli.errors import CaptureError, ReadError
from attncli.heads.corpus_state import CorpusState, Pass, TextSource
from attncli.inputs.corpus import BadLine, Pair, cut_into_batches
from attncli.models.batches import Encoded, ModelBatch

LOOK_AHEAD = 512
"""Lines that are sorted together: enough for batches of like length, and no more memory for a longer corpus."""

PATIENCE = 64
"""Texts that may fail one after the other before any has worked: then it is the model that does not run.

So failures are told of only when one text has worked; else the first of them is the error.
"""


@dataclass(frozen=True, slots=True)
class PassSettings:
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


class Interrupted(Exception):
    """The user, or a scheduler, has asked to stop; what is done is in the ledger."""


@dataclass
class CorpusRun:
    """Goes through a corpus.

    Args:
        tell_bad: Told of each line that cannot be read; of several ranks all read all lines.
        tell_failed: Told of each line that the model does not run on.
        tell_done: Told how many bytes and texts are done, more and more.
    """

    source: TextSource
    ledger: CorpusState
    way: PassSettings
    tell_bad: Callable[[BadLine], None]
    tell_failed: Callable[[BadLine], None]
    tell_done: Callable[[int, int], None]
    _turn: int = 0
    _stop: list[bool] = field(default_factory=list)
    _failed: list[tuple[int, CaptureError]] = field(default_factory=list)

    def over_lines(self, lines: Iterable[Pair | BadLine]) -> None:
        """Go through all lines, or from where the ledger has come to.

        Raises:
            Interrupted: It was asked to stop.
        ReadError: The corpus is another one than that of the run that is gone on with.
            CaptureError: The model runs on none of the texts.
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
        if self._failed and self.way.ranks == 1:
            raise self._failed[0][1]
        self._tell_failed()
        self.ledger.complete = True

    def over_feeds(self, feeds: Sequence[tuple[ModelBatch, bool]]) -> None:
        """Make passes that are ready.

        Raises:
            Interrupted: It was asked to stop.
        """
        with self._stopping():
            self._do([Pass(lambda _, feed=feed: feed, null) for feed, null in feeds])  # type: ignore[misc]
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

    def _units(self, texts: Sequence[Encoded]) -> list[Pass]:
        sample = [text for text in texts if text.ordinal < self.way.null_texts]
        size, seed, feed = self.way.batch_size, self.way.seed, self.source.feed
        # A few texts differ more in length: with half as many in a batch there is less padding to go through.
        half = max(size // 2, 1)
        null = [Pass(lambda part: feed(part, seed), True, part) for part in cut_into_batches(sample, half)]
        plain = [Pass(feed, False, part) for part in cut_into_batches(texts, size)]
        return [*null, *plain]

    def _do(self, units: Sequence[Pass]) -> None:
        for unit in units[self.ledger.units :]:
            mine = self._turn % self.way.ranks == self.way.rank
            self._turn += 1
            if mine:
                size = self._take(unit)
                self.tell_done(size * self.way.ranks, self.ledger.texts * self.way.ranks)
            self.ledger.units += 1
            if self._stop:
                raise Interrupted

    def _take(self, unit: Pass) -> int:
        """Make a pass; where one fails, its texts are run one by one, and those that fail alone are told of."""
        try:
            size = self.ledger.take(self.source, unit)
        except CaptureError as error:
            if not unit.texts:
                raise
            if len(unit.texts) > 1:
                return sum(self._take(replace(unit, texts=[text])) for text in unit.texts)
            if not unit.null:  # a text that fails only with its tokens shuffled has no null
                self.ledger.failed_lines += 1
                self._failed.append((unit.texts[0].line, error))
            if len(self._failed) == PATIENCE and not self.ledger.texts:
                raise
            size = 0
        if self.ledger.texts:
            self._tell_failed()
        return size

    def _tell_failed(self) -> None:
        for line, error in self._failed:
            self.tell_failed(BadLine(line, error.message))
        self._failed.clear()

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
