"""A whole Transformer made of our own attention: encoder, decoder, or both with cross-attention between them.

    x₀ = E[token]                                (+ sinusoidal positions, unless positions are told as distances)
    x  = x + Attention(norm(x))                  in each layer
    x  = x + CrossAttention(norm(x), memory)     in a decoder's layers, where there is an encoder
    x  = x + FeedForward(norm(x))                where there is one
    logits = norm(x) · W · Eᵀ / √d_model         one table E is read both ways

Reference:
    Vaswani et al. 2017, §3, arXiv 1706.03762; Xiong et al. 2020 (the norm before each part), arXiv 2002.04745;
    Press & Wolf 2017 (one table), arXiv 1608.05859.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from attncli.attention.modules import MultiHeadAttention, Observe, RelativeBias
from attncli.attention.operation import AttentionOperation
from attncli.attention.positions import sinusoidal_positions

Watcher = Callable[[str, AttentionOperation, Tensor], None]
"""Is shown each attention: its module's name in the model, the operation, and the output of its heads."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a Transformer.

    Args:
        vocabulary: Number of tokens.
        d_model: Size of the vectors between the parts.
        heads: Attention heads a layer; divides `d_model`.
        encoder_layers: Layers in which every position sees every other; 0 for a decoder alone.
        decoder_layers: Layers in which no position sees later ones; 0 for an encoder alone.
        feed_forward: Size of the feed-forward network's hidden layer; 0 for attention alone.
        distances: Up to how far apart self-attention tells positions (`RelativeBias`); None for sinusoidal positions,
            which are added to the input.
        layers_with_distances: How many layers, from the first, are told of positions so; all where None. A later one
            sees where something stands only by what earlier layers wrote into the vectors.
    """

    vocabulary: int
    d_model: int
    heads: int
    encoder_layers: int = 0
    decoder_layers: int = 0
    feed_forward: int = 0
    distances: int | None = None
    layers_with_distances: int | None = None


LIKENESS, PASSED_ON = 0.7, 0.7
"""How strongly a query is drawn to its like at first, and how much of what is read is passed on."""

PLACE = 6.0
"""How strongly a head that is told of positions prefers its place at first."""


class Layer(nn.Module):
    """Self-attention, cross-attention where there is a memory to come, a feed-forward network.

    Args:
        index: Its place among the layers.
        cross: Whether it attends to an encoder's output too.
    """

    def __init__(self, shape: Shape, index: int, *, causal: bool, cross: bool) -> None:
        super().__init__()
        size = shape.d_model
        told = shape.layers_with_distances is None or index < shape.layers_with_distances
        self.attention = MultiHeadAttention(
            size, shape.heads, causal=causal, bias=True, distances=shape.distances if told else None
        )
        self.attention_norm = nn.LayerNorm(size)
        self.cross = MultiHeadAttention(size, shape.heads, bias=True) if cross else None
        self.cross_norm = nn.LayerNorm(size) if cross else None
        self.feed_forward = _feed_forward(size, shape.feed_forward) if shape.feed_forward else None
        self.feed_forward_norm = nn.LayerNorm(size) if shape.feed_forward else None

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"] | None,
        mask: Bool[Tensor, "batch 1 1 key"] | None,
        watch: Watcher | None,
        name: str,
    ) -> Float[Tensor, "batch query d_model"]:
        """Refine each position with what it attends to.

        Args:
            mask: Which keys are no padding: of the memory where there is one, else of `x`.
            watch: Shown each attention operation.
            name: The layer's own in the model.
        """
        own_mask = mask if memory is None else None
        observe = _named(watch, f"{name}.attention")
        x = x + self.attention(self.attention_norm(x), mask=own_mask, observe=observe)[0]
        if self.cross is not None and self.cross_norm is not None:
            observe = _named(watch, f"{name}.cross")
            x = x + self.cross(self.cross_norm(x), memory, mask, observe=observe)[0]
        if self.feed_forward is not None and self.feed_forward_norm is not None:
            x = x + self.feed_forward(self.feed_forward_norm(x))
        return x


class Transformer(nn.Module):
    """An encoder, a decoder or both, over one vocabulary."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.d_model)
        both = bool(shape.encoder_layers and shape.decoder_layers)
        self.head = nn.Linear(shape.d_model, shape.d_model, bias=False)
        self.encoder = _stack(shape, shape.encoder_layers, causal=False, cross=False)
        self.decoder = _stack(shape, shape.decoder_layers, causal=True, cross=both)
        self.encoder_norm = nn.LayerNorm(shape.d_model) if shape.encoder_layers else None
        self.decoder_norm = nn.LayerNorm(shape.d_model) if shape.decoder_layers else None

    def forward(
        self,
        ids: Int64[Tensor, "batch length"],
        target: Int64[Tensor, "batch target_length"] | None = None,
        mask: Bool[Tensor, "batch length"] | None = None,
        *,
        watch: Watcher | None = None,
    ) -> Float[Tensor, "batch out_length vocabulary"]:
        """Return the logits of a token at each position: of `target` where there are two texts, else of `ids`.

        See `states` for the arguments.
        """
        return self.logits(self.states(ids, target, mask, watch=watch))

    def states(
        self,
        ids: Int64[Tensor, "batch length"],
        target: Int64[Tensor, "batch target_length"] | None = None,
        mask: Bool[Tensor, "batch length"] | None = None,
        *,
        watch: Watcher | None = None,
    ) -> Float[Tensor, "batch out_length d_model"]:
        """Return the last vectors, from which the logits are made.

        Args:
            ids: The text; the encoder's, where there is an encoder.
            target: What the decoder of an encoder–decoder has written so far.
            mask: True where `ids` is no padding.
            watch: Shown each attention operation.

        Raises:
            ValueError: There is no target for an encoder–decoder, or one without any.
        """
        both = bool(self.shape.encoder_layers and self.shape.decoder_layers)
        if both != (target is not None):
            raise ValueError("an encoder–decoder takes a target, and no other model does")
        keys = None if mask is None else mask[:, None, None]
        memory: Tensor | None = None
        if self.encoder_norm is not None:
            memory = self.encoder_norm(self._through("encoder", self.embed(ids), None, keys, watch))
        if self.decoder_norm is None:
            assert memory is not None
            only: Tensor = memory
            return only
        written = ids if target is None else target
        x = self._through("decoder", self.embed(written), memory, keys, watch)
        last: Tensor = self.decoder_norm(x)
        return last

    def embed(self, ids: Int64[Tensor, "batch length"]) -> Float[Tensor, "batch length d_model"]:
        """Return each token its vector, with its position where that is told here."""
        size = self.shape.d_model
        x: Tensor = self.embedding(ids)
        if self.shape.distances is None:
            x = x + sinusoidal_positions(ids.shape[1], size).to(x)
        return x

    def _through(
        self, stack: str, x: Tensor, memory: Tensor | None, keys: Tensor | None, watch: Watcher | None
    ) -> Tensor:
        for index, layer in enumerate(self.encoder if stack == "encoder" else self.decoder):
            x = layer(x, memory, keys, watch, f"{stack}.{index}")
        return x

    def logits(self, states: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocabulary"]:
        """Compare vectors with every token's."""
        logits: Tensor = self.head(states) @ self.embedding.weight.T * self.shape.d_model**-0.5
        return logits


@torch.no_grad()
def initialise(model: Transformer, generator: torch.Generator) -> None:
    """Set every weight to its first value.

    Attention starts out as what it will be good for: a query finds keys that are like it (W_K = W_Q), what is read is
    passed on as it is (W_O = W_Vᵀ), and heads that are told of positions prefer one place each: the token itself, the
    one before, and so on. Training is free to unlearn all of it; from nothing, it takes a small model very long to find
    out that any of this helps.

    Reference:
        Trockman & Kolter 2023 (attention that starts as trained attention looks), arXiv 2305.09828; Glorot & Bengio
        2010 (the spread of the other projections).
    """
    for name, parameter in model.named_parameters():
        if name == "embedding.weight":
            parameter.normal_(0.0, 1.0, generator=generator)
        elif name == "head.weight":
            nn.init.eye_(parameter)
        elif name.endswith("weight") and parameter.dim() == 2:
            parameter.normal_(0.0, (2 / sum(parameter.shape)) ** 0.5, generator=generator)
        elif not name.endswith("weight"):
            parameter.zero_()
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            _find_alike_and_pass_on(module, generator)
            if module.relative is not None:
                _prefer_places(module.relative, causal=module.causal)


def _find_alike_and_pass_on(attention: MultiHeadAttention, generator: torch.Generator) -> None:
    looking, reading = (
        torch.linalg.qr(torch.randn(attention.query.weight.shape, generator=generator))[0] for _ in range(2)
    )
    attention.query.weight.copy_(looking * LIKENESS)
    attention.key.weight.copy_(looking * LIKENESS)
    attention.value.weight.copy_(reading * PASSED_ON)
    attention.output.weight.copy_(reading.T * PASSED_ON)


def _prefer_places(relative: RelativeBias, *, causal: bool) -> None:
    """Let the heads prefer the token itself, the one before, two before …; or by turns before and after."""
    for head in range(len(relative.table)):
        offset = -head if causal else (head + 1) // 2 * (1 if head % 2 == 0 else -1)
        relative.table[
            head, relative.distances + max(-relative.distances, min(offset, relative.distances))
        ] = PLACE


def _stack(shape: Shape, layers: int, *, causal: bool, cross: bool) -> nn.ModuleList:
    return nn.ModuleList(Layer(shape, index, causal=causal, cross=cross) for index in range(layers))


def _feed_forward(size: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, hidden), nn.GELU(), nn.Linear(hidden, size))


def _named(watch: Watcher | None, name: str) -> Observe | None:
    """Return what one attention tells, with its name."""
    return None if watch is None else functools.partial(watch, name)
