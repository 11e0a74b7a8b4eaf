"""Sources that read one text at a time, as a corpus run wants them: the from-scratch model, trained or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from attncli.batch import Axis, Batch, Shuffled
from attncli.errors import UsageError
from attncli.inputs.corpus import BadLine, Line
from attncli.models.batches import Encoded, ModelBatch, RowRule, Side
from attncli.models.opening import Opened
from attncli.models.tokens import tokens_from_ids
from attncli.models.trained import TrainedSource
from attncli.record import Kind, Observer, Run, Tokens
from attncli.segmentation import is_punctuation

Open = Callable[[str, str | None], Opened]


class TextByText:
    """Opens its source anew for each text.

    Args:
        open_text: Opens a source with a text in it, and a second one.
        example: A text to learn from which kinds of attention there are.
    """

    def __init__(self, open_text: Open, rule: RowRule, example: tuple[str, str | None]) -> None:
        self._open, self._rule = open_text, rule
        first = open_text(*example)
        self.kinds: tuple[Kind, ...] = first.kinds
        self._depths = {kind: first.depth(kind) for kind in first.kinds}
        self._texts: dict[int, tuple[str, str | None]] = {}
        self.cut = 0

    def depth(self, kind: Kind) -> int:
        """Return the number of layers with a kind of attention."""
        return self._depths[kind]

    def encode(self, lines: Sequence[tuple[Line, str | None]], first_ordinal: int) -> list[Encoded | BadLine]:
        """Open each text once, to see whether it can be read and how long it is."""
        self._texts.clear()
        found: list[Encoded | BadLine] = []
        ordinal = first_ordinal
        for line, other in lines:
            try:
                opened = self._open(line.text, other)
            except UsageError as error:
                found.append(BadLine(line.number, error.message))
                continue
            queries, keys = opened.axes(opened.kinds[-1])
            length = len(queries) if queries is keys else len(queries) + len(keys)
            self._texts[ordinal] = line.text, other
            nothing = Side((0,) * length, (False,) * length)
            found.append(Encoded(ordinal, nothing, None, len(line.text.encode()) + 1, line.number))
            ordinal += 1
        return found

    def feed(self, texts: Sequence[Encoded], shuffle: int | None = None) -> ModelBatch:
        """Take one text; a shuffled one is its words in another order."""
        (encoded,) = texts
        text, other = self._texts[encoded.ordinal]
        opened = self._open(text, other)
        axes = {kind: axes_of(*opened.axes(kind)) for kind in self.kinds}
        batches = {kind: Batch(*pair, _rows(pair[0], kind, self._rule)) for kind, pair in axes.items()}
        shuffled = None
        if shuffle is not None:
            orders = {id(axis): order_of(axis, shuffle + encoded.ordinal)
                      for pair in axes.values() for axis in pair}  # fmt: skip
            shuffled = {
                kind: Shuffled(orders[id(rows)], orders[id(keys)]) for kind, (rows, keys) in axes.items()
            }
            self._next = self._reordered(opened, other, shuffled)
        else:
            self._next = opened
        return ModelBatch({}, batches, shuffled, 1, encoded.length, encoded.size)

    def _reordered(self, opened: Opened, other: str | None, orders: Mapping[Kind, Shuffled]) -> Opened:
        """Return the source with its tokens in another order, each side's by itself."""
        if isinstance(opened, TrainedSource):
            target = orders["decoder"].queries[0].tolist() if opened.target_tokens is not None else None
            return opened.reordered(orders[self.kinds[-1]].keys[0].tolist(), target)
        text = _in_order(opened.axes(self.kinds[0])[1], orders[self.kinds[0]].keys)
        pair = None if other is None else _in_order(opened.axes("decoder")[0], orders["decoder"].queries)
        return self._open(text, pair)

    def run(self, feed: ModelBatch, observers: Sequence[Observer]) -> Run:
        """Run the text that was taken last."""
        return self._next.run(observers)


class ShippedModel:
    """A model that comes with attncli, and reads tokens by their ids; of a translator, its encoder."""

    cut = 0

    def __init__(self, name: str, rule: RowRule, *, verify: bool = True) -> None:
        self.rule, self.source = rule, TrainedSource(name, "a", verify=verify)
        self.kinds = self.source.kinds[:1]

    def depth(self, kind: Kind) -> int:
        """Return the number of layers with a kind of attention."""
        return self.source.depth(kind)

    def encode(self, lines: Sequence[object], first_ordinal: int) -> list[Encoded | BadLine]:
        """Read no texts: a probe brings its tokens."""
        raise NotImplementedError

    def feed(self, texts: Sequence[Encoded], shuffle: int | None = None) -> ModelBatch:
        """Take one sequence."""
        (encoded,) = texts
        ids = torch.tensor([encoded.source.ids])
        axis = _axis(tokens_from_ids(self.source.tokenizer, encoded.source.ids))
        batches = {kind: Batch(axis, axis, _rows(axis, kind, self.rule)) for kind in self.kinds}
        return ModelBatch({"input_ids": ids}, batches, None, 1, encoded.length, encoded.size)

    def run(self, feed: ModelBatch, observers: Sequence[Observer]) -> Run:
        """Run a sequence."""
        tokens = tokens_from_ids(self.source.tokenizer, feed.inputs["input_ids"][0].tolist())
        return self.source.over(tokens).run(observers)


def _rows(axis: Axis, kind: Kind, rule: RowRule) -> torch.Tensor:
    place, length = torch.arange(axis.ids.shape[1]), axis.ids.shape[1]
    return ~axis.special & (place >= rule.first_for(kind)) & (place < length - rule.last)


def axes_of(queries: Tokens, keys: Tokens) -> tuple[Axis, Axis]:
    """Return what metrics know of the query and key tokens of one text."""
    rows = _axis(queries)
    return rows, rows if keys == queries else _axis(keys)


def _axis(tokens: Tokens) -> Axis:
    ids = [-1 if token.id is None else token.id for token in tokens]
    special = [token.special for token in tokens]
    marks = [not token.special and is_punctuation(token.text) for token in tokens]
    there = torch.ones(1, len(tokens), dtype=torch.bool)
    return Axis(torch.tensor([ids]), there, torch.tensor([special]), torch.tensor([marks]))


def order_of(axis: Axis, seed: int) -> torch.Tensor:
    """Return an order in which the special tokens stay."""
    length = axis.ids.shape[1]
    order, content = torch.arange(length), (~axis.special[0]).nonzero().squeeze(1)
    dice = torch.Generator().manual_seed(seed)
    order[content] = content[torch.randperm(len(content), generator=dice)]
    return order.unsqueeze(0)


def _in_order(tokens: Tokens, order: torch.Tensor) -> str:
    return " ".join(tokens[place].text for place in order[0].tolist() if not tokens[place].special)
