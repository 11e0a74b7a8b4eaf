"""A text that is longer than a model's window, read in windows that overlap: one map over the whole text.

Windows of the model's limit advance by a stride. Each token's row is that of the first window that holds the token:
there it has the most context before it, as in the usual evaluation of perplexity by sliding windows. What that
window did not hold is masked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import torch
from torch import Tensor

from attncli.capture.blocks import BLOCK_BYTES
from attncli.capture.merge_reports import joined_reports
from attncli.errors import UsageError
from attncli.models.loading import Loaded
from attncli.models.prepared_text import (
    Prepared,
    check_takes_text,
    encode,
    token_limit,
    tokenize,
)
from attncli.models.pretrained import PretrainedSource
from attncli.record import AttentionLayer, Kind, LayerObserver, Observer, Request, Run, Tokens, WeightBlock


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a text that a model reads at once, with the special tokens around it.

    Args:
        shift: How many tokens of the text stand before it.
        length: Number of its tokens, specials included.
        rows: Which of its rows stand in the whole map, counted from its own first token.
    """

    shift: int
    length: int
    rows: range


@dataclass(frozen=True, slots=True)
class Frame:
    """A text with the special tokens around it, which each window has too.

    Args:
        total: Number of tokens, specials included.
        lead: Number of special tokens before the text.
        tail: Number of special tokens after it.
    """

    total: int
    lead: int
    tail: int

    def windows(self, limit: int, stride: int) -> tuple[Window, ...]:
        """Cut the text into windows of at most `limit` tokens that advance by `stride`.

        >>> [(w.shift, w.length, w.rows) for w in Frame(12, lead=1, tail=1).windows(6, 3)]
        [(0, 6, range(0, 5)), (3, 6, range(2, 5)), (6, 6, range(2, 6))]
        """
        text, room = self.total - self.lead - self.tail, limit - self.lead - self.tail
        found, start, known = [], 0, -self.lead
        while True:
            stop = min(start + room, text)
            last = self.lead + stop - start + (self.tail if stop == text else 0)
            rows = range(self.lead + known - start, last)
            found.append(Window(start, self.lead + stop - start + self.tail, rows))
            if stop == text:
                return tuple(found)
            start, known = start + stride, stop

    def spans(self, window: Window) -> Iterator[tuple[range, int]]:
        """Yield runs of a window's tokens, and how far each stands further on in the whole text."""
        end = window.length - self.tail
        yield range(0, self.lead), 0
        yield range(self.lead, end), window.shift
        yield range(end, window.length), self.total - window.length


@dataclass(frozen=True)
class StridedSource:
    """A model and a long text in windows.

    Args:
        first: The model with the first window, and the notes on the whole.
        inputs: The forward pass's tensors for the whole text ``(1, total)``.
        tokens: Those of the whole text.
    """

    first: PretrainedSource
    inputs: Mapping[str, Tensor]
    tokens: Tokens
    frame: Frame
    windows: tuple[Window, ...]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention that a pass has."""
        return self.first.kinds

    def depth(self, kind: Kind) -> int:
        """Return the number of layers of the stack that has this kind of attention."""
        return self.first.depth(kind)

    def axes(self, kind: Kind) -> tuple[Tokens, Tokens]:
        """Return the query and key tokens: the whole text's."""
        return self.tokens, self.tokens

    def run(self, observers: Sequence[Observer]) -> Run:
        """Run forward over each window that has a row of those asked for.

        Raises:
            CaptureError: The model's attention cannot be seen, or a self-check failed.
            UsageError: An observer asked for what is not there.
        """
        placed = [_Placed(observer, self.frame, self.windows[0]) for observer in observers]
        runs: list[Run] = []
        for window in self.windows:
            for one in placed:
                one.window = window
            if not runs or any(one.wants_rows() for one in placed):
                runs.append(self._source(window).run(placed))
        whole = dict.fromkeys(self.kinds, self.tokens)
        reports = joined_reports(report for run in runs for report in run.reports)
        return replace(runs[0], queries=whole, keys=whole, reports=tuple(reports))

    def _source(self, window: Window) -> PretrainedSource:
        places = [place + shift for span, shift in self.frame.spans(window) for place in span]
        tokens = dict.fromkeys(self.kinds, tuple(self.tokens[place] for place in places))
        inputs = {name: tensor[:, places] for name, tensor in self.inputs.items()}
        return replace(
            self.first, prepared=replace(self.first.prepared, inputs=inputs, queries=tokens, keys=tokens)
        )


def stride_over(
    loaded: Loaded, text: str, stride: int, *, verify: bool = True, fast: bool = False
) -> PretrainedSource | StridedSource:
    """Make a text of any length ready for a model, in windows where it is longer than the model reads.

    Args:
        stride: By how many tokens each window advances.
        fast: See `PretrainedSource`.

    Raises:
        UsageError: The text is empty, the model takes none or is an encoder–decoder, or the stride leaves gaps.
    """
    check_takes_text(loaded, text)
    if loaded.model.config.is_encoder_decoder:
        raise UsageError(
            f"--stride: {loaded.name} ({loaded.family}) is an encoder–decoder, which reads its text at once",
            "--truncate cuts the text",
        )
    inputs, tokens, _ = encode(loaded, text, whole=True)
    kind, limit = loaded.kind, token_limit(loaded)
    first = PretrainedSource(loaded, Prepared(inputs, {kind: tokens}, {kind: tokens}), verify, fast=fast)
    if len(tokens) <= limit:
        return first
    frame = _frame(loaded, text, inputs["input_ids"][0])
    _check_stride(stride, limit, frame, tokens)
    windows = frame.windows(limit, stride)
    notes = (_note(windows, limit, stride, frame, tokens),)
    # A block of a window is as wide as the whole text where special tokens stand around it.
    block_bytes = BLOCK_BYTES * limit // len(tokens) if frame.lead or frame.tail else BLOCK_BYTES
    first = replace(first, prepared=replace(first.prepared, notes=notes), block_bytes=block_bytes)
    return StridedSource(first, inputs, tokens, frame, windows)


def _frame(loaded: Loaded, text: str, ids: Tensor) -> Frame:
    """Find the special tokens around a text: what the tokenizer adds to it."""
    bare = tokenize(loaded, text=text, add_special_tokens=False)["input_ids"]
    added = len(ids) - len(bare)
    whole = ids.tolist()
    leads = (lead for lead in range(added + 1) if whole[lead : lead + len(bare)] == bare)
    lead = next(leads, 0)
    return Frame(len(ids), lead, added - lead)


def _check_stride(stride: int, limit: int, frame: Frame, tokens: Tokens) -> None:
    room = limit - frame.lead - frame.tail
    if stride > room:
        around = _names(frame, tokens)
        less = f" less {around}" if around else ""
        raise UsageError(
            f"--stride {stride:,} would leave tokens out: a window holds {room:,} (the model's {limit:,}{less})",
            f"--stride {max(room // 2, 1)} reads each token with at least half a window before it",
        )


def _note(windows: Sequence[Window], limit: int, stride: int, frame: Frame, tokens: Tokens) -> str:
    around = _names(frame, tokens)
    own = f"; {around}: each window's own" if around else ""
    return (
        f"read in {len(windows)} windows of up to {limit:,} tokens that advance by {stride:,}: a row is of the first "
        f"window with its token, and what that did not hold is masked{own}"
    )


def _names(frame: Frame, tokens: Tokens) -> str:
    around = (*tokens[: frame.lead], *tokens[frame.total - frame.tail :])
    return " and ".join(token.label for token in around)


@dataclass
class _Placed:
    """Shows an observer the rows of the window that runs, at their places in the whole text.

    A layer is asked about once, though it runs in each window.
    """

    observer: Observer
    frame: Frame
    window: Window
    _requests: dict[AttentionLayer, Request | None] = field(default_factory=dict)

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask the observer, and give what it wants of the window that runs."""
        if layer not in self._requests:
            self._requests[layer] = self.observer.request(layer)
        wanted = self._requests[layer]
        return None if wanted is None else replace(wanted, rows=self._rows(wanted))

    @property
    def sought(self) -> frozenset[tuple[Kind, int]]:
        """What the observer looks for; none, as an attribute, where it does not say."""
        return cast(LayerObserver, self.observer).sought

    def wants_rows(self) -> bool:
        """Return whether the observer wants any row that the window has to give."""
        return any(len(self._rows(wanted)) for wanted in self._requests.values() if wanted is not None)

    def _rows(self, wanted: Request) -> range:
        if wanted.rows is None:
            return self.window.rows
        shift = self.window.shift
        return _common(self.window.rows, range(wanted.rows.start - shift, wanted.rows.stop - shift))

    def update(self, block: WeightBlock) -> None:
        """Pass on the rows that are this window's to give."""
        rows = _common(block.rows, self.window.rows)
        if rows:
            self.observer.update(self._moved(_rows_of(block, rows), rows))

    def _moved(self, block: WeightBlock, rows: range) -> WeightBlock:
        shift = self.window.shift
        placed = range(rows.start + shift, rows.stop + shift)
        parts = [(_common(block.keys, span), shift) for span, shift in self.frame.spans(self.window)]
        parts = [(keys, shift) for keys, shift in parts if keys]
        if len({shift for _, shift in parts}) == 1:
            return replace(block, rows=placed, first_key=block.first_key + parts[0][1])
        shape = (*block.weights.shape[:-1], self.frame.total)
        weights = block.weights.new_zeros(shape)
        mask = block.allowed
        if mask is None:
            mask = torch.ones((1, 1, 1, len(block.keys)), dtype=torch.bool, device=weights.device)
        allowed = mask.new_zeros((*mask.shape[:-1], self.frame.total))
        for keys, by in parts:
            there = slice(keys.start + by, keys.stop + by)
            here = slice(keys.start - block.first_key, keys.stop - block.first_key)
            weights[..., there], allowed[..., there] = block.weights[..., here], mask[..., here]
        return replace(block, rows=placed, weights=weights, allowed=allowed, first_key=0, scores=None)


def _rows_of(block: WeightBlock, rows: range) -> WeightBlock:
    """Return some rows of a block."""
    if rows == block.rows:
        return block
    part = slice(rows.start - block.rows.start, rows.stop - block.rows.start)
    allowed = block.allowed
    return replace(
        block,
        rows=rows,
        weights=block.weights[:, :, part],
        allowed=allowed if allowed is None or allowed.shape[2] == 1 else allowed[:, :, part],
        scores=None if block.scores is None else block.scores[:, :, part],
        sums=None if block.sums is None else block.sums[:, :, part],
    )


def _common(a: range, b: range) -> range:
    start = max(a.start, b.start)
    return range(start, max(start, min(a.stop, b.stop)))
