"""Which module of a model is at work, kept as a stack of frames while it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

_QUERY_OR_KEY = re.compile(
    r"(^|[._])(w?q(kv|k)?|w?kv?)(?=$|[._])|quer|key|qkv|c_attn|in_proj|(^|[._])(q|k)_", re.IGNORECASE
)
ATTENTION_CLASS = re.compile(r"att(n|ention)|mha$|multihead", re.IGNORECASE)
"""What the name of a class that computes attention looks like."""

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
    """The stack of modules that are at work, and whether what happens below is to be looked at.

    Args:
        names: The paths of every module, by its id.
    """

    def __init__(self, names: Mapping[int, Sequence[str]]) -> None:
        self.frames: list[Frame] = []
        self.quiet = 0
        self._serial = 0
        self._attends: dict[int, bool] = {}
        self._names = names

    @contextmanager
    def suppressed(self) -> Iterator[None]:
        """Look at nothing that is called inside the block."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    def frame_of(self, module: nn.Module) -> Frame | None:
        """Return the innermost execution of a module, or of the module that called it."""
        for frame in reversed(self.frames):
            if frame.module is module:
                return frame
        return self.frames[-1] if self.frames else None

    def name_of(self, module: nn.Module) -> str:
        """Return a module's path; of several, the one below the module that is at work."""
        names = self._names.get(id(module), [""])
        if len(names) > 1:
            for frame in reversed(self.frames):
                for name in names:
                    if name == frame.name or name.startswith(f"{frame.name}."):
                        return name
        return names[0]

    def attention_frame(self) -> Frame | None:
        """Return the innermost frame if it is that of an attention module."""
        for frame in reversed(self.frames):
            kind = type(frame.module).__name__
            if ATTENTION_CLASS.search(kind):
                return frame if self._has_query_and_key(frame.module) else None
            if "softmax" not in kind.lower():
                return None
        return None

    def _has_query_and_key(self, module: nn.Module) -> bool:
        """Return attention between tokens from a softmax over something else, such as the layers before."""
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
