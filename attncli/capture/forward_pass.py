"""One forward pass, watched at three places at once: what is seen at any of them goes to the emitter under its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import ref

from torch import Tensor, nn

from attncli.attention.operation import AttentionOperation
from attncli.capture.attention_interface import (
    Call,
    faster_by_blocks,
    hides_the_future,
    operation_of,
    watched,
)
from attncli.capture.blocks import BlockFeed
from attncli.capture.cache_positions import first_positions
from attncli.capture.layers import LayerNamer, Stacks
from attncli.capture.module_stack import NOT_BETWEEN_TOKENS, Frame, SdpaCall, Softmax, Trace
from attncli.capture.softmax_hooks import tapped
from attncli.capture.weight_layouts import LAYOUTS, allowed_by
from attncli.errors import CaptureError
from attncli.record import AttentionLayer, Kind

SMALL = 2**14
"""Numbers in the queries or keys of a call: up to so many it is kept and shown when the model has run.

A short text's layer takes about a millisecond, and what comes between two of them finds its code and data gone from
the cache, as the model then does: shown one after another at the end, the same work takes half as long.
"""

_ELSEWHERE = ("key_value_states", "kv")
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads")


class Enough(BaseException):
    """All that is looked for has been seen. No error: a model that catches its own errors must let it through."""


class Watch:
    """Shows an emitter every attention operation of a model's forward pass.

    Args:
        kinds: The kinds of attention that the pass has.
        batch: Number of texts that run side by side; an operation with another number has folded something into
            that axis, windows or pieces, and is no map from tokens to tokens.
        place: Sets the positions of an operation's rows and columns, where whoever runs the steps knows them better
            than the model's cache tells. Then only the attention interface is watched: weights seen at a softmax
            have no positions to set.
        stacks: The model's rows of layers, where they have been read off already.
        fast: Whether layers whose own kernel is slow at this length run our block forward instead.
        may_stop: Whether the model may be stopped (`Enough`) when all that observers look for has been seen.
    """

    def __init__(
        self,
        model: nn.Module,
        emitter: BlockFeed,
        kinds: Sequence[Kind],
        batch: int,
        place: Callable[[AttentionOperation, Kind], AttentionOperation] | None = None,
        stacks: Stacks | None = None,
        fast: bool = False,
        may_stop: bool = False,
    ) -> None:
        stacks = stacks or Stacks(model)
        self._emitter, self._batch, self._place = emitter, batch, place
        self._modules = stacks.watched
        self._fast = fast
        self._namer = LayerNamer(stacks, kinds)
        self._trace = Trace(stacks.names)
        self._last: tuple[tuple[int, int], ref[Tensor], ref[Tensor]] | None = None
        self._may_wait = not any(hasattr(observer, "inspect") for observer in emitter.observers)
        self._waiting: list[tuple[AttentionLayer, Call, Frame | None, str]] = []
        self._sought = emitter.sought if may_stop and place is None else None
        self._seen: set[tuple[Kind, int]] = set()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what runs inside the block."""
        if self._place is not None:
            with watched(self._on_call):
                yield
            return
        taps = tapped(self._trace, self._modules, self._on_sdpa, self._on_softmax, self._on_leave)
        with taps, watched(self._on_call, self._trace.suppressed, self._instead if self._fast else None):
            yield
        self._show_waiting()

    def _instead(self, call: Call) -> Tensor | None:
        """Compute a call ourselves where that is faster than the model's own kernel, and show it on the way."""
        if not faster_by_blocks(call, self._emitter.dense_keys):
            return None
        with self._trace.suppressed():
            named = self._named(call)
            if named is None:
                return None
            frame, layer = named
            if layer.stack == self._emitter.stack:
                self._check_batch(layer, max(call.query.shape[0], call.key.shape[0]))
            operation = first_positions(operation_of(call), layer, call.module, frame)
            self._show_waiting()
            return self._emitter.compute(layer, operation, call.own).transpose(1, 2).contiguous()

    def _on_call(self, call: Call) -> None:
        with self._trace.suppressed():
            self._take(call)

    def _take(self, call: Call) -> None:
        named = self._named(call)
        if named is not None:
            path = "eager" if call.implementation == "eager" else "interface"
            self._show(named[1], call, named[0], path)

    def _named(self, call: Call) -> tuple[Frame | None, AttentionLayer] | None:
        """Name a call; None where it is not to be shown, or has been."""
        if type(call.module).__name__ in NOT_BETWEEN_TOKENS:
            return None
        frame = self._trace.frame_of(call.module)
        if self._is_repetition(frame, call.module, call.query, call.key):
            return None
        cross = _has_other_keys(call.module, frame)
        return frame, self._name(
            frame, call.module, call.query, call.key, cross, lambda: hides_the_future(call)
        )

    def _on_sdpa(self, frame: Frame, call: SdpaCall) -> None:
        if self._is_repetition(frame, frame.module, call.query, call.key):
            return
        query, key, value = (
            _with_heads(t, frame.module, self._batch) for t in (call.query, call.key, call.value)
        )
        output = _with_heads(call.output, frame.module, self._batch)
        made = Call(
            "sdpa", frame.module, query, key, value, _mask_4d(call.mask, frame.module, self._batch),
            {"scaling": call.scale, "is_causal": call.causal}, output.transpose(1, 2),
        )  # fmt: skip
        cross = _has_other_keys(frame.module, frame)
        layer = self._name(
            frame, frame.module, query, key, cross, lambda: call.causal or hides_the_future(made)
        )
        self._show(layer, made, frame, "interface")

    def _show(self, layer: AttentionLayer, call: Call, frame: Frame | None, path: str) -> None:
        """Show a call now, or with the others when the model has run, if it is small."""
        small = max(call.query.numel(), call.key.numel()) <= SMALL
        if small and self._may_wait and self._place is None:
            self._waiting.append((layer, call.copy(), frame, path))
            return
        self._show_waiting()
        self._show_now(layer, call, frame, path)

    def _show_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for layer, call, frame, path in waiting:
            self._show_now(layer, call, frame, path)

    def _show_now(self, layer: AttentionLayer, call: Call, frame: Frame | None, path: str) -> None:
        assert call.output is not None

        def operation() -> AttentionOperation:
            self._check_batch(layer, max(call.query.shape[0], call.key.shape[0]))
            made = operation_of(call)
            if self._place is not None:
                placed: AttentionOperation = self._place(made, layer.kind)
                return placed
            return first_positions(made, layer, call.module, frame)

        self._emitter.emit(layer, operation, call.output.transpose(1, 2), path)

    def _on_softmax(self, frame: Frame, made: Softmax) -> None:
        if type(frame.module).__name__ in LAYOUTS:
            frame.softmaxes.append(made)
            return
        if made.weights.dim() not in (3, 4):
            self._refuse_if_shown(frame, f"weights with {made.weights.dim()} axes")
            return
        scores, weights = (_with_heads(t, frame.module, self._batch) for t in (made.scores, made.weights))
        if self._is_repetition(frame, frame.module, made.weights, made.scores):
            return
        self._emit_weights(frame, weights, allowed_by(scores, weights))

    def _on_leave(self, frame: Frame) -> None:
        """Put together the weights of a module that computes them in several parts."""
        weights, allowed = LAYOUTS[type(frame.module).__name__](frame, self._batch)
        self._emit_weights(frame, weights, allowed, crop=True)

    def _emit_weights(
        self, frame: Frame, weights: Tensor, allowed: Tensor | None, crop: bool = False
    ) -> None:
        cross = _has_other_keys(frame.module, frame)
        square = weights.shape[2] == weights.shape[3] > 1
        layer = self._name(
            frame, frame.module, weights, weights, cross,
            lambda: square and allowed is not None and not bool(allowed.triu(1).any()),
        )  # fmt: skip
        batch = weights.shape[0]
        if crop:
            # Longformer lengthens its input to a multiple of its window; ProphetNet appends other streams.
            rows, keys = (self._emitter.axes or {}).get(layer.kind, (0, 0))
            rows, keys = rows or weights.shape[2], keys or weights.shape[3]
            weights = weights[:, :, :rows, :keys]
            allowed = None if allowed is None else allowed[:, :, :rows, :keys]
        if allowed is not None:
            # Models give rows without any key an average, or anything: here they are empty.
            weights = weights * allowed.any(dim=-1, keepdim=True)
        self._show_waiting()
        self._emitter.emit_weights(
            layer, weights, allowed, "eager", check_first=lambda: self._check_batch(layer, batch)
        )

    def _name(
        self,
        frame: Frame | None,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        cross: bool,
        causal: Callable[[], bool],
    ) -> AttentionLayer:
        name = self._trace.name_of(module) if frame is None or frame.module is not module else frame.name
        layer = self._namer.attention_layer(
            name, module, query.shape[1], key.shape[1], cross=cross, causal=causal
        )
        self._stop_before(layer)
        return layer

    def _stop_before(self, layer: AttentionLayer) -> None:
        """Stop the model where another layer begins than those sought, all of which have been seen.

        Not after the last of them, whose layer may attend once more.
        """
        if self._sought is None or layer.stack != self._emitter.stack:
            return
        place = layer.kind, layer.index
        if place not in self._sought and self._sought <= self._seen:
            self._emitter.stopped = True
            raise Enough
        self._seen.add(place)

    def _is_repetition(self, frame: Frame | None, module: nn.Module, query: Tensor, key: Tensor) -> bool:
        """Return whether this execution of a module has attended before; with the same query and key it is the same.

        Raises:
            CaptureError: It attends to something else: in pieces, so that there is no single map.
        """
        execution = (-1 if frame is None else frame.serial, id(module))
        last, self._last = self._last, (execution, ref(query), ref(key))
        if last is None or last[0] != execution:
            return False
        same = last[1]() is query and last[2]() is key
        if not same and frame is not None:
            self._refuse_if_shown(frame, "its attention in several pieces")
        return same or frame is not None

    def _refuse_if_shown(self, frame: Frame, what: str) -> None:
        main = self._namer.stack_of(frame.name)
        if main == self._emitter.stack:
            raise CaptureError(
                f"{frame.name} ({type(frame.module).__name__}) computes {what}: there is no single map from "
                "tokens to tokens"
            )

    def _check_batch(self, layer: AttentionLayer, batch: int) -> None:
        if batch != self._batch:
            inside = f"{batch} pieces of" if batch > self._batch else "all of"
            raise CaptureError(
                f"{layer.kind} layer {layer.index} attends inside {inside} a batch of {self._batch} "
                f"({layer.module}): there is no single map from tokens to tokens"
            )


def _has_other_keys(module: nn.Module, frame: Frame | None) -> bool:
    if getattr(module, "is_cross_attention", False) is True:
        return True
    inputs: dict[str, Any] = {} if frame is None or frame.module is not module else frame.inputs
    return any(isinstance(inputs.get(name), Tensor) for name in _ELSEWHERE)


def _with_heads(tensor: Tensor, module: nn.Module, batch: int) -> Tensor:
    """Return a tensor whose batch and heads share an axis one axis for each: ``(batch·heads, …)``, batch first."""
    if tensor.dim() != 3:
        return tensor
    named = next((value for name in _HEADS if isinstance(value := getattr(module, name, None), int)), None)
    heads = named or max(tensor.shape[0] // batch, 1)
    return (
        tensor.reshape(-1, heads, *tensor.shape[1:]) if tensor.shape[0] % heads == 0 else tensor.unsqueeze(1)
    )


def _mask_4d(mask: Tensor | None, module: nn.Module, batch: int) -> Tensor | None:
    if mask is None or mask.dim() == 4:
        return mask
    return mask[None, None] if mask.dim() == 2 else _with_heads(mask, module, batch)
