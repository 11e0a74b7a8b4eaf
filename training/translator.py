"""tiny-translator: writes a date that is said in words as digits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int64
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy

from attncli.attention.transformer import Shape, Transformer
from training import dates
from training.loop import Schedule

HEADS, D_MODEL = 4, 64
SCHEDULE = Schedule(steps=800, batch_size=64)
LENGTH = 16
"""Tokens of the longest date, at most."""


def shape(vocabulary: int) -> Shape:
    """Return the model's sizes; positions are sinusoidal, as in the first Transformer."""
    return Shape(vocabulary, D_MODEL, HEADS, encoder_layers=2, decoder_layers=2, feed_forward=128)


@dataclass(frozen=True)
class Batch:
    """Dates, padded.

    Args:
        known: True where `said` is no padding.
        written: ``<s>``, the date's characters, ``</s>``.
    """

    said: Int64[Tensor, "count words"]
    known: Bool[Tensor, "count words"]
    written: Int64[Tensor, "count characters"]


@dataclass(frozen=True)
class Task:
    """What tiny-translator learns from: dates drawn anew for each batch."""

    tokenizer: Tokenizer

    def batch(self, drawn: Sequence[dates.Dated]) -> Batch:
        """Turn dates into ids."""
        of = self.tokenizer.token_to_id
        said = [[of(word) for word in one.said] for one in drawn]
        width = max(map(len, said))
        padded = torch.tensor([row + [of("<pad>")] * (width - len(row)) for row in said])
        written = [[of("<s>"), *map(of, one.written), of("</s>")] for one in drawn]
        return Batch(padded, padded.ne(of("<pad>") or 0), torch.tensor(written))

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        """Draw dates that may be trained on."""
        seed = int(torch.randint(0, 2**31, (), generator=generator))
        chance = random.Random(seed)
        return self.batch([dates.draw(chance, held_out=False) for _ in range(count)])

    def loss(self, model: Transformer, count: int, generator: torch.Generator) -> Tensor:
        """Return the mean loss of writing each next character, in nats."""
        batch = self.draw(count, generator)
        logits = model(batch.said, batch.written[:, :-1], batch.known)
        return cross_entropy(logits.flatten(0, 1), batch.written[:, 1:].flatten())
