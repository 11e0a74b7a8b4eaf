"""Runs a model step by step over tokens that it wrote: all of the prompt, then token after token."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor

from attncli.errors import CaptureError
from attncli.models.loading import Loaded

Around = Callable[[int], AbstractContextManager[None]]

_ALWAYS = {"input_ids", "attention_mask", "position_ids"}
_OF_TEXT = {*_ALWAYS, "token_type_ids"}


def replay(
    loaded: Loaded, inputs: Mapping[str, Tensor], start: Tensor, written: Sequence[int], around: Around
) -> None:
    """Run a model step by step: `start` at once, then each written token alone, against the cache.

    Args:
        around: What each step runs in; it is given the number of tokens seen before.

    Raises:
        CaptureError: The model does not run so.
    """
    model, cache, seen, name = loaded.model, None, 0, "input_ids"
    pictures = {} if model.config.is_encoder_decoder else of_pictures(inputs, start.shape[1])
    known = inspect.signature(model.forward).parameters
    common: dict[str, Any] = {"use_cache": True}
    with explained(loaded), last_row_alone(model):
        if model.config.is_encoder_decoder:
            name = "decoder_input_ids"
            source = {key: value for key, value in inputs.items() if not key.startswith("decoder_")}
            with around(0):
                common["encoder_outputs"] = model.get_encoder()(**source)
            common["attention_mask"] = source.get("attention_mask")
        for feed in (start, *(torch.full_like(start[:, :1], one) for one in written)):
            more = {} if seen else pictures
            if not model.config.is_encoder_decoder:
                common |= _places(known, start, seen, feed.shape[1], pictures=bool(pictures))
            with around(seen):
                outputs = model(**{name: feed}, **{str(cache_name(model)): cache}, **common, **more)
            cache = _cache_of(outputs)
            seen += feed.shape[1]


def cache_name(model: Any) -> str | None:
    """Return how a model calls its cache, which transformers has renamed; None where it has none."""
    known = inspect.signature(model.forward).parameters
    return next((name for name in ("cache", "past_key_values") if name in known), None)


@torch.inference_mode()
def keeps_cache(loaded: Loaded, start: Tensor) -> bool:
    """Return whether a model keeps keys and values of what it has read; some do only in the library's own loop."""
    model = loaded.model
    if cache_name(model) is None or model.config.is_encoder_decoder:
        return cache_name(model) is not None
    with explained(loaded):
        return _cache_of(model(input_ids=start[:, :1], use_cache=True)) is not None


def _cache_of(outputs: Any) -> Any:
    return getattr(outputs, "past_key_values", getattr(outputs, "cache", None))


def of_pictures(inputs: Mapping[str, Tensor], length: int | None = None) -> dict[str, Tensor]:
    """Return the inputs that a text with pictures has besides its ids; none where it has no pictures.

    Args:
        length: How long the text is to be: what a model writes is text, and so of kind 0; what is after it is cut off.
    """
    if inputs.keys() <= _OF_TEXT:
        return {}
    return {
        name: torch.nn.functional.pad(value, (0, length - value.shape[-1]))
        if name.endswith("type_ids") and length is not None
        else value
        for name, value in inputs.items()
        if name not in _ALWAYS
    }


def _places(
    known: Collection[str], like: Tensor, seen: int, new: int, *, pictures: bool
) -> dict[str, Tensor | None]:
    """Return positions and mask of a step, as the library's own generation gives them.

    A model left to count by its cache may be wrong where its first layer keeps none (Bamba). Where a text has pictures,
    positions are the model's to count (Qwen2-VL), which takes a mask for that of the new tokens.

    Args:
        pictures: Whether the text has some.
    """
    places = torch.arange(seen, seen + new, device=like.device)[None]
    mask = torch.ones_like(like[:, :1]).expand(-1, seen + new)
    given: dict[str, Tensor | None] = {"position_ids": places, "attention_mask": mask}
    if pictures:
        given = {"attention_mask": None if seen else mask}
    return {name: value for name, value in given.items() if name in known}


@contextmanager
def last_row_alone(model: Any) -> Iterator[None]:
    """Let the language-model head see the last row only, since a whole text's logits outweigh everything else.

    With ``logits_to_keep`` some models leave rows out of their layers too: those that share keys and values.
    """

    def last(module: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        rows = args[0] if args else None
        is_batch = isinstance(rows, Tensor) and rows.dim() == 3
        return (rows[:, -1:], *args[1:]) if is_batch else None  # type: ignore[index]

    head = model.get_output_embeddings()
    hook = None if head is None else head.register_forward_pre_hook(last)
    try:
        yield
    finally:
        if hook is not None:
            hook.remove()


@contextmanager
def explained(loaded: Loaded, failure: str = "does not generate step by step") -> Iterator[None]:
    """Yield a failure of the model in our words."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, AssertionError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CaptureError(f"{loaded.family} {failure}: {reason}") from error
