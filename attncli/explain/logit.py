"""What each part of a decoder adds to one token's logit at one position.

The last residual stream is a sum: the embedding, what every head gives through its part of W_O, what every feed-forward
network gives, and biases. The final norm, with the scale that it had at this position, and the unembedding are linear,
so the logit is a sum of the same parts. That the stream really is such a sum is checked from layer to layer: a model
that norms it in between, multiplies what is added, or adds something else is refused.

Reference:
    Elhage et al. 2021, A Mathematical Framework for Transformer Circuits ("direct logit attribution").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attncli.attention.operation import AttentionOperation
from attncli.capture.checks import where
from attncli.capture.layer_parts import LayerParts, find_parts
from attncli.capture.projections import Leaf, Leaves, shaped
from attncli.explain.unembedding import SUM_TOLERANCE, Ending, refused, unembedding
from attncli.models.opening import Opened
from attncli.record import AttentionLayer, Request, Run, WeightBlock

_NEAR = 1e-4
"""How far streams that should be the same may be apart, relative to the largest number."""


@dataclass(frozen=True)
class HeadPart:
    """What one head adds.

    Args:
        by_key: What of it comes from each key; None where that cannot be told apart.
    """

    layer: AttentionLayer
    head: int
    logit: float
    by_key: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Attribution:
    """One token's logit at one position, as a sum.

    Args:
        feed_forward: By layer.
        scale: What the final norm divided the stream by; None without such a norm.
        factor: By how much the logit was changed after the unembedding: a scale, or a soft-cap at this logit.
        how: What that was: empty, ``scale`` or ``soft-cap``.
        rank: Of the token among all, 1 for the likeliest.
        error: The parts' sum less the model's own logit.
    """

    logit: float
    probability: float
    rank: int
    embedding: float
    heads: tuple[HeadPart, ...]
    feed_forward: Mapping[int, float]
    biases: float
    scale: float | None
    factor: float
    how: str
    error: float


def attribute(source: Opened, token: int, position: int) -> tuple[Attribution, Run]:
    """Run a decoder once and take one logit apart.

    Raises:
        UsageError: It predicts no tokens.
        CaptureError: The model's logit is no sum of such parts, or what they are was not found.
    """
    network, head = unembedding(source, token)
    leaves = Leaves(network, every=True)
    stream, logits = _Stream(position, leaves), list[Tensor]()

    def keep(module: nn.Module, args: object, output: object) -> None:
        made = getattr(output, "logits", output)
        if isinstance(made, Tensor):
            logits.append(made[0, position].double())

    handle = network.register_forward_hook(keep)
    try:
        with leaves.watching(), torch.inference_mode():
            run = source.run([stream])
            last = leaves.take()
            stream.close(last)
    finally:
        handle.remove()
    with torch.inference_mode():
        ending = Ending.of(last, head, logits[-1], token, position)
        return stream.attribution(ending), run


@dataclass(frozen=True)
class _Layer:
    """What is kept of one attention operation of the row's own stack.

    Args:
        heads: What each head adds to the stream, before the branch's scale is divided by.
        stream: All positions' vectors before it.
        added: What is added to them.
            outputs: What modules gave after it; empty when that is looked at.
        network: Whether a feed-forward network's output is in the stream after it.
    """

    layer: AttentionLayer
    parts: LayerParts
    stream: Tensor
    added: Tensor
    heads: Float[Tensor, "heads model_dim"]
    biases: Float[Tensor, " model_dim"]
    row: Float[Tensor, "heads key"]
    value: Float[Tensor, "value_heads key value_dim"]
    outputs: tuple[Tensor, ...]
    network: bool = False


@dataclass
class _Stream:
    """Observer that follows the residual stream of a decoder from layer to layer."""

    position: int
    leaves: Leaves
    layers: list[_Layer] = field(default_factory=list)
    _open: AttentionLayer | None = None
    _before: tuple[Leaf, ...] = ()
    _operation: AttentionOperation | None = None
    _output: Tensor | None = None
    _row: Tensor | None = None

    def request(self, layer: AttentionLayer) -> Request | None:
        ran = self.leaves.take()
        self.close(ran)
        self._before = ran
        if layer.kind == "encoder":
            return None
        if not self.layers and layer.index:
            raise refused(f"its first {layer.index} layers have no attention")
        self._open, self._row = layer, None
        return Request(None, range(self.position, self.position + 1))

    def update(self, block: WeightBlock) -> None:
        operation_keys = block.keys.stop
        if self._row is None:
            assert self._open is not None
            self._row = block.weights.new_zeros(self._open.heads, 0)
        if self._row.shape[1] < operation_keys:
            self._row = nn.functional.pad(self._row, (0, operation_keys - self._row.shape[1]))
        place = self.position - block.rows.start
        self._row[list(block.heads), block.keys.start : block.keys.stop] = block.weights[0, :, place]

    def inspect(self, layer: AttentionLayer, operation: AttentionOperation, output: Tensor | None) -> None:
        self._operation, self._output = operation, output

    def close(self, ran: tuple[Leaf, ...]) -> None:
        """Take apart what ran after the last attention."""
        layer, operation, output, row = self._open, self._operation, self._output, self._row
        self._open = self._operation = self._output = None
        if layer is None:
            return
        if operation is None or operation.value is None or output is None or row is None:
            raise refused(f"the values of {where(layer)} were not seen")
        parts = find_parts(self._before, ran, output[0].transpose(0, 1))
        if parts is None:
            raise refused(f"the output projection of {where(layer)} was not found")
        if parts.sum is None:
            raise refused(f"where {where(layer)} is added to the residual stream was not seen")
        if parts.after is not None:
            raise refused(f"{where(layer)} norms the residual stream itself (post-norm)")
        weight = parts.projection.weight.double().view(layer.heads, -1, parts.projection.output.shape[1])
        given = parts.projection.given[self.position].double().view(layer.heads, -1, 1)
        heads = (weight * given).sum(1)
        biases = (
            torch.zeros_like(heads[0]) if parts.projection.bias is None else parts.projection.bias.double()
        )
        if parts.branch is not None:
            scale = parts.branch.scales[self.position]
            heads = parts.branch.direction(heads) / scale
            biases = parts.branch.direction(biases) / scale + parts.branch.bias
        shape = parts.sum.stream.shape
        outputs = (shaped(leaf.output, shape) for leaf in ran)
        value = operation.value[0].double()
        row = nn.functional.pad(row, (0, operation.keys - row.shape[1]))
        self._look_back(parts.sum.stream, where(layer))
        self.layers.append(
            _Layer(
                layer, parts, parts.sum.stream, parts.branch_output.float(), heads, biases, row.double(), value,
                tuple(one for one in outputs if one is not None),
            )
        )  # fmt: skip

    def _look_back(self, stream: Tensor, here: str) -> None:
        """Refuse a stream that is not the one before, what attention added, and what one module gave, or nothing."""
        if not self.layers:
            return
        before = self.layers[-1]
        if stream.shape == before.stream.shape:
            rest = stream - before.stream - before.added
            limit = _NEAR * float(stream.abs().amax())
            network = float(rest.abs().amax()) > limit
            factor = before.parts.factor
            given = (float((rest - factor * output).abs().amax()) <= limit for output in before.outputs)
            if not network or any(given):
                self.layers[-1] = replace(before, outputs=(), network=network)
                return
        raise refused(
            f"between {where(before.layer)} and {here} the residual stream changes by more than one part's output",
            "of models in half precision: --dtype float32",
        )

    def attribution(self, ending: Ending) -> Attribution:
        """Put the parts together.

        Raises:
            CaptureError: Their sum is not the model's logit.
        """
        if not self.layers:
            raise refused("no attention of a decoder was seen")
        self._look_back(ending.stream, "the end")
        at, direction = self.position, ending.direction
        heads, networks, biases = list[HeadPart](), dict[int, float](), ending.rest
        streams = [one.stream[at].double() for one in self.layers] + [ending.stream[at].double()]
        for one, after in zip(self.layers, streams[1:], strict=True):
            network = after - one.stream[at].double() - one.heads.sum(0) - one.biases
            if one.network:
                networks[one.layer.index] = networks.get(one.layer.index, 0.0) + float(network @ direction)
            biases += float(one.biases @ direction)
            heads += [
                HeadPart(one.layer, head, float(vector @ direction), _by_key(one, head, direction, at))
                for head, vector in enumerate(one.heads)
            ]
        embedding = float(streams[0] @ direction)
        logit = float(ending.logits[ending.token])
        error = embedding + sum(one.logit for one in heads) + sum(networks.values()) + biases - logit
        if not abs(error) <= SUM_TOLERANCE * max(1.0, abs(logit)):
            raise refused(
                f"the parts sum to {logit + error:.6g}, the model's is {logit:.6g}", "--dtype float32"
            )
        rank = 1 + int((ending.logits > ending.logits[ending.token]).sum())
        probability = float(ending.logits.softmax(-1)[ending.token])
        return Attribution(
            logit, probability, rank, embedding, tuple(heads), networks, biases, ending.scale, ending.factor,
            ending.how, error,
        )  # fmt: skip


def _by_key(one: _Layer, head: int, direction: Tensor, at: int) -> tuple[float, ...] | None:
    """Return what a head takes from each key: α · v · W_O(head) · direction."""
    if one.parts.projection.between is not None:
        return None
    branch = one.parts.branch
    turned = direction if branch is None else branch.back(direction) / branch.scales[at]
    weight = one.parts.projection.weight.double().view(one.layer.heads, -1, len(direction))[head]
    value = one.value[head // (one.layer.heads // len(one.value))]
    numbers: list[float] = (one.row[head] * (value @ (weight @ turned))).tolist()
    return tuple(numbers)
