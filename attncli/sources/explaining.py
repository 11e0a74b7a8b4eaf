"""Takes one row of one head of a model apart: what `explained.Explained` holds, from one forward pass.

An observer asks for the row like any other, so that the usual checks are made; the operation behind it and the
modules that ran around it tell the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from attncli.attention.operation import AttentionOperation
from attncli.attention.peakedness import entropy_bits, softmax_gradient_norm
from attncli.attention.steps import RowSteps, of_head, row_steps, row_weights
from attncli.errors import UsageError
from attncli.explained import Added, Explained, Softened
from attncli.record import Kind, Observer, Request, Run, Site, Tokens, WeightBlock
from attncli.sources.leaves import (
    Leaf,
    Leaves,
    Projected,
    find_output_projection,
    find_projection,
    find_stream,
    first_input,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Explainable(Protocol):
    """A source whose modules can be watched while it runs."""

    @property
    def network(self) -> nn.Module:
        """What holds all its modules; their names begin as the sites' do."""

    def axes(self, kind: Kind) -> tuple[Tokens, Tokens]:
        """Give query and key tokens."""

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
        if witness.site is None:
            raise run.no_attention(kind, layer, str(layer))
        witness.after = witness.after or leaves.take()
        queries, keys = source.axes(kind)
        return witness.explained(queries, keys), run


@dataclass
class _Witness:
    """Observer of the one row, and keeper of its operation and of what ran before and after it."""

    kind: Kind
    layer: int
    head: int
    position: int
    leaves: Leaves
    site: Site | None = None
    operation: AttentionOperation | None = None
    kernel: Tensor | None = None
    before: tuple[Leaf, ...] = ()
    after: tuple[Leaf, ...] = ()

    def request(self, site: Site) -> Request | None:
        ran = self.leaves.take()
        if self.site is not None:
            self.after = self.after or ran
            return None
        if (site.kind, site.layer) != (self.kind, self.layer):
            return None
        if self.head >= site.heads:
            raise UsageError(
                f"--head {self.head}: out of range", f"this model has heads 0 to {site.heads - 1}"
            )
        self.site, self.before = site, ran
        return Request((self.head,), range(self.position, self.position + 1))

    def update(self, block: WeightBlock) -> None:
        """Keep nothing: the weights are made once more, step by step."""

    def inspect(self, site: Site, operation: AttentionOperation, output: Tensor | None) -> None:
        """Keep the operation, and what the model's own kernel made of it."""
        self.operation, self.kernel = operation, output

    def explained(self, queries: Tokens, keys: Tokens) -> Explained:
        """Put everything together."""
        assert self.site is not None and self.operation is not None
        return _explained(self, self.site, self.operation, queries, keys)


def _explained(
    witness: _Witness, site: Site, operation: AttentionOperation, queries: Tokens, keys: Tokens
) -> Explained:
    row, head = witness.position - operation.first_query, witness.head
    steps = row_steps(operation, head, row)
    around = _Surroundings(witness, operation, site.module)
    kernel = None if witness.kernel is None else witness.kernel[0, head, row]
    return Explained(
        site=site,
        head=head,
        kv_head=site.kv_head(head),
        query_token=queries[witness.position],
        key_tokens=keys[operation.first_key : operation.first_key + operation.keys],
        shapes=around.shapes(),
        input=_numbers(around.input_row),
        key_input=_numbers(around.key_input if site.kind == "cross" else None),
        query=steps.query.numpy(force=True),
        query_before=_numbers(around.query_before()),
        key=steps.key.numpy(force=True),
        key_before=_numbers(around.key_before()),
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

    def __init__(self, witness: _Witness, operation: AttentionOperation, module: str) -> None:
        self._witness, self._operation = witness, operation
        self._row = witness.position - operation.first_query
        self._rows = (
            operation.query[0, witness.head],
            of_head(operation.key, witness.head, operation.heads),
        )
        self._query, self._key = (find_projection(witness.before, rows, module) for rows in self._rows)
        source = None if self._query is None else self._query.source
        source = first_input(witness.before, module) if source is None else source
        self._input = source if source is not None and len(source) == operation.rows else None
        kernel = witness.kernel
        self._side_by_side = None if kernel is None else kernel[0].transpose(0, 1).flatten(1)
        self._projection = (
            None if self._side_by_side is None else find_output_projection(witness.after, self._side_by_side)
        )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Give the whole tensors' shapes by name."""
        operation = self._operation
        found = {
            "query": tuple(operation.query.shape),
            "key": tuple(operation.key.shape),
            "scores": (*operation.query.shape[:3], operation.keys),
        }
        if operation.value is not None:
            found["value"] = tuple(operation.value.shape)
            found["output"] = (*operation.query.shape[:3], operation.value.shape[-1])
        if self._input is not None:
            found["input"] = (operation.query.shape[0], *self._input.shape)
        if self.key_input is not None:
            found["key_input"] = (operation.key.shape[0], *self.key_input.shape)
        if self._projection is not None:
            found["output_projection"] = tuple(self._projection.weight.shape)
        return found

    @property
    def input_row(self) -> Tensor | None:
        """The row of what is projected to queries."""
        return None if self._input is None else self._input[self._row].float()

    @property
    def key_input(self) -> Tensor | None:
        """What is projected to keys."""
        return None if self._key is None or self._key.source is None else self._key.source.float()

    def query_before(self) -> Tensor | None:
        """The query before position encoding, where that turned it."""
        rows = self._before(self._query, self._rows[0])
        return None if rows is None else rows[self._row]

    def key_before(self) -> Tensor | None:
        """The keys before position encoding, where that turned them."""
        return self._before(self._key, self._rows[1])

    def factor(self) -> float | None:
        """How many times as large products are as those of the projections; None where those were not found."""
        return None if self._query is None or self._key is None else self._query.factor * self._key.factor

    def _before(self, projected: Projected | None, used: Tensor) -> Tensor | None:
        return projected.rows if projected is not None and projected.turned(used) else None

    def added(self, output: Tensor | None) -> Added | None:
        """Take the head's output through its part of the output projection."""
        projection, head = self._projection, self._witness.head
        if output is None or projection is None:
            return None
        part = slice(head * len(output), (head + 1) * len(output))
        stream = find_stream(self._witness.before, self._witness.after, projection)
        return Added(
            vector=(output.float() @ projection.weight[part]).numpy(force=True),
            bias=None if projection.bias is None else float(projection.bias.norm()),
            all_heads=projection.output[self._row].numpy(force=True),
            stream=None if stream is None else stream[self._row].numpy(force=True),
        )


def _numbers(tensor: Tensor | None) -> NDArray[np.float32] | None:
    return None if tensor is None else tensor.float().numpy(force=True)
