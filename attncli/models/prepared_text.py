"""Texts made ready for a pretrained model: its tokens, on which axes, and how many it reads at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attncli.errors import CaptureError, ModelError, UsageError
from attncli.labels import safe_label
from attncli.models import position_limits as limits
from attncli.models.loading import Loaded
from attncli.models.python_tokenizers import leads_back, read_tokens
from attncli.models.refusals import refused_as, too_long
from attncli.models.tokens import positions
from attncli.models.towers import main_input
from attncli.models.vocabulary_check import notes_on_pair, notes_on_text
from attncli.record import Kind, Token, Tokens
from attncli.view import Picture

ENCODER_ALONE = "only the encoder ran: --pair gives the target text, for decoder and cross-attention"
"""The note of an encoder–decoder that was given no target text."""


@dataclass(frozen=True)
class Prepared:
    """A text made ready for a model.

    Args:
        inputs: The forward pass's tensors.
        queries: Query tokens by kind of attention; the kinds are those that the pass will have.
        keys: Key tokens by kind.
        notes: What was cut off, and the like.
        pictures: Each view of each picture among the tokens.
        encoder_only: Whether just the encoder of an encoder–decoder runs, since there is no target text.
    """

    inputs: Mapping[str, Tensor]
    queries: Mapping[Kind, Tokens]
    keys: Mapping[Kind, Tokens]
    notes: tuple[str, ...] = ()
    encoder_only: bool = False
    pictures: tuple[Picture, ...] = ()


def prepare(
    loaded: Loaded, text: str, pair: str | None = None, *, truncate: bool = False, specials: bool = True
) -> Prepared:
    """Tokenise a text, and a second one, as the model wants them.

    Args:
        specials: Whether the tokenizer adds its special tokens; not where a template has written them.

    Raises:
        UsageError: The text is empty or too long, or the model takes no text.
    """
    check_takes_text(loaded, text)
    if loaded.model.config.is_encoder_decoder:
        return _prepare_two_stacks(loaded, text, pair, truncate)
    encoding, tokens, notes = encode(loaded, text, pair, truncate=truncate, specials=specials)
    _check_marks(loaded, encoding["input_ids"])
    kind = loaded.kind
    return Prepared(encoding, {kind: tokens}, {kind: tokens}, notes)


def _check_marks(loaded: Loaded, ids: Tensor) -> None:
    """Refuse a text that says where a picture stands, where there is none.

    Raises:
        UsageError: It does.
    """
    number = getattr(loaded.model.config, "image_token_id", None)
    if isinstance(number, int) and bool((ids == number).any()):
        mark = safe_label(str(loaded.tokenizer.convert_ids_to_tokens(number)))
        raise UsageError(f"the text has {mark} in it, and no picture was given", "--image FILE names one")


def check_takes_text(loaded: Loaded, text: str | None = None) -> None:
    """Refuse a model of pictures or sounds, and an empty text.

    Args:
        text: What it is given, if that is known.

    Raises:
        UsageError: The text is empty, or the model takes none.
    """
    takes = main_input(loaded.model)
    if takes != "input_ids":
        raise UsageError(f"{loaded.name} ({loaded.family}) takes {takes}, not text")
    if text == "":
        raise UsageError("the text is empty: there is nothing to attend to")


def from_inputs(
    loaded: Loaded, inputs: Mapping[str, Tensor], lengths: Mapping[Kind, tuple[int, int]]
) -> Prepared:
    """Make any inputs ready, such as audio features, with positions for labels.

    Args:
        inputs: What the model's forward pass takes.
        lengths: Number of query and key positions by kind of attention; 0 where that is not known beforehand.
    """
    queries = {kind: positions(query) for kind, (query, _) in lengths.items()}
    return Prepared(inputs, queries, {kind: positions(key) for kind, (_, key) in lengths.items()})


def _prepare_two_stacks(loaded: Loaded, text: str, pair: str | None, truncate: bool) -> Prepared:
    source, source_tokens, notes = encode(loaded, text, truncate=truncate)
    if pair is None:
        tokens: dict[Kind, Tokens] = {"encoder": source_tokens}
        return Prepared(source, tokens, tokens, (*notes, ENCODER_ALONE), encoder_only=True)
    if not pair:
        raise UsageError("--pair is empty: the decoder has nothing to read")
    target, target_tokens, target_notes = encode(loaded, pair, truncate=truncate, target=True)
    ids, target_tokens = decoder_input(loaded, target["input_ids"], target_tokens)
    queries: dict[Kind, Tokens] = {"encoder": source_tokens, "decoder": target_tokens, "cross": target_tokens}
    keys: dict[Kind, Tokens] = {"encoder": source_tokens, "decoder": target_tokens, "cross": source_tokens}
    return Prepared({**source, "decoder_input_ids": ids}, queries, keys, (*notes, *target_notes))


def decoder_input(loaded: Loaded, ids: Tensor, tokens: Tokens) -> tuple[Tensor, Tokens]:
    """Return what the decoder reads to predict a target: the start token, then the target without its last token.

    A tokenizer that begins with the start token by itself has done so already.
    """
    start = start_token(loaded)
    if int(ids[0, 0]) == start:
        return ids, tokens
    shifted = torch.cat([torch.tensor([[start]], device=ids.device), ids[:, :-1]], dim=1)
    piece = str(loaded.tokenizer.convert_ids_to_tokens(start))
    first = Token(0, start, piece, piece, special=True, piece=piece, sequence=None)
    return shifted, (first, *(replace(token, position=token.position + 1) for token in tokens[:-1]))


def start_token(loaded: Loaded) -> int:
    """Return the id that an encoder–decoder's decoder reads first.

    Raises:
        CaptureError: Neither the generation settings nor the config have one.
    """
    for settings in (getattr(loaded.model, "generation_config", None), loaded.model.config):
        number = getattr(settings, "decoder_start_token_id", None)
        if isinstance(number, int):
            return number
    raise CaptureError(f"{loaded.name}: its config has no decoder_start_token_id")


def encode(
    loaded: Loaded,
    text: str,
    pair: str | None = None,
    *,
    truncate: bool = False,
    target: bool = False,
    specials: bool = True,
    whole: bool = False,
) -> tuple[dict[str, Tensor], Tokens, tuple[str, ...]]:
    """Tokenise, and give ``(tensors, tokens, notes)``.

    Args:
        target: Whether the text is the target of an encoder–decoder.
        specials: Whether the tokenizer adds its special tokens.
        whole: Whether to give all tokens, also where there are more than the model reads.

    Raises:
        UsageError: The text has no tokens, or too many.
    """
    limit = limits.NO_LIMIT if whole else token_limit(loaded, target=target)
    texts: dict[str, Any] = {"text_target": text} if target else {"text": text, "text_pair": pair}
    texts |= {"add_special_tokens": specials, "return_special_tokens_mask": True}
    made = tokenize(loaded, **texts, return_tensors="pt")
    notes: tuple[str, ...] = ()
    length = made["input_ids"].shape[1]
    if length > limit:
        if not truncate:
            one_text = pair is None and specials and not loaded.model.config.is_encoder_decoder
            raise too_long(loaded.name, length, limit, strides=one_text)
        made = tokenize(loaded, **texts, return_tensors="pt", truncation=True, max_length=limit)
        notes = (
            f"cut to the model's {limit:,} tokens: {length - made['input_ids'].shape[1]:,} are left out",
        )
    if made["input_ids"].shape[1] == 0:
        raise UsageError("the text has no tokens for this model: there is nothing to attend to")
    if (lacking := without_row(loaded, made["input_ids"][0].tolist(), target=target)) is not None:
        raise ModelError(
            f"{loaded.name}: {lacking}", "its tokenizer was extended and the model was not: leave it out"
        )
    tokens = read_tokens(loaded.tokenizer, made, text, pair)
    if target and not leads_back(loaded.tokenizer, tokens):
        raise ModelError(
            f"{loaded.name}: its tokenizer has other ids for the target's pieces, and does not say them",
            "leave --pair out: the encoder is shown; or let the model write with --generate",
        )
    if pair is not None:
        alone = tokenize(loaded, **texts | {"text_pair": None}, return_tensors="pt")
        notes += tuple(notes_on_pair(read_tokens(loaded.tokenizer, alone, text), tokens))
    notes += tuple(notes_on_text(tokens, text, pair, loaded.tokenizer.unk_token_id))
    accepted = ("input_ids", "attention_mask", "token_type_ids")
    device = loaded.device
    tensors = {name: made[name].to(device) for name in accepted if name in made}
    return tensors, tokens, notes


def token_limit(loaded: Loaded, *, target: bool = False) -> int:
    """Return the number of tokens that a model reads at most."""
    return limits.token_limit(loaded.model, loaded.tokenizer, target=target)


def tokenize(loaded: Loaded, **given: Any) -> Any:
    """Call a model's tokenizer.

    Raises:
        ModelError: It cannot read the text.
    """
    shown = safe_label(loaded.name)
    with refused_as(lambda reason: ModelError(f"{shown}: its tokenizer cannot read this text: {reason}")):
        return loaded.tokenizer(**given, verbose=False)


def without_row(loaded: Loaded, ids: Sequence[int], *, target: bool = False) -> str | None:
    """Return which token the model's embedding has no row for; None where it has all."""
    rows = limits.embedding_rows(loaded.model, target=target)
    if rows is None or max(ids, default=0) < rows:
        return None
    first = next(number for number in ids if number >= rows)
    piece = safe_label(str(loaded.tokenizer.convert_ids_to_tokens(first)))
    return f'the model\'s embedding has no row for the token "{piece}": its id is {first:,} of {rows:,}'
