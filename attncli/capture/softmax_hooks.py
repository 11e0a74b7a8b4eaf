"""Sees attention that does not go through transformers' attention interface, while the model runs as it always does.

Two more places are watched for the time of one forward pass. ``scaled_dot_product_attention`` is given query, key,
value and mask, as the interface is. Below that there is only ``softmax``: its result is the weights themselves, one
layer at a time. Which module is at work is known from a stack of frames, which the modules' forwards keep.

What is called from inside an attention function of the interface has been seen already and is not looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attncli.capture.module_stack import Frame, SdpaCall, Softmax, Trace

_FUSED_ARGUMENTS = (
    "query key value embed_dim num_head qkv_weight qkv_bias proj_weight proj_bias mask need_weights "
    "average_attn_weights mask_type"
).split()


@contextmanager
def tapped(
    trace: Trace,
    modules: Sequence[nn.Module],
    on_sdpa: Callable[[Frame, SdpaCall], None],
    on_softmax: Callable[[Frame, Softmax], None],
    on_leave: Callable[[Frame], None],
) -> Iterator[None]:
    """Watch a model's modules, ``scaled_dot_product_attention`` and softmax. Process-wide, so not for threads.

    Args:
        modules: Those that `worth_watching` gives.
        on_softmax: Called for softmaxes over the last axis of at least three, made directly by an attention module.
        on_leave: Called when a module that made softmaxes has ended.
    """
    with ExitStack() as undo:
        undo.callback(trace.frames.clear)
        for module in modules:
            follow = _hooked if type(module).__module__.startswith("torch.") else _wrapped
            undo.callback(follow(trace, module, on_leave))
        undo.enter_context(_sdpa_patched(trace, on_sdpa))
        undo.enter_context(_softmax_patched(trace, on_softmax))
        undo.enter_context(_fast_path_patched(trace, on_softmax))
        yield


def _wrapped(trace: Trace, module: nn.Module, on_leave: Callable[[Frame], None]) -> Callable[[], None]:
    """Set a forward of our own on a module, which runs the module's: less than half of what hooks cost on a short text.

    Returns:
        What undoes it.
    """
    own, original = "forward" in vars(module), module.forward

    def forward(*args: Any, **inputs: Any) -> Any:
        trace.enter(module, args, inputs)
        output = original(*args, **inputs)
        _left(trace, module, on_leave)
        return output

    def undo() -> None:
        if own:
            vars(module)["forward"] = original
        else:
            del vars(module)["forward"]

    forward.__wrapped__ = original  # type: ignore[attr-defined]  # some models read their layers' signatures
    vars(module)["forward"] = forward
    return undo


def _hooked(trace: Trace, module: nn.Module, on_leave: Callable[[Frame], None]) -> Callable[[], None]:
    """Set hooks on one of torch's own modules: some, when they have none, run in one step that nobody sees into.

    Returns:
        What undoes it.
    """

    def before(module: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        trace.enter(module, args, inputs)

    def after(module: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any], output: Any) -> None:
        _left(trace, module, on_leave)

    handles = (
        module.register_forward_pre_hook(before, with_kwargs=True),
        module.register_forward_hook(after, with_kwargs=True),
    )

    def undo() -> None:
        for handle in handles:
            handle.remove()

    return undo


def _left(trace: Trace, module: nn.Module, on_leave: Callable[[Frame], None]) -> None:
    frame = trace.leave(module)
    if frame is not None and frame.softmaxes:
        with trace.suppressed():
            on_leave(frame)


@contextmanager
def _sdpa_patched(trace: Trace, on_sdpa: Callable[[Frame, SdpaCall], None]) -> Iterator[None]:
    original = nn.functional.scaled_dot_product_attention

    def sdpa(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        with trace.suppressed():
            output: Tensor = original(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        if not trace.quiet and trace.frames:
            call = SdpaCall(query, key, value, attn_mask, is_causal, scale, output)
            with trace.suppressed():
                on_sdpa(trace.frames[-1], call)
        return output

    nn.functional.scaled_dot_product_attention = sdpa
    try:
        yield
    finally:
        nn.functional.scaled_dot_product_attention = original


@contextmanager
def _fast_path_patched(trace: Trace, on_softmax: Callable[[Frame, Softmax], None]) -> Iterator[None]:
    """Watch the one fused operation in which ``nn.MultiheadAttention`` computes all of itself at inference.

    It is run as the model asked, and once more for the weights, so that the model's output stays what it is.
    """
    original = torch._native_multi_head_attention

    def fused(*args: Any, **kwargs: Any) -> Any:
        frame = None if trace.quiet else trace.attention_frame()
        with trace.suppressed():
            result = original(*args, **kwargs)
            if frame is not None:
                given = dict(zip(_FUSED_ARGUMENTS, args, strict=False)) | kwargs
                given |= {"need_weights": True, "average_attn_weights": False}
                weights = original(**given)[1]
                on_softmax(frame, Softmax(weights.log(), weights))
        return result

    torch._native_multi_head_attention = fused
    try:
        yield
    finally:
        torch._native_multi_head_attention = original


@contextmanager
def _softmax_patched(trace: Trace, on_softmax: Callable[[Frame, Softmax], None]) -> Iterator[None]:
    """Wrap softmax wherever Python code can reach it; a method inherited from C++ is set and then deleted."""

    def wrap(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def softmax(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            if trace.quiet:
                return original(input, *args, **kwargs)
            with trace.suppressed():
                weights = original(input, *args, **kwargs)
            if _over_last_axis(input, args, kwargs):
                frame = trace.attention_frame()
                if frame is not None:
                    with trace.suppressed():  # what we compute ourselves is not the model's
                        on_softmax(frame, Softmax(input, weights))
            return weights

        return softmax

    own = "softmax" in vars(Tensor)
    functional, plain, method = nn.functional.softmax, torch.softmax, Tensor.softmax
    nn.functional.softmax = wrap(functional)
    torch.softmax = wrap(plain)
    Tensor.softmax = wrap(method)  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.functional.softmax, torch.softmax = functional, plain
        if own:
            Tensor.softmax = method  # type: ignore[method-assign]
        else:
            del Tensor.softmax


def _over_last_axis(scores: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    dim = kwargs.get("dim", args[0] if args else None)
    return isinstance(dim, int) and scores.dim() >= 3 and dim in (-1, scores.dim() - 1)
