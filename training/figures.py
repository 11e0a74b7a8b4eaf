"""What the trained models are held to, measured on what they were not trained on."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int64
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy

from attncli.attention.operation import AttentionOperation
from attncli.attention.transformer import Transformer
from attncli.record import HeadRole
from training import dates
from training.translator import Task as DateTask

Weights = dict[str, Float[Tensor, "batch heads query key"]]
"""By the name of the attention."""

LENGTH = 96
"""Tokens of a held-out passage, at most."""

DATES, DATES_SEED = 400, 20_000
GAPS_SEED = 20_001

Figures = Mapping[str, float]


def passages(
    tokenizer: Tokenizer, paragraphs: Sequence[str], length: int = LENGTH
) -> list[Int64[Tensor, "1 length"]]:
    """Cut held-out paragraphs into the model's tokens: each by itself, with the special tokens the model expects.

    Args:
        length: Of a longer paragraph only so many tokens are used. Those below a third of it are left out.
    """
    found = [encoding.ids for encoding in tokenizer.encode_batch(list(paragraphs))]
    return [torch.tensor([ids[:length]]) for ids in found if len(ids) > length // 3]


@torch.inference_mode()
def weights_of(model: Transformer, *inputs: Tensor) -> tuple[Weights, Tensor]:
    """Run a model, and give all its weights and its logits."""
    weights: Weights = {}

    def watch(name: str, operation: AttentionOperation, output: Tensor) -> None:
        weights[name] = operation.weights(range(operation.heads), slice(0, operation.rows))

    return weights, model(*inputs, watch=watch)


def follows_the_same(ids: Int64[Tensor, " length"], ordinary: int) -> Bool[Tensor, "query key"]:
    """Return where an induction head looks: from each token to those right after its earlier occurrences.

    Args:
        ordinary: The first id that is no special token's.

    >>> follows_the_same(torch.tensor([5, 7, 5, 7]), 1).int()
    tensor([[0, 0, 0, 0],
            [0, 0, 0, 0],
            [0, 1, 0, 0],
            [0, 0, 1, 0]], dtype=torch.int32)
    """
    same = (ids.unsqueeze(-1) == ids) & (ids >= ordinary).unsqueeze(-1)
    after = torch.zeros_like(same)
    after[:, 1:] = same.tril(-1)[:, :-1]
    return after


def beside(length: int, offset: int) -> Bool[Tensor, "query key"]:
    """Return where a head looks that looks so many positions on (1) or back (-1).

    >>> beside(3, -1).int()
    tensor([[0, 0, 0],
            [1, 0, 0],
            [0, 1, 0]], dtype=torch.int32)
    """
    return torch.ones(length - abs(offset), dtype=torch.bool).diag(offset)


class HeadMeans:
    """Means over rows of each head's weight on what a role points at."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, int], float] = {}
        self._rows = 0

    def add(self, weights: Weights, target: Bool[Tensor, "query key"]) -> None:
        """Take in the rows that have a target at all."""
        rows = target.any(dim=-1)
        self._rows += int(rows.sum())
        for name, found in weights.items():
            on_target = (found[0] * target).sum(dim=-1)[:, rows].sum(dim=-1)
            for head, value in enumerate(on_target.tolist()):
                self._sums[name, head] = self._sums.get((name, head), 0.0) + value

    def roles(self, role: str) -> list[HeadRole]:
        """Return every head's mean, the largest first."""
        found = sorted(self._sums.items(), key=lambda item: -item[1])
        return [_role(name, head, role, value / max(self._rows, 1)) for (name, head), value in found]


def _role(name: str, head: int, role: str, score: float) -> HeadRole:
    stack, layer, part = name.split(".")
    kind = "cross" if part == "cross" else stack
    return HeadRole(kind, int(layer), head, role, round(score, 4))  # type: ignore[arg-type]


def measure_decoder(
    model: Transformer, held_out: Sequence[Int64[Tensor, "1 length"]], ordinary: int
) -> tuple[Figures, list[HeadRole]]:
    """Measure a decoder: how well it predicts text, and what its heads do on it and on a passage that comes again."""
    previous, induction, again = HeadMeans(), HeadMeans(), HeadMeans()
    loss, count, uniform_previous, uniform_induction = 0.0, 0, [], []
    for ids in held_out:
        weights, logits = weights_of(model, ids)
        loss += float(cross_entropy(logits[0, :-1], ids[0, 1:], reduction="sum"))
        count += ids.shape[1] - 1
        before, behind_same = beside(ids.shape[1], -1), follows_the_same(ids[0], ordinary)
        previous.add(weights, before)
        induction.add(weights, behind_same)
        uniform_previous.append(_uniform(before))
        uniform_induction.append(_uniform(behind_same))
        twice = torch.cat([ids[:, :1], ids[:, 1:49], ids[:, 1:49]], dim=1)
        after = follows_the_same(twice[0], ordinary)
        after[: twice.shape[1] // 2 + 1] = False
        again.add(weights_of(model, twice)[0], after)
    best = {
        role: means.roles(role) for role, means in (("previous_token", previous), ("induction", induction))
    }
    figures = {
        "loss_nats": loss / count,
        "previous_token": best["previous_token"][0].score,
        "previous_token_null": float(torch.cat(uniform_previous).mean()),
        "induction": best["induction"][0].score,
        "induction_null": float(torch.cat(uniform_induction).mean()),
        "induction_on_passages_repeated": again.roles("induction")[0].score,
    }
    return figures, [role for roles in best.values() for role in roles]


def loss_of_frequencies(
    ids: Int64[Tensor, " pieces"], held_out: Sequence[Int64[Tensor, "1 length"]]
) -> float:
    """Return the loss of guessing each piece as often as `ids` have it, in nats."""
    counts = torch.bincount(ids, minlength=1 + max(int(passage.max()) for passage in held_out)) + 1
    chances = (counts / counts.sum()).log()
    pieces = torch.cat([passage[0, 1:] for passage in held_out])
    return -float(chances[pieces].mean())


def _uniform(target: Bool[Tensor, "query key"]) -> Float[Tensor, " rows"]:
    """Return what a head that spreads its rows over all keys it may see would have on the target."""
    seen = torch.arange(1, target.shape[0] + 1)
    share = target.sum(dim=-1) / seen
    return share[target.any(dim=-1)]


def measure_encoder(
    model: Transformer, held_out: Sequence[Int64[Tensor, "1 length"]], gap: int, frequent: int
) -> tuple[Figures, list[HeadRole]]:
    """Measure an encoder: how many hidden pieces it guesses, beside always guessing the most frequent piece.

    Args:
        gap: The id of ``<mask>``, the last of the special ones.
        frequent: The id of the piece that is most frequent in the training text.
    """
    generator = torch.Generator().manual_seed(GAPS_SEED)
    right = guesses = loss = unigram_right = 0.0
    before, after = HeadMeans(), HeadMeans()
    for ids in held_out:
        chosen = (torch.rand(ids.shape, generator=generator) < 0.15) & (ids > gap)
        if not bool(chosen.any()):
            continue
        weights, logits = weights_of(model, ids.masked_fill(chosen, gap))
        right += float((logits.argmax(dim=-1) == ids)[chosen].sum())
        unigram_right += float((ids[chosen] == frequent).sum())
        loss += float(cross_entropy(logits[chosen], ids[chosen], reduction="sum"))
        guesses += float(chosen.sum())
        before.add(weights, beside(ids.shape[1], -1))
        after.add(weights, beside(ids.shape[1], 1))
    best = {role: means.roles(role) for role, means in (("previous_token", before), ("next_token", after))}
    figures = {
        "gap_accuracy": right / guesses,
        "gap_accuracy_of_the_most_frequent_piece": unigram_right / guesses,
        "gap_loss_nats": loss / guesses,
        "previous_token": best["previous_token"][0].score,
        "next_token": best["next_token"][0].score,
    }
    return figures, [role for roles in best.values() for role in roles]


def measure_translator(model: Transformer, task: DateTask) -> tuple[Figures, list[HeadRole]]:
    """Measure a translator: how many dates it writes without a mistake, and whether its heads know their words.

    A row is right where its strongest word is one of those that say the piece which the row is about to write.
    """
    chance = random.Random(DATES_SEED)
    drawn = [dates.draw(chance, held_out=True) for _ in range(DATES)]
    batch = task.batch(drawn)
    weights, logits = weights_of(model, batch.said, batch.written[:, :-1], batch.known)
    likeliest = logits.argmax(dim=-1)
    crosses = {name: found for name, found in weights.items() if name.endswith("cross")}
    heads = [
        _role(name, head, "alignment", alignment(found[:, head], drawn))
        for name, found in crosses.items()
        for head in range(found.shape[1])
    ]
    figures = {
        "exact_dates": float((likeliest == batch.written[:, 1:]).all(dim=-1).float().mean()),
        "alignment": max(role.score for role in heads),
        "alignment_of_the_layers_mean": max(
            alignment(found.mean(dim=1), drawn) for found in crosses.values()
        ),
        "alignment_null": sum(_share(one) for one in drawn) / len(drawn),
    }
    return figures, sorted(heads, key=lambda role: -role.score)


def alignment(weights: Float[Tensor, "batch query key"], drawn: Sequence[dates.Dated]) -> float:
    """Return the share of the rows that write digits whose strongest word is one of those that say them."""
    strongest = weights.argmax(dim=-1).tolist()
    right = [
        row[place] in sources
        for row, one in zip(strongest, drawn, strict=True)
        for place, sources in enumerate(one.sources)
        if sources
    ]
    return sum(right) / len(right)


def _share(one: dates.Dated) -> float:
    """Return how often a word chosen blindly would be right."""
    said = [len(sources) for sources in one.sources if sources]
    return sum(said) / len(said) / len(one.said)
