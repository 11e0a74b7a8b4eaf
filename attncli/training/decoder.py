"""tiny-decoder: predicts the next piece of a text, and of passages and random pieces that come again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy

from attncli.attention.transformer import Shape, Transformer
from attncli.training.loop import Schedule

SHAPE = Shape(vocabulary=4096, d_model=128, heads=4, decoder_layers=2, feed_forward=256, rotary_base=1000.0)
SCHEDULE = Schedule(steps=2400, batch_size=16)
LENGTH = 128
"""Pieces of a training sequence, its ``<s>`` included."""


@dataclass(frozen=True)
class Task:
    """What tiny-decoder learns from.

    Args:
        ids: The training text's pieces, one after the other.
        start: The id of ``<s>``.
    """

    ids: Int64[Tensor, " pieces"]
    start: int
    vocabulary: int
    length: int = LENGTH

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "count length"]:
        """Draw sequences: half are text, a quarter text with a passage that comes again, a quarter random and again."""
        sequences = [self._sequence(index % 4, generator) for index in range(count)]
        return torch.stack(sequences)

    def _sequence(self, kind: int, generator: torch.Generator) -> Tensor:
        size = self.length - 1
        if kind < 2:
            body = self._passage(size, generator)
        else:
            again = int(torch.randint(8, size // 2, (), generator=generator))
            part = self._passage(again, generator) if kind == 2 else self._random(again, generator)
            # The passage again and again, with a stretch of text between where it is text.
            between = self._passage(size, generator)[: int(torch.randint(0, 17, (), generator=generator))]
            body = torch.cat([part, between] * (size // again + 1))[:size] if kind == 2 else part.repeat(size // again + 1)[:size]
        return torch.cat([torch.tensor([self.start]), body])

    def _passage(self, size: int, generator: torch.Generator) -> Tensor:
        first = int(torch.randint(0, len(self.ids) - size, (), generator=generator))
        return self.ids[first : first + size]

    def _random(self, size: int, generator: torch.Generator) -> Tensor:
        """Draw pieces as often as the text has them, or, every other time, all alike."""
        if bool(torch.randint(0, 2, (), generator=generator)):
            return self.ids[torch.randint(0, len(self.ids), (size,), generator=generator)]
        return torch.randint(1, self.vocabulary, (size,), generator=generator)

    def loss(self, model: Transformer, count: int, generator: torch.Generator) -> Tensor:
        """Give the mean loss of predicting each next piece, in nats."""
        sequences = self.draw(count, generator)
        logits = model(sequences)[:, :-1]
        return cross_entropy(logits.flatten(0, 1), sequences[:, 1:].flatten())
