"""The optimiser's loop, the same for each model."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attncli.attention.transformer import Transformer

TABLE_FACTOR = 4.0
"""How many times as fast the table of vectors learns."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to learn.

    Args:
        warmup: Steps until the rate is at its peak; it then falls as a cosine to a twentieth.
    """

    steps: int
    batch_size: int
    peak_rate: float = 3e-3
    warmup: int = 50
    weight_decay: float = 0.05

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.peak_rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(self.steps - self.warmup, 1)
        return self.peak_rate * (0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2)


def optimise(
    model: Transformer, loss_of: Callable[[torch.Generator], Tensor], schedule: Schedule, seed: int
) -> list[float]:
    """Train a model in place, and tell on stderr how it goes.

    Args:
        loss_of: Draws a batch and gives the model's mean loss on it, in nats a token.

    Returns:
        Each step's loss.

    Reference:
        Loshchilov & Hutter 2019 (AdamW), arXiv 1711.05101.
    """
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(_groups(model, schedule.weight_decay), betas=(0.9, 0.98), foreach=True)
    losses: list[float] = []
    start = time.monotonic()
    model.train()
    for step in range(schedule.steps):
        for group in optimiser.param_groups:
            group["lr"] = schedule.rate(step) * group["factor"]
        loss = loss_of(generator)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
        _tell(step, schedule.steps, losses, time.monotonic() - start)
    model.eval()
    return losses


def _groups(model: Transformer, weight_decay: float) -> list[dict[str, object]]:
    """Let only projections decay, and the table of vectors, which are long, learn faster."""
    table = model.embedding.weight
    projections = [p for name, p in model.named_parameters() if p.dim() == 2 and name.endswith("weight")]
    inner = [p for p in projections if p is not table]
    others = [p for p in model.parameters() if p is not table and all(p is not one for one in inner)]
    return [
        {"params": inner, "weight_decay": weight_decay, "factor": 1.0},
        {"params": others, "weight_decay": 0.0, "factor": 1.0},
        {"params": [table], "weight_decay": 0.0, "factor": TABLE_FACTOR},
    ]


def _tell(step: int, steps: int, losses: list[float], seconds: float) -> None:
    live = sys.stderr.isatty()
    done = step + 1
    if not (done == steps or done % (10 if live else 100) == 0):
        return
    recent = losses[-50:]
    left = seconds / done * (steps - done)
    line = f"step {done:>5} of {steps}   loss {sum(recent) / len(recent):.3f}   {seconds:5.0f} s, {left:.0f} s to go"
    end = "\n" if done == steps or not live else ""
    print(("\r" if live else "") + line, end=end, file=sys.stderr, flush=True)
