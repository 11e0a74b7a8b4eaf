"""Where the rows and columns of an attention operation stand in the text, when a cache holds what came before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import nn

from attncli.attention.operation import AttentionOperation
from attncli.capture.module_stack import Frame
from attncli.record import AttentionLayer


def first_positions(
    operation: AttentionOperation, layer: AttentionLayer, module: nn.Module, frame: Frame | None
) -> AttentionOperation:
    """Set the absolute positions of an operation's first query and first key.

    Without a cache both are 0. With one, the tokens seen so far are counted by the cache, and the last of them is
    the last query. A sliding cache has dropped old keys, so its first column is not position 0; a static one is
    longer than what was seen, and what follows is cut off.
    """
    if layer.kind == "cross":
        return operation
    seen, is_static = _tokens_seen(module, frame, operation.rows)
    if seen is None:
        seen = max(operation.keys, operation.rows)
        if operation.keys == operation.rows or layer.kind == "encoder":
            return (
                operation  # both begin at 0, as they do by default; some encoders put several keys together
            )
    if operation.keys > seen:
        shown = _first_keys(operation, seen) if is_static else operation
        return replace(shown, first_query=seen - operation.rows)
    return replace(operation, first_query=seen - operation.rows, first_key=seen - operation.keys)


def _first_keys(operation: AttentionOperation, keys: int) -> AttentionOperation:
    mask, bias, value = operation.mask, operation.bias, operation.value
    return replace(
        operation,
        key=operation.key[:, :, :keys],
        value=None if value is None else value[:, :, :keys],
        mask=None if mask is None else mask[..., :keys],
        bias=None if bias is None or bias.shape[-1] == 1 else bias[..., :keys],
    )


def _tokens_seen(module: nn.Module, frame: Frame | None, queries: int) -> tuple[int | None, bool]:
    """Ask the cache that the module was given, if any, how many tokens it has seen, those of this call included.

    Returns:
        The number, and whether the cache is as long from the start as it will ever be.
    """
    for cache in _caches(frame):
        for index in (getattr(module, "layer_idx", None), None):
            try:
                seen = int(cache.get_seq_length() if index is None else cache.get_seq_length(index))
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                continue
            if seen >= queries:
                layers = getattr(cache, "layers", ())
                return seen, any("Static" in type(layer).__name__ for layer in layers)
    return None, False


def _caches(frame: Frame | None) -> Iterator[Any]:
    given = () if frame is None else (*frame.args, *frame.inputs.values())
    for thing in given:
        thing = getattr(thing, "self_attention_cache", thing)
        if hasattr(thing, "get_seq_length"):
            yield thing
