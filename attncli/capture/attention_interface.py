"""Sees every attention call of a transformers model while the model runs its own fast attention.

All models that go through transformers' attention interface ask ``AttentionInterface`` for a function and call it
with query, key, value, mask. Here that look-up is wrapped for the time of one forward pass: the function that is
handed out is the same one, called with the same arguments; its result is the model's. What it was called with is
shown to an observer afterwards, so the model's output stays bit for bit what it is without us.

Registering a custom attention function instead, as documented, changes some models in silence: masks that are only
built for known implementations are dropped, and so are attention sinks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attncli.attention.operation import AttentionOperation
from attncli.errors import CaptureError

_ROWS_AT_A_TIME = 64
_FIRST_ROWS = 8

_ARGUMENTS = ("module", "query", "key", "value", "attention_mask")


@dataclass(frozen=True)
class Call:
    """One call of an attention function: what it was given and what it returned.

    Args:
        implementation: ``sdpa``, ``eager``, ``flash_attention_2``, ``flex_attention``, …: it decides what a mask means.
        output: ``(batch, query, heads, value_dim)``, as transformers' attention functions return it; None before it
            has run.
        function: The attention function.
    """

    implementation: str
    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    attention_mask: Any
    options: Mapping[str, Any]
    output: Tensor | None
    function: Callable[..., Any] | None = None

    def copy(self) -> Call:
        """Return a call whose query, key, value and output stay as they are, whatever the model does with its own.

        The mask and the options, which layers share, are not copied; were they changed, the weights would no longer
        give the output, and the self-check says so.
        """
        assert self.output is not None
        tensors = self.query, self.key, self.value
        query, key, value = (tensor.clone(memory_format=torch.contiguous_format) for tensor in tensors)
        return Call(
            self.implementation, self.module, query, key, value, self.attention_mask, self.options,
            self.output.clone(), self.function,
        )  # fmt: skip

    def own(self, rows: slice) -> Tensor:
        """Run the attention function on some of the rows alone: ``(batch, heads, rows, value_dim)``."""
        assert self.function is not None
        mask = self.attention_mask[:, :, rows] if self.attention_mask.shape[2] > 1 else self.attention_mask
        query = self.query[:, :, rows]
        result: Tensor = self.function(self.module, query, self.key, self.value, mask, **self.options)[0]
        return result.transpose(1, 2)


Suppress = Callable[[], AbstractContextManager[None]]
Instead = Callable[[Call], Tensor | None]


@contextmanager
def watched(
    on_call: Callable[[Call], None], suppressed: Suppress = nullcontext, instead: Instead | None = None
) -> Iterator[None]:
    """Show every attention call that is made inside the block. Process-wide, so not for threads side by side.

    Args:
        suppressed: A context for the attention function to run in, for those who watch what lies below as well.
        instead: Is asked first whether it makes a call's output, ``(batch, query, heads, value_dim)``; such a call is
            not shown.
    """
    from transformers import AttentionInterface

    get_interface, get_item = AttentionInterface.get_interface, AttentionInterface.__getitem__

    def wrapped_get_interface(self: Any, attn_implementation: str, default: Any) -> Any:
        function = get_interface(self, attn_implementation, default)
        return _wrap(function, attn_implementation, on_call, suppressed, instead)

    def wrapped_get_item(self: Any, attn_implementation: str) -> Any:
        return _wrap(get_item(self, attn_implementation), attn_implementation, on_call, suppressed, instead)

    own_get_item = "__getitem__" in vars(AttentionInterface)
    AttentionInterface.get_interface = wrapped_get_interface
    AttentionInterface.__getitem__ = wrapped_get_item
    try:
        yield
    finally:
        AttentionInterface.get_interface = get_interface
        if own_get_item:
            AttentionInterface.__getitem__ = get_item
        else:
            del AttentionInterface.__getitem__


def _wrap(
    function: Any,
    implementation: str | None,
    on_call: Callable[[Call], None],
    suppressed: Suppress,
    instead: Instead | None,
) -> Any:
    if function is None or hasattr(function, "attncli_watched"):
        return function

    def attention(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(_ARGUMENTS, args, strict=False)) | kwargs
        options = {name: value for name, value in given.items() if name not in _ARGUMENTS}
        tensors = (given["query"], given["key"], given["value"], given.get("attention_mask"))
        seen = implementation or "eager", given["module"], *tensors, options
        made = None if instead is None else instead(Call(*seen, None, function))
        if made is not None:
            return made, None
        with suppressed():
            result = function(*args, **kwargs)
        on_call(Call(*seen, result[0], function))
        return result

    attention.attncli_watched = True  # type: ignore[attr-defined]
    return attention


def operation_of(call: Call) -> AttentionOperation:
    """Return what an attention call computes, in our own terms.

    Raises:
        CaptureError: The call uses something that is not understood.
    """
    mask, bias, causal_offset = _mask_of(call)
    mask = _sparse(call, mask)
    position_bias = call.options.get("position_bias")
    if position_bias is not None:
        bias = position_bias if bias is None else bias + position_bias
    sink = call.options.get("s_aux", call.options.get("sinks"))
    scale = call.options.get("scaling")
    return AttentionOperation(
        query=call.query,
        key=call.key,
        value=call.value,
        scale=call.query.shape[-1] ** -0.5 if scale is None else float(scale),
        mask=mask,
        causal_offset=causal_offset,
        bias=bias,
        softcap=call.options.get("softcap"),
        sink=sink if sink is None or sink.dim() == 4 else sink.reshape(-1),
    )


def _mask_of(call: Call) -> tuple[Tensor | None, Tensor | None, int | None]:
    """Return ``(mask, bias, causal_offset)``. What a mask, or none, means depends on the implementation."""
    mask, keys = call.attention_mask, call.key.shape[2]
    implementation = call.implementation.removeprefix("paged|")
    if isinstance(mask, Tensor) and mask.dim() == 4:
        allowed, bias = _split(mask[..., :keys])
        return allowed, bias, None
    if implementation == "eager" and mask is None:
        return None, None, None
    if implementation == "sdpa" and mask is None:
        return None, None, 0 if _sdpa_is_causal(call) else None
    if implementation == "flex_attention" and hasattr(mask, "mask_mod"):
        return _from_mask_mod(call), None, None
    if implementation.startswith("flash") or "/" in implementation:
        return _flash_mask(call)
    shape = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
    raise CaptureError(
        f"{type(call.module).__name__} passes a mask of a form that is not known ({shape}, {call.implementation})",
        "load the model with --attention eager",
    )


def _sparse(call: Call, mask: Tensor | None) -> Tensor | None:
    """Leave only the keys that an indexer chose, where the kernel gets their indices and no mask (DeepSeek-V3.2)."""
    if call.implementation in ("sdpa", "eager"):
        return mask  # the model has put them into the mask
    if call.options.get("block_indices") is not None:
        raise CaptureError(
            f"{type(call.module).__name__} leaves the choice of key blocks to the {call.implementation} kernel",
            "load the model with --attention sdpa",
        )
    indices = call.options.get("indices")
    if indices is None:
        return mask
    batch, queries, keys = call.query.shape[0], call.query.shape[2], call.key.shape[2]
    chosen = torch.zeros(batch, queries, keys + 1, dtype=torch.bool, device=call.query.device)
    chosen.scatter_(-1, indices.long().masked_fill(indices < 0, keys), True)  # −1 stands for none
    chosen = chosen[:, None, :, :keys]
    return chosen if mask is None else mask & chosen


def _split(mask: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Split a 4-D mask, boolean (True = keep) or additive, into what it forbids and what it adds."""
    if mask.dtype == torch.bool:
        return (None if _all(mask) else mask), None
    if not mask.is_floating_point():
        return _split(mask.bool())
    # Half the smallest number, since some models add two masks; −10,000 is what older models use for "never".
    lowest = torch.finfo(mask.dtype).min / 2
    allowed, plain = torch.empty_like(mask, dtype=torch.bool), True
    for first in range(0, mask.shape[2], _ROWS_AT_A_TIME):  # few enough to stay in the cache
        part = mask[:, :, first : first + _ROWS_AT_A_TIME]
        here = torch.gt(part, lowest, out=allowed[:, :, first : first + _ROWS_AT_A_TIME])
        plain = plain and not any(map(float, torch.aminmax(torch.where(here, part, 0.0))))
    if not plain:
        allowed &= mask != -1e4
    bias = None if plain else mask.masked_fill(~allowed, 0.0)
    return None if _all(allowed) else allowed, bias if bias is None or bool(bias.any()) else None


def _all(truth: Tensor) -> bool:
    """Reduce as `torch.all` does, over bytes, which is many times as fast on a CPU."""
    return bool(truth.view(torch.uint8).amin())


def _sdpa_is_causal(call: Call) -> bool:
    asked = call.options.get("is_causal")
    causal = getattr(call.module, "is_causal", True) if asked is None else asked
    return bool(causal) and call.query.shape[2] > 1


def _flash_mask(call: Call) -> tuple[Tensor | None, Tensor | None, int | None]:
    """Read a flash call: a 2-D padding mask or none, causality and window as arguments."""
    queries, keys = call.query.shape[2], call.key.shape[2]
    asked = call.options.get("is_causal")
    causal = getattr(call.module, "is_causal", True) if asked is None else asked
    mask = None
    if isinstance(call.attention_mask, Tensor):
        mask = call.attention_mask[:, None, None, -keys:].bool()
    window = call.options.get("sliding_window")
    if window is not None and causal:
        query = torch.arange(queries, device=call.query.device).unsqueeze(-1) + (keys - queries)
        near = (query - torch.arange(keys, device=call.query.device) < window)[None, None]
        mask = near if mask is None else mask & near
    return mask, None, keys - queries if causal else None


def _from_mask_mod(call: Call) -> Tensor:
    batch, heads, queries = call.query.shape[:3]
    ranges = [
        torch.arange(size, device=call.query.device) for size in (batch, heads, queries, call.key.shape[2])
    ]
    grid = [axis.reshape([-1 if i == j else 1 for j in range(4)]) for i, axis in enumerate(ranges)]
    allowed: Tensor = call.attention_mask.mask_mod(*grid)
    return allowed.expand(*torch.broadcast_shapes(allowed.shape, (1, 1, queries, call.key.shape[2])))  # type: ignore[no-untyped-call]


def hides_the_future(call: Call) -> bool:
    """Return whether an operation is causal: by the mask of its first rows, or by its module where there is one row."""
    queries, before = call.query.shape[2], call.key.shape[2] - call.query.shape[2]
    rows = min(queries, _FIRST_ROWS)
    mask = call.attention_mask
    if isinstance(mask, Tensor) and mask.dim() == 4 and mask.shape[2] > 1:
        mask = mask[:, :, :rows]
    try:
        first = replace(call, query=call.query[:, :, :rows], attention_mask=mask)
        allowed, _, causal_offset = _mask_of(first)
    except CaptureError:  # a mask that is not understood
        rows = 1
    if rows == 1:
        return getattr(call.module, "is_causal", None) is True
    if allowed is None or causal_offset is not None:
        return causal_offset is not None
    return allowed.shape[2] > 1 and not bool(allowed.triu(1 + before).any())


def faster_by_blocks(call: Call, dense_keys: int) -> bool:
    """Return whether our own pass over blocks is faster than the model's kernel.

    So it is where that kernel holds a whole matrix of scores, or a whole mask of floats: with a soft-cap, a sink or a
    window, on a text that is long. For plain causal attention the model's kernel is the faster one.
    """
    mask, sink = call.attention_mask, call.options.get("s_aux", call.options.get("sinks"))
    if call.key.shape[2] <= dense_keys or call.query.shape[2] == 1:
        return False
    if call.implementation not in ("sdpa", "eager") or not (isinstance(mask, Tensor) and mask.dim() == 4):
        return False
    if sink is not None and sink.dim() == 4:
        return False  # one for each query: not known to the tiles
    return sink is not None or any(
        call.options.get(name) is not None for name in ("softcap", "sliding_window")
    )
