"""Many texts through one pretrained model: cut into tokens, padded to batches, watched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor

from attncli.batch import Axis, Batch, Shuffled
from attncli.errors import ModelError
from attncli.inputs.corpus import BadLine, Line
from attncli.models.loading import Loaded
from attncli.models.prepared_text import (
    Prepared,
    check_takes_text,
    start_token,
    token_limit,
    tokenize,
    without_row,
)
from attncli.models.pretrained import PretrainedSource
from attncli.models.python_tokenizers import read_ids
from attncli.models.tokens import positions
from attncli.record import Kind, Observer, Run
from attncli.segmentation import is_punctuation


@dataclass(frozen=True, slots=True)
class Side:
    """One text as a model reads it.

    Args:
        special: Which of the ids the tokenizer has added.
        types: Which of two sentences each belongs to; None where the model has no such thing.
    """

    ids: tuple[int, ...]
    special: tuple[bool, ...]
    types: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text of a corpus, ready to be put into a batch.

    Args:
        ordinal: Which of the corpus' texts it is, from 0: what is drawn by chance for it depends on nothing else.
        source: What the model reads, or its encoder.
        target: What the decoder of an encoder–decoder reads.
        size: Bytes of the line, for progress.
        line: The line's number, from 1.
    """

    ordinal: int
    source: Side
    target: Side | None = None
    size: int = 0
    line: int = 0

    @property
    def length(self) -> int:
        """Number of tokens."""
        return len(self.source.ids) + (0 if self.target is None else len(self.target.ids))

    @property
    def longest(self) -> int:
        """Number of tokens along its longest axis."""
        return max(len(self.source.ids), 0 if self.target is None else len(self.target.ids))


@dataclass(frozen=True)
class ModelBatch:
    """One forward pass.

    Args:
        inputs: What the model is given.
        batches: What its texts are made of, by kind of attention.
        shuffled: Where the tokens have come from, by kind, where they were shuffled; the batches tell of the true text.
        texts: How many there are.
        tokens: How many tokens they have together.
        size: Bytes of their lines.
    """

    inputs: Mapping[str, Tensor]
    batches: Mapping[Kind, Batch]
    shuffled: Mapping[Kind, Shuffled] | None
    texts: int
    tokens: int
    size: int


@dataclass(frozen=True, slots=True)
class RowRule:
    """Which rows count, besides those of special tokens and padding, which never do.

    Args:
        first: Position of the first that counts; by default 2 for decoders, whose earlier rows see one or two keys,
            and 0 otherwise.
        last: How many rows at the end do not count.
    """

    first: int | None = None
    last: int = 0

    def first_for(self, kind: Kind) -> int:
        """Return the first position that counts in a kind of attention."""
        return self.first if self.first is not None else (2 if kind == "decoder" else 0)


@dataclass
class BatchedModel:
    """A pretrained model that reads batches of texts.

    Args:
        paired: Whether each text comes with a second one: a second sentence, or the target of an encoder–decoder.
        padding: On which side shorter texts are padded; no number depends on it.
        truncate: Whether texts that are too long are cut.
        fast: See `PretrainedSource`.
    """

    loaded: Loaded
    rule: RowRule = RowRule()
    paired: bool = False
    padding: Literal["right", "left"] = "right"
    truncate: bool = False
    verify: bool = True
    fast: bool = False
    cut: int = 0
    _marks: dict[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model = self.loaded.model
        check_takes_text(self.loaded)
        self.two_stacks = bool(model.config.is_encoder_decoder)
        self.kinds: tuple[Kind, ...] = ("encoder", "decoder", "cross") if self.paired else ("encoder",)
        if not self.two_stacks:
            self.kinds = (self.loaded.kind,)
        nothing = Prepared({}, {}, {}, encoder_only=self.two_stacks and not self.paired)
        self._source = PretrainedSource(self.loaded, nothing, self.verify, fast=self.fast)
        self._start = start_token(self.loaded) if self.two_stacks and self.paired else None

    def depth(self, kind: Kind) -> int:
        """Return the number of layers of the stack that has this kind of attention."""
        return self._source.depth(kind)

    def encode(self, lines: Sequence[tuple[Line, str | None]], first_ordinal: int) -> list[Encoded | BadLine]:
        """Cut texts into tokens; say which cannot be read.

        Args:
            lines: Texts, each with its second one where they are paired.
            first_ordinal: How many texts of the corpus went before.
        """
        if not lines:
            return []
        texts = [line.text for line, _ in lines]
        others = [other for _, other in lines] if self.paired else None
        sources = self._sides(texts, None if self.two_stacks else others)
        targets: Sequence[Side | str | None] = [None] * len(lines)
        if self.two_stacks and others is not None:
            targets = [self._decoder_side(side) for side in self._sides(others, None, target=True)]
        found: list[Encoded | BadLine] = []
        ordinal = first_ordinal
        for (line, _), source, target in zip(lines, sources, targets, strict=True):
            wrong = source if isinstance(source, str) else target if isinstance(target, str) else None
            if wrong is not None or isinstance(source, str) or isinstance(target, str):
                found.append(BadLine(line.number, str(wrong)))
                continue
            found.append(Encoded(ordinal, source, target, len(line.text.encode()) + 1, line.number))
            ordinal += 1
        return found

    def feed(self, texts: Sequence[Encoded], shuffle: int | None = None) -> ModelBatch:
        """Put texts into a batch.

        Args:
            shuffle: A seed: shuffle the tokens between the special ones, each text in its own way.
        """
        source = self._axis([text.source for text in texts])
        sides = [text.target for text in texts if text.target is not None]
        target = self._axis(sides) if sides else None
        orders = None if shuffle is None else self._orders(texts, shuffle)
        inputs = self._inputs(source, [text.source for text in texts], orders and orders[0])
        if target is not None:
            inputs["decoder_input_ids"] = _gathered(target.ids, orders and orders[1]).clamp(min=0)
            inputs["decoder_attention_mask"] = target.present.long()
        by_kind = {kind: (target if kind in ("decoder", "cross") and target else source,
                          target if kind == "decoder" and target else source)
                   for kind in self.kinds}  # fmt: skip
        batches = {kind: self._batch(kind, *axes) for kind, axes in by_kind.items()}
        shuffled = None
        if orders is not None:
            sides_orders = {
                id(source): orders[0],
                id(target): orders[1] if orders[1] is not None else orders[0],
            }
            shuffled = {
                kind: Shuffled(sides_orders[id(rows)], sides_orders[id(keys)])
                for kind, (rows, keys) in by_kind.items()
            }
        tokens, size = sum(text.length for text in texts), sum(text.size for text in texts)
        return ModelBatch(inputs, batches, shuffled, len(texts), tokens, size)

    def run(self, feed: ModelBatch, observers: Sequence[Observer]) -> Run:
        """Run a batch and show the observers what they ask for.

        Raises:
            CaptureError: The model's attention cannot be seen, or a self-check failed.
        """
        axes = {
            kind: (_positions(batch.queries.ids.shape[1]), _positions(batch.keys.ids.shape[1]))
            for kind, batch in feed.batches.items()
        }
        queries, keys = ({kind: pair[side] for kind, pair in axes.items()} for side in (0, 1))
        self._source.prepared = replace(self._source.prepared, inputs=feed.inputs, queries=queries, keys=keys)
        return self._source.run(observers)

    def _sides(
        self, texts: Sequence[str | None], others: Sequence[str | None] | None, *, target: bool = False
    ) -> list[Side | str]:
        """Cut texts into tokens; what cannot be read gives the reason."""
        try:
            return self._cut_apart(texts, others, target)
        except ModelError as error:
            if len(texts) == 1:
                return [error.message]
        alone = [[other] for other in others] if others is not None else [None] * len(texts)
        return [
            self._sides([text], other, target=target)[0] for text, other in zip(texts, alone, strict=True)
        ]

    def _cut_apart(
        self, texts: Sequence[str | None], others: Sequence[str | None] | None, target: bool
    ) -> list[Side | str]:
        limit = token_limit(self.loaded, target=target)
        given: dict[str, Any] = (
            {"text_target": list(texts)} if target else {"text": list(texts), "text_pair": others}
        )
        made = tokenize(self.loaded, **given, return_special_tokens_mask=True)
        if self.truncate and any(len(ids) > limit for ids in made["input_ids"]):
            self.cut += sum(len(ids) > limit for ids in made["input_ids"])
            made = tokenize(
                self.loaded, **given, return_special_tokens_mask=True, truncation=True, max_length=limit
            )
        types = made.get("token_type_ids") or [None] * len(texts)
        named = set(self.loaded.tokenizer.all_special_ids) - {self.loaded.tokenizer.unk_token_id}
        sides: list[Side | str] = []
        for ids, special, kinds in zip(made["input_ids"], made["special_tokens_mask"], types, strict=True):
            if len(ids) > limit:
                sides.append(f"{len(ids):,} tokens; the model reads at most {limit:,}")
            elif not ids:
                sides.append("no tokens for this model")
            elif (lacking := without_row(self.loaded, ids, target=target)) is not None:
                sides.append(lacking)
            else:
                marked = tuple(bool(mark) or one in named for one, mark in zip(ids, special, strict=True))
                sides.append(Side(tuple(ids), marked, None if kinds is None else tuple(kinds)))
        return sides

    def _decoder_side(self, side: Side | str) -> Side | str:
        """Return what the decoder reads to predict a target: a start token, then the target without its last token."""
        if isinstance(side, str) or side.ids[0] == self._start:
            return side
        assert self._start is not None
        return Side((self._start, *side.ids[:-1]), (True, *side.special[:-1]))

    def _axis(self, sides: Sequence[Side]) -> Axis:
        length = max(len(side.ids) for side in sides)
        ids = torch.full((len(sides), length), -1)
        special = torch.zeros(len(sides), length, dtype=torch.bool)
        for row, side in enumerate(sides):
            place = self._place(len(side.ids), length)
            ids[row, place] = torch.tensor(side.ids)
            special[row, place] = torch.tensor(side.special)
        device = self.loaded.model.device
        marks = self._punctuation(ids) & ~special
        return Axis(ids.to(device), (ids >= 0).to(device), special.to(device), marks.to(device))

    def _place(self, count: int, length: int) -> slice:
        return slice(0, count) if self.padding == "right" else slice(length - count, length)

    def _punctuation(self, ids: Tensor) -> Tensor:
        """Return which ids are nothing but punctuation marks."""
        new = [one for one in torch.unique(ids).tolist() if one >= 0 and one not in self._marks]
        if new:
            for token in read_ids(self.loaded.tokenizer, new):
                assert token.id is not None
                self._marks[token.id] = not token.special and is_punctuation(token.text)
        marks = {one for one, is_mark in self._marks.items() if is_mark}
        return torch.isin(ids, torch.tensor(sorted(marks), dtype=ids.dtype))

    def _inputs(self, axis: Axis, sides: Sequence[Side], order: Tensor | None) -> dict[str, Tensor]:
        padding = self.loaded.tokenizer.pad_token_id or 0
        ids = _gathered(axis.ids, order)
        inputs = {
            "input_ids": torch.where(axis.present, ids, padding),
            "attention_mask": axis.present.long(),
        }
        if sides[0].types is not None:
            types = torch.zeros_like(axis.ids)
            for row, side in enumerate(sides):
                assert side.types is not None
                types[row, self._place(len(side.types), types.shape[1])] = torch.tensor(side.types).to(types)
            inputs["token_type_ids"] = types
        if self.padding == "left":
            inputs["position_ids"] = (axis.present.long().cumsum(dim=1) - 1).clamp(min=0)
        return inputs

    def _batch(self, kind: Kind, queries: Axis, keys: Axis) -> Batch:
        """Return which rows count: content tokens from some position on."""
        place = queries.present.long().cumsum(dim=1) - 1
        left = queries.present.sum(dim=1, keepdim=True) - place
        rows = (
            queries.present
            & ~queries.special
            & (place >= self.rule.first_for(kind))
            & (left > self.rule.last)
        )
        return Batch(queries, keys, rows)

    def _orders(self, texts: Sequence[Encoded], seed: int) -> tuple[Tensor, Tensor | None]:
        sources = self._order([text.source for text in texts], texts, seed)
        targets = [text.target for text in texts if text.target is not None]
        return sources, self._order(targets, texts, seed + 1) if targets else None

    def _order(self, sides: Sequence[Side], texts: Sequence[Encoded], seed: int) -> Tensor:
        """Return for each place the place of the token that goes there."""
        length = max(len(side.ids) for side in sides)
        order = torch.arange(length).repeat(len(sides), 1)
        for row, (side, text) in enumerate(zip(sides, texts, strict=True)):
            start = self._place(len(side.ids), length).start
            content = torch.tensor(
                [start + place for place, special in enumerate(side.special) if not special], dtype=torch.long
            )
            dice = torch.Generator().manual_seed(seed * 1_000_003 + text.ordinal)
            order[row, content] = content[torch.randperm(len(content), generator=dice)]
        return order.to(self.loaded.model.device)


def _gathered(ids: Tensor, order: Tensor | None) -> Tensor:
    return ids if order is None else ids.gather(1, order)


_positions = lru_cache(maxsize=4096)(positions)
