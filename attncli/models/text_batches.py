"""Texts that share a forward pass: padded to one length, and each one's observers shown what is its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from attncli.errors import CaptureError
from attncli.models.loading import Loaded
from attncli.models.prepared_text import Prepared, prepare
from attncli.models.pretrained import PretrainedSource
from attncli.models.tokens import positions
from attncli.record import KINDS, AttentionLayer, Kind, Observer, Request, Run, Tokens, WeightBlock

_TOKEN_IDS = ("input_ids", "decoder_input_ids")


@dataclass(frozen=True)
class OneOfMany:
    """A source with one text in it; all texts have the same model."""

    source: PretrainedSource
    prepared: Prepared

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention that the pass will have."""
        return tuple(kind for kind in KINDS if kind in self.prepared.queries)

    def depth(self, kind: Kind) -> int:
        """Return the number of layers with a kind of attention."""
        return self.source.depth(kind)

    def axes(self, kind: Kind) -> tuple[Tokens, Tokens]:
        """Return query and key tokens."""
        return self.prepared.queries[kind], self.prepared.keys[kind]

    def run(self, observers: Sequence[Observer]) -> Run:
        """Run forward once, with this text alone."""
        self.source.prepared = self.prepared
        return self.source.run(observers)


@dataclass
class TextReader:
    """Reads texts with one model.

    Args:
        truncate: Whether texts that are too long are cut.
        verify: Whether a failed self-check is an error.
        fast: See `PretrainedSource`.
    """

    loaded: Loaded
    truncate: bool = False
    verify: bool = True
    fast: bool = False

    def __post_init__(self) -> None:
        self._source = PretrainedSource(self.loaded, Prepared({}, {}, {}), self.verify, fast=self.fast)

    def open(self, text: str, pair: str | None = None) -> OneOfMany:
        """Make a text ready.

        Raises:
            AttnCliError: The model does not take it.
        """
        return OneOfMany(self._source, prepare(self.loaded, text, pair, truncate=self.truncate))

    def run(self, texts: Sequence[OneOfMany], observers: Sequence[Sequence[Observer]]) -> list[Run]:
        """Run texts together, and show each one's observers what they would be shown if it were alone.

        Raises:
            CaptureError: The texts cannot share a pass, attention cannot be seen, or a self-check failed.
        """
        prepared = [text.prepared for text in texts]
        self._source.prepared = _joined(prepared, self.loaded.tokenizer.pad_token_id or 0)
        run = self._source.run([_OfEachText(observers, prepared)])
        common = len(self.loaded.notes)
        return [
            replace(
                run,
                queries=one.queries,
                keys=one.keys,
                notes=(*run.notes[:common], *one.notes, *run.notes[common:]),
            )
            for one in prepared
        ]


def _joined(texts: Sequence[Prepared], padding: int) -> Prepared:
    """Pad texts on the right and put them into one input.

    Raises:
        CaptureError: Their inputs are not rows of tokens.
    """
    inputs = [_with_masks(text.inputs) for text in texts]
    if any(one.keys() != inputs[0].keys() for one in inputs):
        raise CaptureError("these texts do not have the same inputs")
    made = {}
    for name in inputs[0]:
        rows, filler = [one[name] for one in inputs], padding if name in _TOKEN_IDS else 0
        if any(row.dim() != 2 for row in rows):
            raise CaptureError(f"{name} cannot be padded")
        longest = max(row.shape[1] for row in rows)
        made[name] = torch.cat([pad(row, (0, longest - row.shape[1]), value=filler) for row in rows])
    queries, keys = (
        {kind: positions(max(len(axes[kind]) for axes in sides)) for kind in sides[0]}
        for sides in ([text.queries for text in texts], [text.keys for text in texts])
    )
    return Prepared(made, queries, keys, encoder_only=texts[0].encoder_only)


def _with_masks(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return inputs in which padding can be told from tokens."""
    made = dict(inputs)
    for name, mask in zip(_TOKEN_IDS, ("attention_mask", "decoder_attention_mask"), strict=True):
        if name in made and mask not in made:
            made[mask] = torch.ones_like(made[name])
    return made


class _OfEachText:
    """Shows the observers of each text of a batch its own rows and keys.

    Args:
        observers: Those of each text.
        texts: For the lengths of their axes.
    """

    def __init__(self, observers: Sequence[Sequence[Observer]], texts: Sequence[Prepared]) -> None:
        self._observers, self._texts = observers, texts
        self._asking: list[list[Observer]] = []

    @property
    def sought(self) -> frozenset[tuple[Kind, int]]:
        """The kind and layer of every site that is wanted; not there where an observer does not say."""
        return frozenset().union(*(one.sought for its in self._observers for one in its))  # type: ignore[attr-defined]

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for what any of the observers wants."""
        asked = [[(one, one.request(layer)) for one in its] for its in self._observers]
        self._asking = [[one for one, request in its if request is not None] for its in asked]
        requests = [request for its in asked for _, request in its if request is not None]
        if not requests:
            return None
        heads: set[int] = set()
        rows = range(0)
        for request in requests:
            heads |= set(range(layer.heads) if request.heads is None else request.heads)
            if request.rows is None:
                return Request(tuple(sorted(heads)) if all(r.heads for r in requests) else None)
            if request.rows:
                both = (rows, request.rows) if rows else (request.rows,)
                rows = range(min(part.start for part in both), max(part.stop for part in both))
        return Request(tuple(sorted(heads)), rows)

    def update(self, block: WeightBlock) -> None:
        """Pass a block on, a text at a time."""
        kind = block.layer.kind
        for place, observers in enumerate(self._asking):
            if not observers:
                continue
            text = self._texts[place]
            part = _part_of(block, place, len(text.queries[kind]), len(text.keys[kind]))
            if part is not None:
                for observer in observers:
                    observer.update(part)


def _part_of(block: WeightBlock, text: int, queries: int, keys: int) -> WeightBlock | None:
    """Return a text's own part of a block, without padding; None where there is none."""
    rows = range(block.rows.start, min(block.rows.stop, queries))
    columns = min(block.keys.stop, keys) - block.first_key
    if not rows or columns <= 0:
        return None
    allowed = block.allowed
    if allowed is not None:
        allowed = _of_text(allowed, text, len(rows))[..., :columns]
        if bool(allowed.all()):
            allowed = None
    return replace(
        block,
        rows=rows,
        weights=_of_text(block.weights, text, len(rows))[..., :columns],
        allowed=allowed,
        scores=None if block.scores is None else _of_text(block.scores, text, len(rows))[..., :columns],
        sums=None if block.sums is None else block.sums[text : text + 1, :, : len(rows)],
    )


def _of_text(values: Tensor, text: int, rows: int) -> Tensor:
    """Return one text's rows of what is the same, or not, for all texts and rows."""
    mine = values if values.shape[0] == 1 else values[text : text + 1]
    return mine if mine.shape[2] == 1 else mine[:, :, :rows]
