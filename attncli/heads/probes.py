"""Texts that show one thing and nothing else: random tokens, repeated once, for induction and duplicate-token heads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from attncli.cli.options import ModelOptions, ScratchOptions
from attncli.errors import ReadError, UsageError
from attncli.heads.options import ProbeOptions
from attncli.heads.single_texts import ShippedModel
from attncli.labels import safe_label
from attncli.models.batches import BatchedModel, Encoded, ModelBatch, RowRule, Side
from attncli.models.loading import Loaded
from attncli.models.prepared_text import token_limit, tokenize
from attncli.models.shipped import DEFAULT
from attncli.models.trained import LONGEST


@dataclass(frozen=True)
class RepeatedTokens:
    """Sequences of random tokens, each written twice: x₀ … x₍T₋₁₎ x₀ … x₍T₋₁₎.

    Rows of the second half count, but for the last, after which nothing comes. The null is the same places with a
    second half of other random tokens, in which nothing is repeated.

    Args:
        first: The halves, as ids.
        other: For each, other tokens of the same number.
        before: Special tokens that the model wants in front.
        after: And after.
    """

    first: tuple[tuple[int, ...], ...]
    other: tuple[tuple[int, ...], ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def length(self) -> int:
        """Tokens in a half."""
        return len(self.first[0])

    @property
    def rule(self) -> RowRule:
        """Which rows count."""
        return RowRule(len(self.before) + self.length, 1 + len(self.after))

    def feeds(self, model: BatchedModel | ShippedModel, most: int) -> list[tuple[ModelBatch, bool]]:
        """Make the passes: repeated tokens, and those that stand for chance (True).

        Args:
            most: Sequences in a batch.
        """
        made: list[tuple[ModelBatch, bool]] = []
        for start in range(0, len(self.first), most):
            part = slice(start, start + most)
            pairs = list(zip(self.first[part], self.other[part], strict=True))
            repeated = model.feed(self._encoded([one + one for one, _ in pairs], start))
            parted = model.feed(self._encoded([one + other for one, other in pairs], start))
            made += [(repeated, False), (replace(parted, batches=repeated.batches), True)]
        return made

    def _encoded(self, sequences: Sequence[tuple[int, ...]], start: int) -> list[Encoded]:
        special = (True,) * len(self.before), (True,) * len(self.after)
        return [
            Encoded(
                start + place,
                Side((*self.before, *ids, *self.after), (*special[0], *(False for _ in ids), *special[1])),
            )
            for place, ids in enumerate(sequences)
        ]


@dataclass(frozen=True)
class Vocabulary:
    """What a model's tokenizer and embedding have for a probe.

    Args:
        name: The model's.
        usable: The ids of plain tokens, special and added ones aside.
        size: How many ids the model knows.
        before: Special tokens that the tokenizer puts in front of a text.
        after: And after.
        limit: Tokens that the model reads at most.
    """

    name: str
    usable: tuple[int, ...]
    size: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    limit: int

    @classmethod
    def of(cls, loaded: Loaded) -> Vocabulary:
        """Read off a pretrained model."""
        tokenizer, size = loaded.tokenizer, int(loaded.model.config.get_text_config().vocab_size)
        never = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
        usable = tuple(one for one in range(min(len(tokenizer), size)) if one not in never)
        made = tokenize(loaded, text="a", return_special_tokens_mask=True)
        around = _around(made["input_ids"], made["special_tokens_mask"])
        return cls(loaded.name, usable, size, *around, token_limit(loaded))

    @classmethod
    def of_shipped(cls, model: ShippedModel) -> Vocabulary:
        """Read off a model that comes with attncli."""
        source, tokenizer = model.source, model.source.tokenizer
        size, never = tokenizer.get_vocab_size(), tokenizer.get_added_tokens_decoder()
        usable = tuple(one for one in range(size) if one not in never)
        made = tokenizer.encode("a")
        around = _around(made.ids, made.special_tokens_mask)
        return cls(source.card.name, usable, size, *around, LONGEST)


def random_repeated(model: Vocabulary, length: int, texts: int, seed: int) -> RepeatedTokens:
    """Draw random tokens, none twice in a sequence.

    Args:
        length: Tokens in a half.

    Raises:
        UsageError: The vocabulary is too small, or the sequences are too long for the model.
    """
    usable = model.usable
    if 2 * length > len(usable):
        raise UsageError(
            f"--probe-length {length}: the vocabulary has {len(usable):,} tokens to draw {2 * length:,} from"
        )
    dice = torch.Generator().manual_seed(seed)
    drawn = [torch.randperm(len(usable), generator=dice)[: 2 * length].tolist() for _ in range(texts)]
    first = tuple(tuple(usable[place] for place in places[:length]) for places in drawn)
    other = tuple(tuple(usable[place] for place in places[length:]) for places in drawn)
    return _checked(model, RepeatedTokens(first, other, model.before, model.after))


def repeated_from_ids(model: Vocabulary, file: str, seed: int) -> RepeatedTokens:
    """Read token ids from a JSON file: a list of lists of one length, each a half or both halves.

    Raises:
        ReadError: The file cannot be read, or holds something else.
        UsageError: The ids are not this model's.
    """
    rows = _read_ids(file)
    length = len(rows[0])
    if length % 2 == 0 and all(row[: length // 2] == row[length // 2 :] for row in rows):
        rows = [row[: length // 2] for row in rows]
    largest = max(max(row) for row in rows)
    if largest >= model.size:
        raise UsageError(f"{safe_label(file)}: token id {largest:,}, and the model has {model.size:,} tokens")
    usable = set(model.usable)
    dice = torch.Generator().manual_seed(seed)
    other = []
    for row in rows:
        free = sorted(usable - set(row))
        if len(free) < len(row):
            raise UsageError(f"{safe_label(file)}: the vocabulary has too few other tokens for a baseline")
        places = torch.randperm(len(free), generator=dice)[: len(row)].tolist()
        other.append(tuple(free[place] for place in places))
    return _checked(model, RepeatedTokens(tuple(map(tuple, rows)), tuple(other), model.before, model.after))


def _read_ids(file: str) -> list[list[int]]:
    shown = safe_label(file)
    try:
        rows: Any = json.loads(Path(file).expanduser().read_text("utf-8"))
    except OSError as error:
        raise ReadError(f"{shown}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ReadError(
            f"{shown}: no JSON", "write lists of token ids: [[11, 12, 13], [21, 22, 23]]"
        ) from error
    fits = isinstance(rows, list) and rows and all(isinstance(row, list) and row for row in rows)
    if not fits or any(type(one) is not int or one < 0 for row in rows for one in row):
        raise ReadError(f"{shown}: no lists of token ids", "write [[11, 12, 13], [21, 22, 23]]")
    if len({len(row) for row in rows}) > 1:
        raise ReadError(f"{shown}: its lists are of different lengths")
    if len(rows[0]) < 2:
        raise ReadError(f"{shown}: its lists have one token each; nothing can come after the first")
    found: list[list[int]] = rows
    return found


def _around(ids: Sequence[int], special: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the special tokens that stand before and after a text."""
    plain = [place for place, mark in enumerate(special) if not mark]
    if not plain:
        return (), ()
    return tuple(ids[: plain[0]]), tuple(ids[plain[-1] + 1 :])


def _checked(model: Vocabulary, made: RepeatedTokens) -> RepeatedTokens:
    longest = 2 * made.length + len(made.before) + len(made.after)
    if longest > model.limit:
        raise UsageError(
            f"a probe of {longest:,} tokens; {model.name} reads at most {model.limit:,}",
            "--probe-length sets how many are repeated",
        )
    return made


def drawn_for(model: Vocabulary, probe: ProbeOptions, scratch: ScratchOptions) -> RepeatedTokens:
    """Draw the tokens of a probe, or read them from its file."""
    seed = scratch.seed or 0
    if probe.ids is not None:
        return repeated_from_ids(model, probe.ids, seed)
    return random_repeated(model, probe.probe_length, probe.probe_texts, seed)


def probe_of_shipped(
    probe: ProbeOptions, model: ModelOptions, scratch: ScratchOptions
) -> tuple[ShippedModel, RepeatedTokens, RowRule, str]:
    """Open a model that comes with attncli for a probe; give the probe, which rows count, and the device."""
    source = ShippedModel(model.model or DEFAULT, RowRule(), verify=not model.no_verify)
    drawn = drawn_for(Vocabulary.of_shipped(source), probe, scratch)
    source.rule = drawn.rule
    return source, drawn, drawn.rule, "cpu"
