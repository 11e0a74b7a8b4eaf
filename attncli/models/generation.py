"""A model that goes on writing: one map over its prompt and what it wrote, as its cached steps really attended.

The model writes first, unobserved. Then the same tokens go through the same steps again, observed: the prompt at
once, each further token alone, against the cache. Only so is it known beforehand how long the axes are, and the
observers see what the model does when it generates, not a second pass over the whole text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attncli.attention.operation import AttentionOperation
from attncli.capture.blocks import BlockFeed
from attncli.capture.forward_pass import Watch
from attncli.capture.merge_reports import joined_reports
from attncli.errors import CaptureError, UsageError
from attncli.labels import fit, safe_label
from attncli.models.loading import Loaded
from attncli.models.prepared_text import ENCODER_ALONE, Prepared, start_token, token_limit
from attncli.models.pretrained import PretrainedSource
from attncli.models.python_tokenizers import read_ids
from attncli.models.stepping import (
    Around,
    cache_name,
    explained,
    keeps_cache,
    last_row_alone,
    of_pictures,
    replay,
)
from attncli.record import AttentionLayer, Kind, Observer, Request, Run, Token, Tokens, WeightBlock
from attncli.view import Picture

_LONGEST_NOTE = 400


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen.

    Args:
        tokens: How many are written at most; fewer where the model ends its text.
        temperature: 0 takes the likeliest; above, tokens are drawn, by the model's own settings for the rest.
        seed: Of the draws.
    """

    tokens: int
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class GeneratedSource:
    """A model, its prompt and what it wrote.

    Args:
        whole: The model over prompt and written tokens, as if it read them at once.
        start: What the decoder was given at first ``(1, n)``.
        written: The ids it wrote.
        seed: Of the draws; None where there were none.
        cached: Whether the model keeps keys and values; without, each step reads all from the beginning.
    """

    whole: PretrainedSource
    start: Tensor
    written: tuple[int, ...]
    seed: int | None = None
    cached: bool = True

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention that the steps have."""
        return self.whole.kinds

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Each view of each picture that the text has."""
        return self.whole.pictures

    def depth(self, kind: Kind) -> int:
        """Return the number of layers of the stack that has this kind of attention."""
        return self.whole.depth(kind)

    def axes(self, kind: Kind) -> tuple[Tokens, Tokens]:
        """Return the query and key tokens of a kind of attention, the written ones included."""
        return self.whole.axes(kind)

    @torch.inference_mode()
    def run(self, observers: Sequence[Observer]) -> Run:
        """Let the same tokens through the same steps again, and show the observers what they asked for.

        Raises:
            CaptureError: The model's attention cannot be seen, or a self-check failed.
            UsageError: An observer asked for what is not there.
        """
        if not self.cached:
            return replace(self.whole.run(observers), seed=self.seed)
        lengths = {kind: len(self.axes(kind)[1]) for kind in self.kinds}
        emitter = BlockFeed([_Widened(observer, lengths) for observer in observers], verify=self.whole.verify)
        replay(self.whole.loaded, self.whole.prepared.inputs, self.start, self.written, self._watch(emitter))
        if not emitter.attention_layers:  # the model does not go through the attention interface
            return replace(self.whole.run(observers), seed=self.seed)
        emitter.attention_layers[:] = dict.fromkeys(emitter.attention_layers)
        emitter.reports[:] = joined_reports(emitter.reports)
        return replace(self.whole.result(emitter, self.whole.prepared.notes), seed=self.seed)

    def _watch(self, emitter: BlockFeed) -> Around:
        @contextmanager
        def around(seen: int) -> Iterator[None]:
            # A watch for each step: it counts how often a module is called within one.
            def place(operation: AttentionOperation, kind: Kind) -> AttentionOperation:
                return _placed(operation, kind, seen)

            with Watch(self.whole.loaded.model, emitter, self.kinds, 1, place, self.whole.stacks).watching():
                yield

        return around


def write(
    loaded: Loaded,
    prepared: Prepared,
    sampling: Sampling,
    *,
    verify: bool = True,
    prompt: Sequence[int] = (),
) -> GeneratedSource:
    """Let a model go on writing after a prompt.

    Args:
        loaded: The model with its language-model head.
        prepared: The prompt, or the source text of an encoder–decoder.
        prompt: What an encoder–decoder's decoder starts from, where that is not its start token alone.

    Raises:
        UsageError: The model does not write, or has no room for what it should write.
        CaptureError: It does not run step by step.
    """
    if not loaded.model.config.is_encoder_decoder and "decoder" not in prepared.queries:
        raise UsageError(
            f"--generate: {loaded.name} ({loaded.family}) is an encoder, which cannot generate",
            "name a decoder",
        )
    start, begun = _start(loaded, prepared, prompt)
    _check_room(loaded, len(begun), sampling.tokens)
    ids = _generate(loaded, prepared.inputs, start, sampling)
    made = _whole(loaded, prepared, start, begun, ids)
    note = _note(loaded, ids, len(begun), sampling)
    source = PretrainedSource(loaded, replace(made, notes=(*made.notes, note)), verify)
    seed = sampling.seed if sampling.temperature > 0 else None
    return GeneratedSource(source, start, tuple(ids), seed, keeps_cache(loaded, start))


def _generate(loaded: Loaded, inputs: Mapping[str, Tensor], start: Tensor, sampling: Sampling) -> list[int]:
    """Let the library write by the model's own generation settings, without beams, and return the ids."""
    from transformers import DynamicCache, EncoderDecoderCache, GenerationMixin

    settings: dict[str, Any] = {"max_new_tokens": sampling.tokens, "num_beams": 1, "do_sample": False}
    settings |= {"forced_eos_token_id": None, "use_cache": True}
    if sampling.temperature > 0:
        settings |= {"do_sample": True, "temperature": sampling.temperature}
    if loaded.model.config.is_encoder_decoder:
        given = {key: value for key, value in inputs.items() if not key.startswith("decoder_")}
        settings |= {**given, "decoder_input_ids": start}
        if name := cache_name(loaded.model):  # the library's own is as deep as the encoder
            settings[name] = EncoderDecoderCache(DynamicCache(), DynamicCache())
    else:
        settings |= {"input_ids": start, "attention_mask": torch.ones_like(start), **of_pictures(inputs)}
    devices = [loaded.device] if loaded.device.type == "cuda" else []
    with explained(loaded), last_row_alone(loaded.model), torch.random.fork_rng(devices):
        torch.manual_seed(sampling.seed)
        made: Tensor = GenerationMixin.generate(loaded.model, **settings)
    return [int(one) for one in made[0, start.shape[1] :]]


def _start(loaded: Loaded, prepared: Prepared, given: Sequence[int]) -> tuple[Tensor, Tokens]:
    """Return what the decoder reads first: the prompt, or an encoder–decoder's start token, or what is given."""
    if not loaded.model.config.is_encoder_decoder:
        return prepared.inputs["input_ids"], prepared.queries["decoder"]
    numbers = list(given) or [start_token(loaded)]
    return torch.tensor([numbers], device=loaded.device), start_tokens(loaded, numbers)


def start_tokens(loaded: Loaded, numbers: Sequence[int]) -> Tokens:
    """Return the tokens that a decoder starts from, by their ids."""
    pieces = [str(loaded.tokenizer.convert_ids_to_tokens(one)) for one in numbers]
    return tuple(
        Token(place, one, piece, safe_label(piece), special=True, piece=piece, sequence=None)
        for place, (one, piece) in enumerate(zip(numbers, pieces, strict=True))
    )


def _check_room(loaded: Loaded, prompt: int, tokens: int) -> None:
    limit = token_limit(loaded, target=bool(loaded.model.config.is_encoder_decoder))
    if prompt + tokens > limit:
        raise UsageError(
            f"--generate {tokens}: with the prompt's {prompt:,} tokens that is more than the {limit:,} that "
            f"{loaded.name} reads",
            f"--generate {limit - prompt} fits" if limit > prompt else "shorten the text",
        )


def _whole(loaded: Loaded, prepared: Prepared, start: Tensor, prompt: Tokens, ids: Sequence[int]) -> Prepared:
    """Make prompt and written tokens ready together."""
    tokens = (*marked(prompt), *written_tokens(loaded, prompt, ids))
    all_ids = torch.cat([start, torch.tensor([list(ids)], dtype=start.dtype, device=start.device)], dim=1)
    if not loaded.model.config.is_encoder_decoder:
        whole = {"input_ids": all_ids, "attention_mask": torch.ones_like(all_ids)}
        whole |= of_pictures(prepared.inputs, all_ids.shape[1])
        axes: dict[Kind, Tokens] = {"decoder": tokens}
        return Prepared(whole, axes, axes, prepared.notes, pictures=prepared.pictures)
    source = prepared.queries["encoder"]
    queries: dict[Kind, Tokens] = {"encoder": source, "decoder": tokens, "cross": tokens}
    keys: dict[Kind, Tokens] = {"encoder": source, "decoder": tokens, "cross": source}
    notes = tuple(note for note in prepared.notes if note != ENCODER_ALONE)
    return Prepared({**prepared.inputs, "decoder_input_ids": all_ids}, queries, keys, notes)


def marked(prompt: Tokens) -> Tokens:
    """Return tokens with the note that they were there before the model wrote."""
    return tuple(replace(token, segment=token.segment or "prompt") for token in prompt)


def written_tokens(loaded: Loaded, prompt: Tokens, ids: Sequence[int]) -> Tokens:
    """Return the tokens that a model wrote after a prompt."""
    before = [
        token.id for token in prompt[-1:] if token.id is not None
    ]  # a piece may go on with the prompt's last word
    tokens = read_ids(loaded.tokenizer, [*before, *ids])[len(before) :]
    return tuple(
        replace(token, position=len(prompt) + index, segment="generated")
        for index, token in enumerate(tokens)
    )


def _note(loaded: Loaded, ids: Sequence[int], prompt: int, sampling: Sampling) -> str:
    text = fit(safe_label(loaded.tokenizer.decode(ids, skip_special_tokens=True)), _LONGEST_NOTE)
    how = (
        "greedy"
        if sampling.temperature == 0
        else f"temperature {sampling.temperature:g}, seed {sampling.seed}"
    )
    ends = loaded.model.generation_config.eos_token_id
    ended = ids[-1] in (ends if isinstance(ends, list) else [ends])
    end = ", then ended" if ended else ""
    return f'generated from position {prompt} on (▸, {len(ids)} tokens, {how}{end}): "{text}"'


def _placed(operation: AttentionOperation, kind: Kind, seen: int) -> AttentionOperation:
    """Return a step's rows and columns their true positions.

    A sliding layer's cache has dropped old keys, and nothing passed to it tells: counted from the end, key j of
    `keys` stands at ``seen + rows − keys + j``.
    """
    if kind == "encoder":
        return operation
    if kind == "cross":
        return replace(operation, first_query=seen)
    first_key = seen + operation.rows - operation.keys
    if first_key < 0:
        raise CaptureError(
            f"{operation.keys} keys after {seen + operation.rows} tokens: the model changes the number of keys inside"
        )
    return replace(operation, first_query=seen, first_key=first_key)


@dataclass
class _Widened:
    """Shows an observer each step's rows over all keys: those not there yet, or dropped, are forbidden and 0.

    A layer is asked about once. Its rows come step by step, between those of the other layers.

    Args:
        lengths: Number of keys by kind.
    """

    observer: Observer
    lengths: Mapping[Kind, int]
    _requests: dict[AttentionLayer, Request | None] = field(default_factory=dict)

    def request(self, layer: AttentionLayer) -> Request | None:
        """Ask the observer, once for each layer."""
        if layer not in self._requests:
            self._requests[layer] = self.observer.request(layer)
        return self._requests[layer]

    def update(self, block: WeightBlock) -> None:
        """Pass a block on, as wide as all keys."""
        keys = block.weights.shape[-1]
        before, after = block.first_key, self.lengths[block.layer.kind] - block.first_key - keys
        if not before and not after:
            self.observer.update(block)
            return
        weights = torch.nn.functional.pad(block.weights, (before, after))
        allowed = block.allowed
        if allowed is None:
            allowed = torch.ones((1, 1, 1, keys), dtype=torch.bool, device=weights.device)
        allowed = torch.nn.functional.pad(allowed, (before, after), value=False)
        self.observer.update(replace(block, weights=weights, allowed=allowed, first_key=0))
