"""tiny-decoder: predicts the next piece of a text, and of passages and random pieces that come again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn.functional import cross_entropy

from attncli.attention.transformer import Shape, Transformer
from training.loop import Schedule

SHAPE = Shape(vocabulary=2048, d_model=128, heads=4, decoder_layers=2, distances=2, layers_with_distances=1)
"""Attention alone. Positions are told to the first layer only: what came before a token is its business, and the second
layer has nothing but contents to go by. That is the division of labour of an induction head. Two distances (itself, the
one before, all others alike) leave it one token to go by: with more, it waits until two or three have come again."""

SCHEDULE = Schedule(steps=2000, batch_size=16, peak_rate=4e-3)
LENGTH = 64
"""Pieces of a training sequence, its ``<s>`` included. Every fourth batch has fewer and longer ones."""

STRETCHED = 4
"""How many times longer they are."""


@dataclass(frozen=True)
class Task:
    """What tiny-decoder learns from.

    Args:
        ids: The training text's pieces, one after the other.
        start: The id of ``<s>``, the only special one.
        vocabulary: Number of ids.
    """

    ids: Int64[Tensor, " pieces"]
    start: int
    vocabulary: int
    length: int = LENGTH

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "sequences pieces"]:
        """Draw sequences: an eighth is text, three eighths passages of it that come again.

        Of the other half, one part is random pieces that come again and again, the other random pairs in ever new
        order, where what comes after a piece is told by this piece alone, as it mostly is in text.
        """
        stretched = count >= STRETCHED and int(torch.randint(0, 4, (), generator=generator)) == 0
        kinds = range(1, 1 + count // STRETCHED) if stretched else range(count)
        size = self.length * (STRETCHED if stretched else 1) - 1
        return torch.stack([self._sequence(kind % 8, size, generator) for kind in kinds])

    def _sequence(self, kind: int, size: int, generator: torch.Generator) -> Tensor:
        again = int(torch.randint(4, self.length // 3, (), generator=generator))
        if kind == 0:
            body = self._passage(size, generator)
        elif kind % 2 == 0:
            # With other text between, so that it does not come again at one distance only.
            parts = [self._passage(again, generator), self._passage(again // 2, generator)]
            body = torch.cat(parts).repeat(size // again + 1)[:size]
        elif kind % 4 == 3:
            body = self._random(again, generator).repeat(size // again + 1)[:size]
        else:
            body = self._pairs(again, size, generator)
        return torch.cat([torch.tensor([self.start]), body])

    def _passage(self, size: int, generator: torch.Generator) -> Tensor:
        first = int(torch.randint(0, len(self.ids) - size, (), generator=generator))
        return self.ids[first : first + size]

    def _pairs(self, count: int, size: int, generator: torch.Generator) -> Tensor:
        """Draw pairs, all pieces alike, and repeat them, each time in another order."""
        pairs = torch.randint(self.start + 1, self.vocabulary, (count, 2), generator=generator)
        rounds = [pairs[torch.randperm(count, generator=generator)] for _ in range(size // (2 * count) + 1)]
        return torch.cat(rounds).flatten()[:size]

    def _random(self, size: int, generator: torch.Generator) -> Tensor:
        """Draw pieces in no order, all alike."""
        return torch.randint(self.start + 1, self.vocabulary, (size,), generator=generator)

    def loss(self, model: Transformer, count: int, generator: torch.Generator) -> Tensor:
        """Return the mean loss of predicting each next piece, in nats."""
        sequences = self.draw(count, generator)
        logits = model(sequences)[:, :-1]
        return cross_entropy(logits.flatten(0, 1), sequences[:, 1:].flatten())
