"""Sees attention that does not go through transformers' attention interface, while the model runs as it always does.

Two more places are watched for the time of one forward pass. ``scaled_dot_product_attention`` is given query, key,
value and mask, as the interface is. Below that there is only ``softmax``: its result is the weights themselves, one
layer at a time. Which module is at work is known from forward hooks, which keep a stack of frames.

What is called from inside an attention function of the interface has been seen already and is not looked at again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

_QUERY_OR_KEY = re.compile(
    r"(^|[._])(w?q(kv|k)?|w?kv?)(?=$|[._])|quer|key|qkv|c_attn|in_proj|(^|[._])(q|k)_", re.IGNORECASE
)
ATTENTION_CLASS = re.compile(r"att(n|ention)|mha$|multihead", re.IGNORECASE)
"""What the name of a class that computes attention looks like."""

_FUSED_ARGUMENTS = (
    "query key value embed_dim num_head qkv_weight qkv_bias proj_weight proj_bias mask need_weights "
    "average_attn_weights mask_type"
).split()

NOT_BETWEEN_TOKENS = frozenset(
    {
        "Inkling2BlockAttentionResidual",  # over the outputs of earlier layers
        "Inkling2LoopBlockAttentionResidual",
        "Inkling2LoopMessageAttentionResidual",
        "MobileViTV2LinearSelfAttention",  # one weight for each token
        "SwiftFormerEfficientAdditiveAttention",  # likewise
    }
)
"""Classes named after attention whose softmax compares something else than tokens with tokens."""


@dataclass
class Frame:
    """One execution of a module's forward.

    Args:
        name: The module's path in the model, as reached in this execution: a shared module has several.
        inputs: Keyword arguments of the call.
        serial: Counts executions, so that two calls from one execution are told from two executions.
        softmaxes: The softmaxes computed directly in this execution, for layouts that need several.
    """

    module: nn.Module
    name: str
    args: tuple[Any, ...]
    inputs: dict[str, Any]
    serial: int
    softmaxes: list[Softmax] = field(default_factory=list)


@dataclass(frozen=True)
class Softmax:
    """One softmax over the last axis, computed by an attention module."""

    scores: Tensor
    weights: Tensor


@dataclass(frozen=True)
class SdpaCall:
    """One direct call of ``scaled_dot_product_attention``; `output` as it returned it."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    causal: bool
    scale: float | None
    output: Tensor


class Trace:
    """The stack of modules that are at work, and whether what happens below is to be looked at."""

    def __init__(self, model: nn.Module) -> None:
        self.frames: list[Frame] = []
        self.quiet = 0
        self._serial = 0
        self._attends: dict[int, bool] = {}
        self._names: dict[int, list[str]] = {}
        for name, module in model.named_modules(remove_duplicate=False):
            self._names.setdefault(id(module), []).append(name)

    @contextmanager
    def suppressed(self) -> Iterator[None]:
        """Look at nothing that is called inside the block."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    def frame_of(self, module: nn.Module) -> Frame | None:
        """Give the innermost execution of a module, or of the module that called it."""
        for frame in reversed(self.frames):
            if frame.module is module:
                return frame
        return self.frames[-1] if self.frames else None

    def name_of(self, module: nn.Module) -> str:
        """Give a module's path; of several, the one below the module that is at work."""
        names = self._names.get(id(module), [""])
        if len(names) > 1:
            for frame in reversed(self.frames):
                for name in names:
                    if name == frame.name or name.startswith(f"{frame.name}."):
                        return name
        return names[0]

    def attention_frame(self) -> Frame | None:
        """Give the innermost frame if it is that of an attention module."""
        for frame in reversed(self.frames):
            kind = type(frame.module).__name__
            if ATTENTION_CLASS.search(kind):
                return frame if self._has_query_and_key(frame.module) else None
            if "softmax" not in kind.lower():
                return None
        return None

    def _has_query_and_key(self, module: nn.Module) -> bool:
        """Tell attention between tokens from a softmax over something else, such as the layers before."""
        known = self._attends.get(id(module))
        if known is None:
            known = type(module).__name__ not in NOT_BETWEEN_TOKENS and any(
                _QUERY_OR_KEY.search(name) for name, _ in module.named_parameters()
            )
            self._attends[id(module)] = known
        return known

    def enter(self, module: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        """Note that a module begins."""
        self._serial += 1
        self.frames.append(Frame(module, self.name_of(module), args, inputs, self._serial))

    def leave(self, module: nn.Module) -> Frame | None:
        """Note that a module has ended, and give its frame."""
        while self.frames:
            frame = self.frames.pop()
            if frame.module is module:
                return frame
        return None


@contextmanager
def tapped(
    trace: Trace,
    model: nn.Module,
    on_sdpa: Callable[[Frame, SdpaCall], None],
    on_softmax: Callable[[Frame, Softmax], None],
    on_leave: Callable[[Frame], None],
) -> Iterator[None]:
    """Watch the model's modules, ``scaled_dot_product_attention`` and softmax. Process-wide, so not for threads.

    Args:
        on_softmax: Called for softmaxes over the last axis of at least three, made directly by an attention module.
        on_leave: Called when a module that made softmaxes has ended.
    """
    handles = [handle for module in model.modules() for handle in _hooks(trace, module, on_leave)]
    try:
        with (
            _sdpa_patched(trace, on_sdpa),
            _softmax_patched(trace, on_softmax),
            _fast_path_patched(trace, on_softmax),
        ):
            yield
    finally:
        for handle in handles:
            handle.remove()
        trace.frames.clear()


def _hooks(trace: Trace, module: nn.Module, on_leave: Callable[[Frame], None]) -> Iterator[Any]:
    """Hook modules that contain others, and attention modules; leaves would only cost time."""
    if not ATTENTION_CLASS.search(type(module).__name__) and next(module.children(), None) is None:
        return

    def before(module: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        trace.enter(module, args, inputs)

    def after(module: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any], output: Any) -> None:
        frame = trace.leave(module)
        if frame is not None and frame.softmaxes:
            with trace.suppressed():
                on_leave(frame)

    yield module.register_forward_pre_hook(before, with_kwargs=True)
    yield module.register_forward_hook(after, with_kwargs=True)


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
            with trace.suppressed():
                weights = original(input, *args, **kwargs)
            if not trace.quiet and _over_last_axis(input, args, kwargs):
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
