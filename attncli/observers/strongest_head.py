"""Which head has most to say of one row: the one that looks hardest at one other word."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Bool

from attncli.errors import CaptureError, UsageError
from attncli.record import AttentionLayer, Kind, Request, Token, Tokens, WeightBlock


@dataclass(frozen=True, slots=True)
class Told:
    """A head, and the key that the row looks hardest at in it."""

    layer: int
    head: int
    key: Token
    weight: float
    heads: int
    where: str = ""

    def why(self) -> str:
        """Return why this head."""
        return (
            f"layer {self.layer} head {self.head}: of {self.heads} heads the one that gives a single word{self.where} "
            f"the most weight, {self.weight:.2f} to “{self.key.label}”; --layer and --head name another"
        )


@dataclass
class TellingHead:
    """Keeps, of each head, the most weight that one row gives to a word that is not its neighbour.

    Special tokens and punctuation do not count, nor does a decoder's first token: there goes what a head has no use
    for. Neighbours do not count because heads that look at them do so whatever the words are. Where no other word is
    there, all count.

    Args:
        position: The row.
        keys: The tokens of the columns.
        layer: Look into this layer only; None for all.
        head: Look at this head only, from the end where negative; None for all.
    """

    kind: Kind
    position: int
    keys: Tokens
    layer: int | None = None
    head: int | None = None
    _best: dict[tuple[int, int], tuple[float, int]] = field(default_factory=dict)

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for the one row, of all heads or of the one named."""
        if layer.kind != self.kind or self.layer not in (None, layer.index):
            return None
        heads = None if self.head is None else (self._in_range(self.head, layer.heads),)
        return Request(heads, range(self.position, self.position + 1))

    def update(self, block: WeightBlock) -> None:
        """Keep each head's largest weight on a word that counts."""
        counts = torch.tensor([key in self._counted for key in block.keys], device=block.weights.device)
        weights = block.weights[0, :, self.position - block.rows.start].masked_fill(~counts, -1.0)
        largest, places = weights.max(dim=-1)
        for head, weight, place in zip(block.heads, largest.tolist(), places.tolist(), strict=True):
            if self.head is None or head == self.head or self.head < 0:
                self._best[block.layer.index, head] = weight, block.first_key + place

    def found(self) -> Told:
        """Return the head; of equals, the earliest.

        Raises:
            CaptureError: No attention was seen.
        """
        if not self._best:
            raise CaptureError(f"no {self.kind} attention was seen")
        (where, head), (weight, key) = max(
            self._best.items(), key=lambda item: (item[1][0], -item[0][0], -item[0][1])
        )
        farther = "" if self.kind == "cross" else " farther away"
        return Told(where, head, self.keys[key], max(weight, 0.0), len(self._best), farther)

    @cached_property
    def _counted(self) -> frozenset[int]:
        words = {
            token.position for token in self.keys if not token.special and any(map(str.isalnum, token.text))
        }
        if self.kind == "decoder":
            words -= {0}
        if self.kind != "cross":
            words -= {self.position - 1, self.position, self.position + 1}
        return frozenset(words or {token.position for token in self.keys})

    def _in_range(self, head: int, heads: int) -> int:
        if not -heads <= head < heads:
            have = f"0 to {heads - 1}" if heads > 1 else "only 0"
            raise UsageError(f"--head {head}: out of range", f"this model has heads {have} (-1 is the last)")
        return head % heads


@dataclass
class TellingHeadOfText:
    """Keeps, of each head, how much weight its rows give to their strongest word that is not a neighbour, on average.

    What does not count for `TellingHead` does not count here.

    Args:
        keys: The tokens of the columns.
    """

    kind: Kind
    queries: Tokens
    keys: Tokens
    _sums: dict[tuple[int, int], float] = field(default_factory=dict)

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask for all rows of all heads."""
        return Request(None, range(len(self.queries))) if layer.kind == self.kind else None

    def update(self, block: WeightBlock) -> None:
        """Add up each row's largest weight on a word that counts."""
        columns = slice(block.first_key, block.first_key + block.weights.shape[-1])
        counts = self._counted[block.rows.start : block.rows.stop, columns].to(block.weights)
        largest = (block.weights[0] * counts).amax(dim=-1).sum(dim=-1)
        for head, weight in zip(block.heads, largest.tolist(), strict=True):
            place = block.layer.index, head
            self._sums[place] = self._sums.get(place, 0.0) + weight

    def found(self) -> tuple[int, int, int] | None:
        """Return the layer and the head, and of how many; of equals, the earliest."""
        if not self._sums:
            return None
        layer, head = max(self._sums, key=lambda place: (self._sums[place], -place[0], -place[1]))
        return layer, head, len(self._sums)

    @cached_property
    def _counted(self) -> Bool[torch.Tensor, "query key"]:
        words = [not t.special and any(map(str.isalnum, t.text)) for t in self.keys]
        rows, columns = torch.arange(len(self.queries))[:, None], torch.arange(len(self.keys))
        counts = torch.tensor(words) & torch.tensor([not token.special for token in self.queries])[:, None]
        if self.kind == "decoder":
            counts = counts & (columns > 0)
        return counts if self.kind == "cross" else counts & ((rows - columns).abs() > 1)
