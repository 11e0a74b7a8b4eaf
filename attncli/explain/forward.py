"""Takes one row of one head of a model apart: what `explained.Explained` holds, from one forward pass.

An observer asks for the row like any other, so that the usual checks are made; the operation after it and the
modules that ran around it tell the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor, nn

from attncli.attention.operation import AttentionOperation
from attncli.attention.row_steps import RowSteps, of_head, row_steps, row_weights
from attncli.capture.projections import Leaf, Leaves, first_input, same, shaped, tolerance
from attncli.errors import UsageError
from attncli.explain.formulas import formulas
from attncli.explain.output_projection import find_output_projection, find_stream
from attncli.explain.peakedness import entropy_bits, softmax_gradient_norm
from attncli.explain.projection_stages import Way, find_way, is_norm
from attncli.explain.row import Added, Explained, Softened
from attncli.explain.shared_keys import shared_with
from attncli.record import AttentionLayer, Kind, Observer, Request, Run, Tokens, WeightBlock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Explainable(Protocol):
    """A source whose modules can be watched while it runs."""

    @property
    def network(self) -> nn.Module:
        """What holds all its modules; their names begin as the attention layers' do."""

    def axes(self, kind: Kind) -> tuple[Tokens, Tokens]:
        """Return query and key tokens."""

    def run(self, observers: Sequence[Observer]) -> Run:
        """Run forward once."""


def explain(source: Explainable, kind: Kind, layer: int, head: int, position: int) -> tuple[Explained, Run]:
    """Run a source once and take one row of one head apart.

    Args:
        layer: The layer's true index.
        position: Of the query token.

    Raises:
        UsageError: There is no such layer or head.
        CaptureError: The model's queries and keys are not to be seen.
    """
    leaves = Leaves(source.network)
    witness = _Witness(kind, layer, head, position, leaves)
    with leaves.watching(), torch.inference_mode():
        run = source.run([witness])
        if witness.attention is None:
            raise run.no_attention(kind, layer, str(layer))
        witness.after = witness.after or leaves.take()
    attention, operation = witness.seen_operation()
    with torch.inference_mode():
        ways = _ways(witness, attention, operation)
        unknown = {letter for letter in "KV" if ways[letter] is None}
        shared = shared_with(source.run, attention, operation, unknown) if unknown else {}
        return _explained(witness, attention, operation, source.axes(kind), ways, shared), run


@dataclass
class _Witness:
    """Observer of the one row, and keeper of its operation and of what ran before and after it."""

    kind: Kind
    layer: int
    head: int
    position: int
    leaves: Leaves
    attention: AttentionLayer | None = None
    operation: AttentionOperation | None = None
    kernel: Tensor | None = None
    before: tuple[Leaf, ...] = ()
    after: tuple[Leaf, ...] = ()

    def request(self, attention: AttentionLayer) -> Request | None:
        ran = self.leaves.take()
        if self.attention is not None:
            self.after = self.after or ran
            return None
        if (attention.kind, attention.index) != (self.kind, self.layer):
            return None
        if self.head >= attention.heads:
            raise UsageError(
                f"--head {self.head}: out of range", f"this model has heads 0 to {attention.heads - 1}"
            )
        self.attention, self.before = attention, ran
        return Request((self.head,), range(self.position, self.position + 1))

    def update(self, block: WeightBlock) -> None:
        """Keep nothing: the weights are made once more, step by step."""

    def inspect(
        self, attention: AttentionLayer, operation: AttentionOperation, output: Tensor | None
    ) -> None:
        """Keep the operation, and what the model's own kernel made of it."""
        self.operation, self.kernel = operation, output

    def seen_operation(self) -> tuple[AttentionLayer, AttentionOperation]:
        """Return the attention and its operation, when they have been seen."""
        assert self.attention is not None and self.operation is not None
        return self.attention, self.operation


def _ways(
    witness: _Witness, attention: AttentionLayer, operation: AttentionOperation
) -> dict[str, Way | None]:
    """Find how the head's queries, keys and values were made."""
    head, heads = witness.head, operation.heads
    value = None if operation.value is None else of_head(operation.value, head, heads)
    rows = {"Q": operation.query[0, head], "K": of_head(operation.key, head, heads), "V": value}
    return {
        letter: None if of_letter is None else find_way(witness.before, of_letter, attention.module)
        for letter, of_letter in rows.items()
    }


def _explained(
    witness: _Witness,
    attention: AttentionLayer,
    operation: AttentionOperation,
    axes: tuple[Tokens, Tokens],
    ways: Mapping[str, Way | None],
    shared: Mapping[str, int],
) -> Explained:
    queries, keys = axes
    row, head = witness.position - operation.first_query, witness.head
    steps = row_steps(operation, head, row)
    around = _Surroundings(witness, operation, attention.module, ways)
    kernel = None if witness.kernel is None else witness.kernel[0, head, row]
    return Explained(
        layer=attention,
        head=head,
        kv_head=attention.kv_head(head),
        query_token=queries[witness.position],
        place=row,
        key_tokens=keys[operation.first_key : operation.first_key + operation.keys],
        shapes=around.shapes(),
        input=_numbers(around.input_row),
        input_from=around.input_from,
        key_input=_numbers(around.key_input if attention.kind == "cross" else None),
        query=steps.query.numpy(force=True),
        made=formulas(ways, shared, around.input),
        key=steps.key.numpy(force=True),
        value=_numbers(steps.value),
        factor=around.factor(),
        dots=steps.dots.numpy(force=True),
        scale=operation.scale,
        scaled=steps.scaled.numpy(force=True),
        softcap=operation.softcap,
        capped=steps.capped.numpy(force=True),
        bias=None if steps.bias is None or not bool(steps.bias.any()) else _numbers(steps.bias),
        scores=steps.scores.numpy(force=True),
        allowed=None if steps.allowed is None else steps.allowed.numpy(force=True),
        sink=steps.sink,
        weights=steps.weights.numpy(force=True),
        output=_numbers(steps.output),
        output_error=_difference(steps.output, kernel),
        own=_softened(steps, operation.scale),
        other=_other(operation, head, row, around.factor()),
        added=around.added(steps.output),
    )


def _softened(steps: RowSteps, scale: float) -> Softened:
    scores = steps.scores.double()  # a gradient of 1e-9 is lost in float32
    weights = row_weights(scores, steps.allowed, steps.sink)
    allowed = scores if steps.allowed is None else scores[steps.allowed]
    return Softened(
        scale=scale,
        variance=float(allowed.var(correction=0)) if allowed.numel() else 0.0,
        entropy=float(entropy_bits(weights)),
        gradient=float(softmax_gradient_norm(weights)),
        largest=float(weights.max()),
    )


def _other(operation: AttentionOperation, head: int, row: int, factor: float | None) -> Softened:
    """Measure the row without scaling; of a model that has none, with the usual one."""
    usual = operation.query.shape[-1] ** -0.5
    scale = 1.0
    if abs(operation.scale - 1.0) < 1e-6:
        before = factor is not None and abs(factor - usual) < 1e-4 * usual  # the queries were scaled (OPT)
        scale = 1 / usual if before else usual
    return _softened(row_steps(operation, head, row, scale=scale), scale)


def _difference(output: Tensor | None, kernel: Tensor | None) -> float | None:
    if output is None or kernel is None:
        return None
    return float((output - kernel.to(output.dtype)).abs().max())


class _Surroundings:
    """What is around an operation: what was projected into it, and what becomes of its output."""

    def __init__(
        self, witness: _Witness, operation: AttentionOperation, module: str, ways: Mapping[str, Way | None]
    ) -> None:
        self._witness, self._operation = witness, operation
        self._row = witness.position - operation.first_query
        self._ways = ways
        query = ways["Q"]
        source = first_input(witness.before, module) if query is None else query.source
        self.input = source if source is not None and len(source) == operation.rows else None
        self._projection = self._stream = None
        if witness.kernel is not None:
            heads = witness.kernel[0].transpose(0, 1)
            self._projection = find_output_projection(witness.before, witness.after, heads)
        if self._projection is not None:
            self._stream = find_stream(witness.before, witness.after, self._projection)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the whole tensors' shapes by name."""
        operation = self._operation
        found = {
            "query": tuple(operation.query.shape),
            "key": tuple(operation.key.shape),
            "scores": (*operation.query.shape[:3], operation.keys),
        }
        if operation.value is not None:
            found["value"] = tuple(operation.value.shape)
            found["output"] = (*operation.query.shape[:3], operation.value.shape[-1])
        if self.input is not None:
            found["input"] = (operation.query.shape[0], *self.input.shape)
        if self.key_input is not None:
            found["key_input"] = (operation.key.shape[0], *self.key_input.shape)
        if self._projection is not None:
            found["output_projection"] = tuple(self._projection.weight.shape)
        return found

    @property
    def input_row(self) -> Tensor | None:
        """The row of what is projected to queries."""
        return None if self.input is None else self.input[self._row].float()

    @property
    def input_from(self) -> Literal["stream", "norm"] | None:
        """How what is projected comes from the residual stream."""
        if self.input is None or self._stream is None or self.input.shape != self._stream.shape:
            return None
        if same(self.input, self._stream, 1e-3):
            return "stream"
        for leaf in self._witness.before:
            took, gave = (shaped(tensor, self._stream.shape) for tensor in (leaf.input, leaf.output))
            if took is None or gave is None or not same(gave, self.input, tolerance(leaf.output)):
                continue
            if same(took, self._stream, tolerance(leaf.input)) and is_norm(leaf):
                return "norm"
        return None

    @property
    def key_input(self) -> Tensor | None:
        """What is projected to keys."""
        key = self._ways["K"]
        return None if key is None or key.source is None else key.source.float()

    def factor(self) -> float | None:
        """How many times as large products are as those of the projections; None where those were not found."""
        query, key = self._ways["Q"], self._ways["K"]
        return None if query is None or key is None else query.factor * key.factor

    def added(self, output: Tensor | None) -> Added | None:
        """Take the head's output through its part of the output projection."""
        projection, head = self._projection, self._witness.head
        if output is None or projection is None:
            return None
        part = slice(head * len(output), (head + 1) * len(output))
        given = output.float() if projection.between is None else projection.given[self._row, part]
        return Added(
            vector=(given @ projection.weight[part]).numpy(force=True),
            between=projection.between,
            gate=projection.gate,
            bias=None if projection.bias is None else float(projection.bias.norm()),
            all_heads=projection.output[self._row].numpy(force=True),
            stream=None if self._stream is None else self._stream[self._row].numpy(force=True),
        )


def _numbers(tensor: Tensor | None) -> NDArray[np.float32] | None:
    return None if tensor is None else tensor.float().numpy(force=True)
