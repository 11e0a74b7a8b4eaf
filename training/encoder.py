"""tiny-encoder: fills the gaps in a text, from both sides."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int64
from torch import Tensor
from torch.nn.functional import cross_entropy

from attncli.attention.transformer import Shape, Transformer
from training.loop import Schedule

SHAPE = Shape(vocabulary=2048, d_model=128, heads=4, encoder_layers=2, feed_forward=256, distances=16)
SCHEDULE = Schedule(steps=1600, batch_size=16, peak_rate=4e-3)
LENGTH = 64
MASKED = 0.3
"""Share of the pieces that are chosen; of these 8 in 10 are masked, one is another piece, one stays. BERT's 0.15 would
take twice as long to learn from."""


@dataclass(frozen=True)
class Task:
    """What tiny-encoder learns from.

    Args:
        ids: The training text's pieces, one after the other.
        start, end, gap: The ids of ``<s>``, ``</s>`` and ``<mask>``, which come first in the vocabulary.

    Reference:
        Devlin et al. 2019, §3.1 task 1, arXiv 1810.04805; Wettig et al. 2023 (more is hidden), arXiv 2202.08005.
    """

    ids: Int64[Tensor, " pieces"]
    start: int
    end: int
    gap: int
    vocabulary: int
    length: int = LENGTH

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "count length"]:
        """Draw stretches of text, between ``<s>`` and ``</s>``."""
        size = self.length - 2
        first = torch.randint(0, len(self.ids) - size, (count, 1), generator=generator)
        body = self.ids[first + torch.arange(size)]
        edge = torch.ones(count, 1, dtype=torch.int64)
        return torch.cat([edge * self.start, body, edge * self.end], dim=1)

    def hide(
        self, sequences: Int64[Tensor, "count length"], generator: torch.Generator
    ) -> tuple[Int64[Tensor, "count length"], Bool[Tensor, "count length"]]:
        """Choose pieces and hide them: give what the model reads, and which were chosen."""
        chance = torch.rand(sequences.shape, generator=generator)
        chosen = (chance < MASKED) & (sequences > max(self.start, self.end, self.gap))
        other = torch.randint(self.gap + 1, self.vocabulary, sequences.shape, generator=generator)
        hidden = torch.where(chosen & (chance < 0.8 * MASKED), self.gap, sequences)
        hidden = torch.where(chosen & (chance >= 0.9 * MASKED), other, hidden)
        return hidden, chosen

    def loss(self, model: Transformer, count: int, generator: torch.Generator) -> Tensor:
        """Return the mean loss of telling what the chosen pieces were, in nats."""
        sequences = self.draw(count, generator)
        hidden, chosen = self.hide(sequences, generator)
        return cross_entropy(model.logits(model.states(hidden)[chosen]), sequences[chosen])
