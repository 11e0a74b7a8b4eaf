"""The averages of every head over a corpus: all metrics of every row, added up batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from attncli.batch import Batch, Shuffled
from attncli.heads.metrics import weight_on_pairs, wide
from attncli.heads.metrics_of_block import Measures, attribute, batch_without_specials, evenly
from attncli.heads.pair_sums import Pairs, PairSums, same_mask, suits
from attncli.heads.running_sums import Numbers, RunningSums
from attncli.observers.block_parts import InLayers, Part, heads_in
from attncli.observers.selection import Selection
from attncli.observers.without_keys import without_keys
from attncli.record import AttentionLayer, Kind, Request, WeightBlock

EXCLUDED = "excluded"
"""Stands after the metrics: the weight that was left out with the special tokens."""


@dataclass
class LayerSums:
    """What was added up at one layer.

    Args:
        found: Of the texts themselves.
        chance: Of the same rows with their weight spread evenly.
        shuffled: Of texts whose tokens were shuffled, or of random tokens.
    """

    layer: AttentionLayer
    heads: tuple[int, ...]
    found: RunningSums
    chance: RunningSums
    shuffled: RunningSums

    def parts(self) -> tuple[RunningSums, RunningSums, RunningSums]:
        """Return the three, in the order in which files have them."""
        return self.found, self.chance, self.shuffled


@dataclass
class CorpusSums(InLayers):
    """Measures the chosen heads in every text of every batch, and keeps sums alone.

    Args:
        kind: Which attention of the model.
        layers: Which layers.
        heads: Which heads.
        depth: How many layers the model has, to resolve ``-1``.
        exclude_special: Whether special tokens are taken out of the keys, and the rest sums to 1 again.
    """

    kind: Kind
    measures: Measures
    layers: Selection
    heads: Selection
    depth: int
    exclude_special: bool = False
    by_layer: dict[int, LayerSums] = field(default_factory=dict)
    _batch: Batch | None = None
    _null: bool = False
    _former: Mapping[str, Pairs] = field(default_factory=dict)
    _open: _Open | None = None
    _even: _Even | None = None
    _pairs: PairSums | None = None
    _passed: list[_Open] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """What is counted, in the order of the tallies' metrics."""
        return (*self.measures.names, *([EXCLUDED] if self.exclude_special else []))

    def begin(self, batch: Batch, *, null: bool = False, shuffled: Shuffled | None = None) -> None:
        """Begin the next forward pass. What an earlier one has left without a `commit` is forgotten.

        Args:
            batch: The texts as they are.
            null: Whether the pass is of other tokens in their place: what it gives is a null.
            shuffled: Where those tokens have come from, if they are the same ones shuffled.
        """
        self._specials = batch.keys.special
        self._batch = batch_without_specials(batch) if self.exclude_special else batch
        self._null, self._even, self._open, self._pairs = null, None, None, None
        self._former = self._find_former(self._batch, shuffled) if null and shuffled else {}
        self._passed.clear()

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for the chosen heads and every row."""
        self._close()
        if not self.wants(layer):
            return None
        assert self._batch is not None
        heads = self.heads.of(layer)
        self._open = _Open(layer, heads, self._sums(len(heads)), self._sums(len(heads)))
        return Request(heads)

    def update(self, block: WeightBlock) -> None:
        """Measure a block."""
        assert self._open is not None and self._batch is not None
        dropped = None
        if self.exclude_special:
            block, dropped = without_keys(block, self._specials)
        place, part = heads_in(block, self._open.heads)
        self._add_rows(self._open.found, block, None if self._null else dropped, place, part)
        self._collect(self._open.found, block, place, part)
        if not self._null:
            self._add_even(block, place)

    def commit(self) -> None:
        """Take in what a whole pass has given."""
        self._close()
        even: dict[int, tuple[Numbers, Numbers]] = {}  # most layers share one
        for passed in self._passed:
            tallies = self._tallies(passed.layer, passed.heads)
            into = tallies.shuffled if self._null else tallies.found
            into.add(*self._of_texts(passed.found))
            if not self._null:
                if id(passed.even) not in even:
                    even[id(passed.even)] = self._of_texts(passed.even)
                tallies.chance.add(*even[id(passed.even)])
        self._passed.clear()

    def _tallies(self, layer: AttentionLayer, heads: tuple[int, ...]) -> LayerSums:
        if layer.index not in self.by_layer:
            empty = (RunningSums.empty(len(self.names), len(heads)) for _ in range(3))
            self.by_layer[layer.index] = LayerSums(layer, heads, *empty)
        return self.by_layer[layer.index]

    def _sums(self, heads: int) -> _Sums:
        assert self._batch is not None
        device = self._batch.rows.device
        shape = len(self.names), heads, self._batch.rows.shape[0]
        kind = wide(self._batch.rows)
        return _Sums(
            torch.zeros(shape, dtype=kind, device=device), torch.zeros(shape, dtype=kind, device=device)
        )

    def _add_rows(
        self, sums: _Sums, block: WeightBlock, dropped: Tensor | None, place: Part, part: Part
    ) -> None:
        """Add the numbers of a block's rows that count to each text's sums."""
        assert self._batch is not None
        names = self._asked()
        pairs = self._pairs_for(block)
        if pairs is not None:
            sums.add(self._places(pairs.names), place, pairs.sums(block)[:, part], pairs.counts)
            names = [name for name in names if name not in pairs.names]
        found = self.measures.rows(block, self._batch, names)
        if dropped is not None:
            found, names = torch.cat([found, dropped.unsqueeze(0)]), [*names, EXCLUDED]
        counted = self._batch.rows[:, block.rows.start : block.rows.stop]
        found = found.masked_fill(~counted.unsqueeze(1), torch.nan)
        for number, name in enumerate(names):
            if name in self._former:
                found[number] = weight_on_pairs(block, self._former[name])
        self._add(sums, found, place, part, self._places(names))

    def _asked(self) -> list[str]:
        """Return the metrics of rows that the pass is for: of other tokens not those held against chance alone."""
        names = self.measures.of_rows
        if not self._null:
            return list(names)
        return [
            name
            for name in names
            if name in self._former or attribute(name, "null") in ("places", "shuffled")
        ]

    def _find_former(self, batch: Batch, shuffled: Shuffled) -> dict[str, Pairs]:
        """Return the pairs in whose place a shuffled text has others, for metrics that are held against these."""
        return {
            name: former_neighbours(batch, shuffled, attribute(name, "offset"))
            for name in self.measures.of_rows
            if attribute(name, "null") == "pairs"
        }

    def _pairs_for(self, block: WeightBlock) -> PairSums | None:
        """Return the marks for a block's mask, which most layers share; None where they do not suit it."""
        assert self._batch is not None
        if not suits(block, self._batch):
            return None
        if self._pairs is None or not same_mask(self._pairs.allowed, block.allowed):
            self._pairs = PairSums.of(block, self._batch, self._asked(), self._former)
        return self._pairs if self._pairs is not None and self._pairs.fit(block) else None

    def _places(self, names: Sequence[str]) -> list[int]:
        """Return where metrics stand among the names."""
        return [self.names.index(name) for name in names]

    def _add(self, sums: _Sums, rows: Tensor, place: Part, part: Part, metrics: list[int]) -> None:
        """Add rows, ``(metrics, batch, heads, rows)``, to each text's sums.

        Args:
            metrics: Which ones the rows are of, as places among the names.
        """
        rows = rows[:, :, part].transpose(1, 2)
        there = ~rows.isnan()
        values = torch.where(there, rows, 0.0).sum(dim=-1, dtype=sums.values.dtype)
        sums.add(metrics, place, values, there.sum(dim=-1))

    def _collect(self, sums: _Sums, block: WeightBlock, place: Part, part: Part) -> None:
        """Add to what the metrics of texts gather."""
        assert self._batch is not None
        for name, metric in zip(self.measures.of_texts, self.measures.text_metrics, strict=True):
            here = metric.collect(block, self._batch)[:, part]
            if name not in sums.texts:
                sums.texts[name] = here.new_zeros(here.shape[0], sums.values.shape[1], here.shape[2])
            sums.texts[name][:, place] += here

    def _add_even(self, block: WeightBlock, place: Part) -> None:
        """Add what chance gives; of whole short texts it is the same in every layer with the same mask."""
        assert self._open is not None and self._batch is not None
        every = _is_whole(block, self._batch)
        if every and self._even is not None and self._even.fits(block):
            self._open.even = self._even.sums
            return
        even, all_heads = evenly(block), slice(None)
        dropped = torch.zeros_like(even.weights[..., 0]) if self.exclude_special else None
        self._add_rows(self._open.even, even, dropped, place, all_heads)
        self._collect(self._open.even, even, place, all_heads)
        if every and len(block.heads) == len(self._open.heads):
            self._even = _Even(block.allowed, self._open.even)

    def _close(self) -> None:
        if self._open is not None:
            self._passed.append(self._open)
            self._open = None

    def _of_texts(self, sums: _Sums) -> tuple[Numbers, Numbers]:
        """Return each text's sums and counts, ``(metrics, heads, texts)``."""
        assert self._batch is not None
        values, counts = (numbers.cpu().double().numpy() for numbers in (sums.values, sums.counts))
        for place, name in enumerate(self.measures.of_texts, len(self.measures.of_rows)):
            if name not in sums.texts:
                continue
            metric = self.measures.text_metrics[place - len(self.measures.of_rows)]
            found = metric.finish(sums.texts[name], self._batch).T.cpu().double().numpy()
            values[place], counts[place] = np.nan_to_num(found), ~np.isnan(found)
        return values, counts


def former_neighbours(batch: Batch, shuffled: Shuffled, offset: int) -> Pairs:
    """Return where rows and the keys that stood beside them are after the shuffling: texts, rows, keys.

    Args:
        offset: From a row to its key in the true text.
    """
    texts, places = batch.rows.nonzero(as_tuple=True)
    keys = places + offset
    inside = (keys >= 0) & (keys < batch.keys.ids.shape[1])
    texts, places, keys = texts[inside], places[inside], keys[inside]
    there = batch.keys.present[texts, keys]
    texts, places, keys = texts[there], places[there], keys[there]
    now_query, now_key = shuffled.queries.argsort(dim=1), shuffled.keys.argsort(dim=1)
    return texts, now_query[texts, places], now_key[texts, keys]


@dataclass
class _Sums:
    """Sums of each text of a pass: ``(metrics, heads, batch)``, and what the metrics of texts have gathered."""

    values: Tensor
    counts: Tensor
    texts: dict[str, Tensor] = field(default_factory=dict)

    def add(self, metrics: Sequence[int], heads: Part, values: Tensor, counts: Tensor) -> None:
        """Add to some metrics of some heads; of size 1 along the heads where it is the same for all."""
        places = torch.tensor(metrics, device=self.values.device)
        for into, added in ((self.values, values), (self.counts, counts)):
            picked = into[:, heads]  # a copy where the heads do not follow each other
            picked.index_add_(0, places, added.to(into).expand(-1, picked.shape[1], -1))
            if not isinstance(heads, slice):
                into[:, heads] = picked


@dataclass
class _Open:
    """A layer that passes by."""

    layer: AttentionLayer
    heads: tuple[int, ...]
    found: _Sums
    even: _Sums


@dataclass(frozen=True)
class _Even:
    """What chance gave in a layer, for the next with the same mask."""

    allowed: Tensor | None
    sums: _Sums

    def fits(self, block: WeightBlock) -> bool:
        """Return whether a block's rows may attend to just the same keys."""
        return same_mask(block.allowed, self.allowed)


def _is_whole(block: WeightBlock, batch: Batch) -> bool:
    return len(block.rows) == batch.rows.shape[1] and len(block.keys) == batch.keys.ids.shape[1]
