"""What each of the small models is, learns from, and is measured by."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int64
from tokenizers import Tokenizer
from torch import Tensor

from attncli.attention.transformer import Shape, Transformer, initialise
from attncli.record import HeadRole
from training import dates, decoder, encoder, figures, texts, translator, vocabularies
from training.card import Trained, halved
from training.loop import Schedule, optimise

LICENCE = "public domain"

HELD_OUT_PASSAGES = 120


@dataclass(frozen=True)
class Recipe:
    """A model before its training.

    Args:
        length: Tokens of a training sequence, at most.
        loss: Draws a batch of so many sequences and gives the model's loss on it.
        measure: Gives the figures and the heads' roles of a trained model.
        held_out: On what they are measured.
        paragraphs: That text, where it is one.
        frequent: The piece that guessing without looking would guess.
        data: What it learns from.
    """

    name: str
    summary: str
    shape: Shape
    schedule: Schedule
    tokenizer: Tokenizer
    length: int
    loss: Callable[[Transformer, int, torch.Generator], Tensor]
    measure: Callable[[Transformer], tuple[figures.Figures, list[HeadRole]]]
    held_out: str
    data: Sequence[Mapping[str, str]]
    paragraphs: Sequence[str] = ()
    frequent: int | None = None


def tiny_decoder(paths: Sequence[str]) -> Recipe:
    """A small GPT: two layers are the least that can hold an induction head."""
    found = texts.find_texts(paths)
    shape = decoder.SHAPE
    tokenizer = vocabularies.pieces(_paragraphs(found), shape.vocabulary, ends=False)
    ids = _pieces(tokenizer, found)
    task = decoder.Task(ids, _id(tokenizer, "<s>"), tokenizer.get_vocab_size())
    paragraphs = _held_out(found)
    held_out = figures.passages(tokenizer, paragraphs)
    return Recipe(
        name="tiny-decoder",
        summary="A decoder that predicts the next piece of a text.",
        shape=replace(shape, vocabulary=tokenizer.get_vocab_size()),
        schedule=decoder.SCHEDULE,
        tokenizer=tokenizer,
        length=decoder.LENGTH,
        loss=task.loss,
        measure=lambda model: figures.measure_decoder(model, held_out, ordinary=1),
        held_out=f"{len(held_out)} paragraphs of the same books, not trained on; guessing by how often pieces are in "
        f"the training text gives {figures.loss_of_frequencies(ids, held_out):.2f} nats there",
        data=_data(found),
        paragraphs=paragraphs,
    )


def tiny_encoder(paths: Sequence[str]) -> Recipe:
    """A small BERT."""
    found = texts.find_texts(paths)
    shape = encoder.SHAPE
    tokenizer = vocabularies.pieces(_paragraphs(found), shape.vocabulary, ends=True)
    start, end, gap = (_id(tokenizer, name) for name in ("<s>", "</s>", "<mask>"))
    task = encoder.Task(_pieces(tokenizer, found), start, end, gap, tokenizer.get_vocab_size())
    paragraphs = _held_out(found)
    held_out = figures.passages(tokenizer, paragraphs)
    frequent = int(torch.bincount(task.ids).argmax())
    return Recipe(
        name="tiny-encoder",
        summary="An encoder that fills the gaps in a text from both sides.",
        shape=replace(shape, vocabulary=tokenizer.get_vocab_size()),
        schedule=encoder.SCHEDULE,
        tokenizer=tokenizer,
        length=encoder.LENGTH,
        loss=task.loss,
        measure=lambda model: figures.measure_encoder(model, held_out, gap, frequent),
        held_out=f"{len(held_out)} paragraphs of the same books, not trained on, 15 % of the pieces hidden",
        data=_data(found),
        paragraphs=paragraphs,
        frequent=frequent,
    )


def tiny_translator(paths: Sequence[str]) -> Recipe:
    """A small encoder–decoder, for a language whose right alignment is known."""
    tokenizer = vocabularies.words(dates.vocabulary())
    task = translator.Task(tokenizer)
    return Recipe(
        name="tiny-translator",
        summary="An encoder–decoder that writes dates said in English words as digits.",
        shape=translator.shape(tokenizer.get_vocab_size()),
        schedule=translator.SCHEDULE,
        tokenizer=tokenizer,
        length=translator.LENGTH,
        loss=task.loss,
        measure=lambda model: figures.measure_translator(model, task),
        held_out=f"{figures.DATES} of the tenth of all dates that it was not trained on",
        data=[
            {
                "name": "dates from 1100 to 2099, said in many ways by training/dates.py",
                "licence": "made up",
            }
        ],
    )


RECIPES: Mapping[str, Callable[[Sequence[str]], Recipe]] = {
    "tiny-decoder": tiny_decoder,
    "tiny-encoder": tiny_encoder,
    "tiny-translator": tiny_translator,
}


def train(recipe: Recipe, *, seed: int = 0, steps: int | None = None, command: str = "") -> Trained:
    """Train a model from random weights and measure it.

    Args:
        steps: Instead of the recipe's own.
        command: What the card is to say made it.
    """
    schedule = recipe.schedule if steps is None else replace(recipe.schedule, steps=steps)
    model = Transformer(recipe.shape)
    initialise(model, torch.Generator().manual_seed(seed))
    start = time.monotonic()
    losses = optimise(
        model, lambda generator: recipe.loss(model, schedule.batch_size, generator), schedule, seed
    )
    seconds = round(time.monotonic() - start)
    found, roles = recipe.measure(halved(model))
    return Trained(
        name=recipe.name,
        summary=recipe.summary,
        model=model,
        tokenizer=recipe.tokenizer,
        losses=losses,
        figures=found,
        held_out=recipe.held_out,
        roles=roles,
        training=_training(recipe, schedule, seed, seconds, command),
        data=recipe.data,
        paragraphs=recipe.paragraphs,
        frequent=recipe.frequent,
    )


def _training(recipe: Recipe, schedule: Schedule, seed: int, seconds: int, command: str) -> dict[str, Any]:
    return {
        "command": command,
        "seed": seed,
        "steps": schedule.steps,
        "batch_size": schedule.batch_size,
        "length": recipe.length,
        "peak_rate": schedule.peak_rate,
        "seconds": seconds,
        "threads": torch.get_num_threads(),
    }


def _id(tokenizer: Tokenizer, name: str) -> int:
    number = tokenizer.token_to_id(name)
    assert number is not None, f"{name} is no token"
    return number


def _paragraphs(found: Sequence[texts.Text]) -> list[str]:
    return [paragraph for text in found for paragraph in text.training]


def _pieces(tokenizer: Tokenizer, found: Sequence[texts.Text]) -> Int64[Tensor, " pieces"]:
    encodings = tokenizer.encode_batch(_paragraphs(found), add_special_tokens=False)
    return torch.tensor([number for encoding in encodings for number in encoding.ids])


def _held_out(found: Sequence[texts.Text]) -> list[str]:
    """Take an equal share of each text's held-out paragraphs, spread over all of them."""
    share = HELD_OUT_PASSAGES // len(found)
    return [
        paragraph
        for text in found
        for paragraph in text.held_out[:: max(1, len(text.held_out) // share)][:share]
    ]


def _data(found: Sequence[texts.Text]) -> list[dict[str, str]]:
    return [{"name": text.name, "licence": LICENCE, "sha256": text.sha256} for text in found]
