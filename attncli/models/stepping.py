"""Runs a model step by step, as its library's own generation does: all of a prompt, then token after token."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from attncli.errors import CaptureError
from attncli.models.loading import Loaded

Choose = Callable[[Tensor], int | None]
Around = Callable[[int], AbstractContextManager[None]]


def _no_watch(seen: int) -> AbstractContextManager[None]:
    return nullcontext()


def decode(
    loaded: Loaded, inputs: Mapping[str, Tensor], start: Tensor, choose: Choose, around: Around = _no_watch
) -> bool:
    """Run a model step by step: `start` at once, then each chosen token alone against the cache.

    Args:
        choose: Returns the next token from the logits, or None to stop.
        around: What each step runs in; it is given the number of tokens seen before.

    Returns:
        Whether there is a cache; without one each step reads the whole text again.

    Raises:
        CaptureError: The model does not run so.
    """
    model, feed, cache, seen, name = loaded.model, start, None, 0, "input_ids"
    known = inspect.signature(model.forward).parameters
    cache_name = "cache" if "cache" in known else "past_key_values"  # transformers has renamed it
    common: dict[str, Any] = {"use_cache": True}
    with explained(f"{loaded.family} does not generate step by step"), _last_row_alone(model):
        if model.config.is_encoder_decoder:
            name = "decoder_input_ids"
            source = {key: value for key, value in inputs.items() if not key.startswith("decoder_")}
            with around(0):
                common["encoder_outputs"] = model.get_encoder()(**source)
            common["attention_mask"] = source.get("attention_mask")
        while True:
            if not model.config.is_encoder_decoder:
                common |= _places(known, start, seen, feed.shape[1])
            with around(seen):
                outputs = model(**{name: feed}, **{cache_name: cache}, **common)
            cache = getattr(outputs, "past_key_values", getattr(outputs, "cache", None))
            chosen = choose(outputs.logits[0, -1])
            if chosen is None:
                return cache is not None
            new = torch.tensor([[chosen]], dtype=start.dtype, device=start.device)
            if cache is None:
                feed = torch.cat([feed, new], dim=1)
            else:
                seen, feed = seen + feed.shape[1], new


def _places(known: Collection[str], like: Tensor, seen: int, new: int) -> dict[str, Tensor]:
    """Return positions and mask of a step, as the library's own generation gives them.

    A model left to count by its cache may be wrong where its first layer keeps none (Bamba).
    """
    places = torch.arange(seen, seen + new, device=like.device)[None]
    given = {"position_ids": places, "attention_mask": torch.ones_like(like[:, :1]).expand(-1, seen + new)}
    return {name: value for name, value in given.items() if name in known}


@contextmanager
def _last_row_alone(model: Any) -> Iterator[None]:
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
def explained(failure: str) -> Iterator[None]:
    """Raise our error for a failure of the model.

    Args:
        failure: What did not work: ``blip does not write``.
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, AssertionError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CaptureError(f"{failure}: {reason}") from error
