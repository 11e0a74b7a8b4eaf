"""A picture as the input of a model that writes down what it sees: BLIP, TrOCR, Donut, Pix2Struct and their like.

The model writes by its library's own generation, unobserved, and then reads what it wrote once more, observed: one
pass has the encoder over the patches, the decoder over the text, and the cross-attention between them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attncli.errors import UsageError
from attncli.labels import fit, safe_label
from attncli.models.generation import marked, start_tokens, written_tokens
from attncli.models.loading import Loaded
from attncli.models.prepared_text import Prepared, decoder_input, encode, start_token, token_limit
from attncli.models.pretrained import PretrainedSource
from attncli.models.stepping import explained
from attncli.models.vision import look_at
from attncli.record import Kind, Tokens
from attncli.view import Picture

_LONGEST_NOTE = 400
_MOST_WRITTEN = 40
"""Tokens that a model writes at most whose settings do not say."""


def part_that_sees(loaded: Loaded) -> Loaded:
    """Return the encoder of a model that writes of pictures, which can look at one by itself."""
    model = loaded.model
    part = getattr(model, "vision_model", None)
    return replace(loaded, model=model.get_encoder() if part is None else part)


def write_of(
    loaded: Loaded, path: Path, text: str | None = None, *, tokens: int | None = None, verify: bool = True
) -> tuple[PretrainedSource, Picture | None]:
    """Let a model write down what it sees in a picture.

    Args:
        text: What it is to have written; where None it writes itself, greedily.
        tokens: How many tokens it writes at most; as its settings say where None.

    Returns:
        The source, and the picture as the model sees it; None where its tokens are no grid of patches.

    Raises:
        ReadError: The file is no picture that can be read.
        UsageError: The text is empty or too long.
        CaptureError: The model does not write.
    """
    seen, picture = look_at(part_that_sees(loaded), path)
    inputs = dict(seen.prepared.inputs)
    if text is None:
        ids, target, notes = _written(loaded, inputs, tokens)
    else:
        ids, target, notes = _given(loaded, text)
    name = "decoder_input_ids" if "decoder_input_ids" in _arguments(loaded.model) else "input_ids"
    patches = seen.prepared.keys["encoder"]
    queries: dict[Kind, Tokens] = {"encoder": patches, "decoder": target, "cross": target}
    keys: dict[Kind, Tokens] = {"encoder": patches, "decoder": target, "cross": patches}
    prepared = Prepared({**inputs, name: ids}, queries, keys, (*seen.prepared.notes, *notes))
    return PretrainedSource(loaded, prepared, verify), picture


def _arguments(model: Any) -> Sequence[str]:
    return list(inspect.signature(model.forward).parameters)


def _written(
    loaded: Loaded, inputs: Mapping[str, Tensor], tokens: int | None
) -> tuple[Tensor, Tokens, tuple[str, ...]]:
    """Let the model write, always the likeliest next token."""
    settings = loaded.model.generation_config
    most = tokens or settings.max_new_tokens or settings.max_length or _MOST_WRITTEN
    most = min(most, token_limit(loaded, target=True) - 1)
    with torch.inference_mode(), explained(loaded, "does not write of this picture"):
        ids = loaded.model.generate(**inputs, do_sample=False, num_beams=1, max_new_tokens=most)
    numbers: list[int] = ids[0].tolist()
    begun = 1 if numbers and numbers[0] == start_token(loaded) else 0
    prompt = start_tokens(loaded, numbers[:begun])
    written = written_tokens(loaded, prompt, numbers[begun:])
    said = fit(safe_label(loaded.tokenizer.decode(numbers[begun:], skip_special_tokens=True)), _LONGEST_NOTE)
    note = f'written from position {begun} on (▸, {len(written)} tokens, greedy): "{said}"'
    return ids[:1], (*marked(prompt), *written), (note,)


def _given(loaded: Loaded, text: str) -> tuple[Tensor, Tokens, tuple[str, ...]]:
    """Make a text ready as what the model is to have written: after its start token, which the text may name itself."""
    if not text:
        raise UsageError("--pair is empty: the decoder has nothing to read")
    made, tokens, notes = encode(loaded, text, target=True, specials=False)
    ids, start = made["input_ids"], start_token(loaded)
    if int(ids[0, 0]) == start:
        return ids, tokens, notes
    if "decoder_input_ids" in _arguments(loaded.model):
        made, tokens, notes = encode(loaded, text, target=True)
        return (*decoder_input(loaded, made["input_ids"], tokens), notes)
    moved = (replace(token, position=token.position + 1) for token in tokens)
    return torch.cat([ids.new_tensor([[start]]), ids], dim=1), (*start_tokens(loaded, [start]), *moved), notes
