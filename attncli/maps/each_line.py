"""Maps of many texts: each asked for as one text is, and run in batches of like length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncli.cli.each_line import Answer
from attncli.cli.options import ModelOptions, OutputOptions, ScratchOptions
from attncli.cli.output import say
from attncli.errors import AttnCliError, CaptureError, ModelError, TooLargeError, UsageError
from attncli.inputs.corpus import Pair, cut_into_batches
from attncli.inputs.media import refuse_medium
from attncli.maps.show import Question, Shown
from attncli.models.opening import Opened, check_reads, is_pretrained, load_model, open_source
from attncli.models.text_batches import OneOfMany, TextReader
from attncli.view import Matrix, MatrixGrid

WINDOW = 8
"""So many batches of lines are sorted by length together."""

LARGEST_WINDOW = 2**24
"""Weights that the answers of a window may hold, unless one text alone has more."""


@dataclass(frozen=True)
class _Asked:
    """One text, and what is asked of it."""

    pair: Pair
    source: Opened
    question: Question
    longest: int
    weights: int


@dataclass
class EachLine:
    """Answers a question for each of many texts.

    Args:
        open_text: Makes a text ready.
        ask: Returns what to watch while it runs, and how many maps that gives.
        batch_size: Texts at once.
        reader: Runs several texts at once; None where they run one after the other.
        about_text: Whether options name places in the text, so that they may suit one text and not another.
    """

    open_text: Callable[[str, str | None], Opened]
    ask: Callable[[Opened], tuple[Question, int]]
    batch_size: int
    reader: TextReader | None = None
    about_text: bool = False
    quiet: bool = False
    _padding_checked: bool = False

    def answers(self, pairs: Iterator[Pair]) -> Iterator[Answer]:
        """Yield what comes of each text, in their order.

        Raises:
            AttnCliError: Something is wrong whatever the text is.
        """
        window: list[_Asked | Answer] = []
        weights, most = 0, 1 if self._one_by_one else WINDOW * self.batch_size
        for pair in pairs:
            asked = self._asked(pair)
            window.append(asked)
            weights += asked.weights if isinstance(asked, _Asked) else 0
            if len(window) >= most or weights >= LARGEST_WINDOW:
                yield from self._answered(window)
                window, weights = [], 0
        yield from self._answered(window)

    @property
    def _one_by_one(self) -> bool:
        return self.batch_size == 1 or self.reader is None

    def _asked(self, pair: Pair) -> _Asked | Answer:
        line, other = pair
        try:
            refuse_medium(line.text)
            source = self.open_text(line.text, other)
        except (UsageError, ModelError) as error:
            return Answer(pair, error)
        try:
            question, maps = self.ask(source)
        except (UsageError, TooLargeError) as error:
            if isinstance(error, UsageError) and not self.about_text:
                raise
            return Answer(pair, error)
        sizes = [tuple(map(len, source.axes(kind))) for kind in source.kinds]
        return _Asked(pair, source, question, max(map(max, sizes)), maps * max(a * b for a, b in sizes))

    def _answered(self, window: Sequence[_Asked | Answer]) -> Iterator[Answer]:
        """Run a window's texts, sorted by length; yield in the order of the lines."""
        found = {one.pair[0].number: one for one in window if isinstance(one, Answer)}
        texts = [one for one in window if isinstance(one, _Asked)]
        for batch in cut_into_batches(texts, 1 if self._one_by_one else self.batch_size):
            found |= {one.pair[0].number: one for one in self._run(batch)}
        for one in window:
            yield found.pop(one.pair[0].number)

    def _run(self, texts: Sequence[_Asked]) -> list[Answer]:
        """Run a batch; where it fails, each of its texts by itself."""
        if len(texts) == 1:
            (text,) = texts
            try:
                return [_answer(text.pair, text.question.answer(text.source))]
            except (CaptureError, TooLargeError) as error:
                return [Answer(text.pair, error)]
        assert self.reader is not None
        try:
            sources = [text.source for text in texts if isinstance(text.source, OneOfMany)]
            runs = self.reader.run(sources, [text.question.observers for text in texts])
        except (CaptureError, TooLargeError):
            return [self._again(text) for text in texts]
        found = [_answer(text.pair, text.question.finish(run)) for text, run in zip(texts, runs, strict=True)]
        if not self._padding_checked and texts[0].longest < texts[-1].longest:
            self._padding_checked = True
            if not _same(found[0], self._again(texts[0]), self.reader.loaded.model.dtype.itemsize):
                self.batch_size = 1
                if not self.quiet:
                    say("note: padding changes this model's weights: the texts are read one by one")
                return [self._again(text) for text in texts]
        return found

    def _again(self, text: _Asked) -> Answer:
        """Run a text by itself."""
        asked = self._asked(text.pair)
        return asked if isinstance(asked, Answer) else self._run([asked])[0]


def lines_of_model(
    model: ModelOptions,
    scratch: ScratchOptions,
    output: OutputOptions,
    ask: Callable[[Opened], tuple[Question, int]],
    batch_size: int,
    *,
    about_text: bool = False,
) -> EachLine:
    """Open a model for many texts; see `EachLine`.

    Raises:
        AttnCliError: It is not available, or reads no texts.
    """
    quiet = bool(output.quiet)
    if not is_pretrained(model):

        def open_text(text: str, pair: str | None) -> Opened:
            return open_source(text, pair, model, scratch, output)

        return EachLine(open_text, ask, batch_size, None, about_text, quiet)
    check_reads(model, output)
    loaded = load_model(model, output)
    reader = TextReader(loaded, truncate=model.truncate, verify=not model.no_verify, fast=model.fast)
    return EachLine(reader.open, ask, batch_size, reader, about_text, quiet)


def _same(left: Answer, right: Answer, itemsize: int) -> bool:
    """Whether two answers to one text have the same weights, as far as the model's precision goes."""
    if isinstance(left.found, AttnCliError) or isinstance(right.found, AttnCliError):
        return False
    near = 1e-4 if itemsize >= 4 else 0.05
    assert isinstance(left.found, MatrixGrid) and isinstance(right.found, MatrixGrid)
    return all(
        np.allclose(_weights(one), _weights(other), rtol=0, atol=near, equal_nan=True)
        for one, other in zip(left.found.matrices, right.found.matrices, strict=True)
    )


def _weights(matrix: Matrix) -> NDArray[np.float32]:
    return matrix.values if matrix.listed is None else matrix.listed.weights


def _answer(pair: Pair, shown: Shown) -> Answer:
    return Answer(pair, shown.view, shown.pictures)
