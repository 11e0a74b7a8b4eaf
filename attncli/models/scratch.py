"""A small Transformer built from our own attention, over any sentence, with seeded random weights.

Nothing in it is trained. It shows what the operations do (masks, heads, positions, cross-attention), not what a
language model has learned.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attncli import registry
from attncli.attention.core import repeat_kv
from attncli.attention.modules import MultiHeadAttention
from attncli.attention.operation import AttentionOperation
from attncli.attention.positions import sinusoidal_positions
from attncli.attention.variants import Variant
from attncli.capture.blocks import BlockFeed
from attncli.capture.measures import Measure
from attncli.errors import CaptureError, UsageError
from attncli.memory import require_memory
from attncli.models.tokens import words_of_text
from attncli.record import KINDS, AttentionLayer, Kind, Observer, Run, SourceInfo, Tokens
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="scratch",
    summary="attncli's own attention with random weights, untrained: shows what the operations do",
    reference="Vaswani et al. 2017, arXiv 1706.03762",
    parameters=(
        Parameter("layers", 1, "number of layers", minimum=1),
        Parameter("heads", 1, "number of heads; divides d_model", minimum=1),
        Parameter("d_model", 64, "size of the vectors; even", minimum=2),
        Parameter("causal", False, "a decoder: no position sees later ones"),
        Parameter("seed", 0, "seed of the random weights", minimum=0),
    ),
)

PLAIN_AND_FAST = 1e-4
"""How far a variant's fast form may be from its plain form, relative to the largest output."""

UNTRAINED = (
    "weights are random, not trained: this shows the operation, not language (--model for a trained one)"
)


class Block(nn.Module):
    """One layer: self-attention, cross-attention where there is a memory, a feed-forward network; pre-norm."""

    def __init__(self, d_model: int, heads: int, *, causal: bool, cross: bool, mixing: Mixing | None) -> None:
        super().__init__()
        self.mixing = mixing
        self.attention = MultiHeadAttention(d_model, heads, causal=causal)
        self.cross = MultiHeadAttention(d_model, heads) if cross else None
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model)
        )

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"] | None,
        observe: Observation,
    ) -> Float[Tensor, "batch query d_model"]:
        """Refine each position with what it attends to.

        Args:
            observe: Shown each attention operation.
        """
        normed = self.norms[0](x)
        if self.mixing is None:
            x = x + self.attention(normed, observe=observe.of("attention"))[0]
        else:
            x = x + self.mixing.attend(self.attention, normed, observe.of_weights)
        if self.cross is not None and memory is not None:
            x = x + self.cross(self.norms[1](x), memory, observe=observe.of("cross"))[0]
        refined: Tensor = x + self.feed_forward(self.norms[2](x))
        return refined


@dataclass(frozen=True)
class Mixing:
    """Self-attention by a variant instead of full attention.

    Args:
        settings: Values of the variant's parameters.
    """

    entry: Entry
    variant: Variant
    settings: Mapping[str, Any]

    def attend(
        self,
        attention: MultiHeadAttention,
        x: Float[Tensor, "batch query d_model"],
        observe: Callable[[Tensor, bool], None],
    ) -> Float[Tensor, "batch query d_model"]:
        """Attend by the variant's plain form, which has the weights, and check it against the fast one.

        Raises:
            CaptureError: The two differ.
            UsageError: The settings do not fit the length of the text.
        """
        query, key, value = attention.project(x)
        options = {"causal": attention.causal, **self.settings}
        try:
            weights = self.variant.weights(query, key, **options)
            output = self.variant.attend(query, key, value, **options)
        except ValueError as error:
            raise UsageError(f"--variant {self.entry.name}: {error}") from error
        plain = weights @ repeat_kv(value, attention.heads)
        difference = float((plain - output).abs().max() / plain.abs().max().clamp(min=1e-6))
        if not difference <= PLAIN_AND_FAST:
            raise CaptureError(
                f"{self.entry.name}: its fast form differs from its plain form by {difference:.2g}"
            )
        observe(weights, not self.entry.attributes["signed"])
        return attention.merge(output)


@dataclass(frozen=True)
class Observation:
    """Takes a layer's operations to the emitter, named."""

    emitter: BlockFeed
    kind: Kind
    layer: int
    module: str

    def of(self, part: str) -> Callable[[AttentionOperation, Tensor], None]:
        """Return a function that shows an operation of a part of the layer: ``attention`` or ``cross``."""

        def emit(operation: AttentionOperation, output: Tensor) -> None:
            kind: Kind = "cross" if part == "cross" else self.kind
            heads, module = (operation.heads, operation.kv_heads), f"{self.module}.{part}"
            site = AttentionLayer(kind, self.layer, *heads, module)
            self.emitter.emit(site, operation, output, "scratch")

        return emit

    def of_weights(self, weights: Tensor, sum_to_one: bool) -> None:
        """Show a variant's effective weights. A pair with exactly none was not computed."""
        heads = weights.shape[1]
        allowed = weights != 0
        mask = None if bool(allowed.all()) else allowed
        layer = AttentionLayer(self.kind, self.layer, heads, heads, f"{self.module}.attention")
        self.emitter.emit_weights(layer, weights, mask, "scratch", sum_to_one=sum_to_one)


class ScratchSource:
    """A seeded encoder, decoder (`causal`) or, with a second text, encoder–decoder over a sentence.

    Args:
        text: Cut into words and punctuation.
        pair: The target side: makes an encoder–decoder whose decoder attends to `text`.
        causal: Whether the model of a single text is a decoder.
        variant: Attend by this variant instead of full attention.
        settings: Its parameters, as ``name=value``.

    Raises:
        UsageError: The sizes do not fit together, or there is nothing to attend to.
    """

    def __init__(
        self,
        text: str,
        pair: str | None = None,
        *,
        layers: int = 1,
        heads: int = 1,
        d_model: int = 64,
        causal: bool = False,
        seed: int = 0,
        verify: bool = True,
        variant: str | None = None,
        settings: Sequence[str] = (),
    ) -> None:
        if d_model % heads or d_model % 2:
            fitting = math.lcm(2, heads) * math.ceil(d_model / math.lcm(2, heads))
            raise UsageError(
                f"--d-model {d_model}: must be even and a multiple of the {heads} heads",
                f"--d-model {fitting}",
            )
        # Four maps of an attention operation, eight of its feed-forward part; a decoder's layer attends twice.
        maps = 12 if pair is None else 12 + 16
        require_memory(
            4 * maps * layers * d_model**2,
            f"a scratch model of {layers} layer{'s' if layers > 1 else ''} and vectors of {d_model:,}",
            "ask for fewer --layers or a smaller --d-model",
        )
        self.depth_of_all, self.seed, self.verify = layers, seed, verify
        self.source_tokens = _words(text, "the text")
        self.target_tokens = None if pair is None else _words(pair, "--pair")
        self._d_model = d_model
        self.measure: Measure | None = None
        mixing = None
        if variant is not None:
            mixing, causal = open_variant(variant, settings, causal=causal, length=len(self.source_tokens))
        self._mixing = mixing
        kinds: list[Kind] = (
            ["encoder", "decoder"] if pair is not None else ["decoder" if causal else "encoder"]
        )
        with torch.random.fork_rng(devices=[]):
            # nn.Linear draws from the global generator; it is forked, so that the caller's stays as it was.
            torch.manual_seed(seed)
            blocks = {
                kind: [
                    Block(d_model, heads, causal=kind == "decoder", cross=place > 0, mixing=mixing)
                    for _ in range(layers)
                ]
                for place, kind in enumerate(kinds)
            }
        self._stacks = [(kind, nn.ModuleList(made).eval()) for kind, made in blocks.items()]
        for _, stack in self._stacks:
            stack.apply(_spread_scores)

    @property
    def network(self) -> nn.Module:
        """All layers, by their names."""
        return nn.ModuleDict(dict(self._stacks))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention that this model has."""
        have = {kind for kind, _ in self._stacks} | ({"cross"} if self.target_tokens is not None else set())
        return tuple(kind for kind in KINDS if kind in have)

    def depth(self, kind: Kind) -> int:
        """Return the number of layers that have this kind of attention."""
        return self.depth_of_all if kind in self.kinds else 0

    def axes(self, kind: Kind) -> tuple[Tokens, Tokens]:
        """Return the query and key tokens of a kind of attention."""
        target = self.source_tokens if self.target_tokens is None else self.target_tokens
        if kind == "encoder":
            return self.source_tokens, self.source_tokens
        return target, self.source_tokens if kind == "cross" else target

    @torch.inference_mode()
    def run(self, observers: Sequence[Observer]) -> Run:
        """Run forward once and show the observers what they asked for."""
        emitter = BlockFeed(observers, verify=self.verify, measure=self.measure)
        memory: Tensor | None = None
        for (kind, stack), tokens in zip(
            self._stacks, (self.source_tokens, self.target_tokens), strict=False
        ):
            assert tokens is not None
            x = self.embed(tokens)
            for layer, block in enumerate(stack):
                x = block(x, memory, Observation(emitter, kind, layer, f"{kind}.{layer}"))
            memory = x
        axes = {kind: self.axes(kind) for kind in self.kinds}
        variant = self._mixing.entry if self._mixing else None
        return Run(
            source=SourceInfo("scratch", "scratch", family=variant.name if variant else "full"),
            attention_layers=tuple(emitter.attention_layers),
            queries={kind: pair[0] for kind, pair in axes.items()},
            keys={kind: pair[1] for kind, pair in axes.items()},
            reports=tuple(emitter.reports),
            notes=(UNTRAINED, *self._variant_notes()),
            seed=self.seed,
            signed=variant is not None and bool(variant.attributes["signed"]),
        )

    def first_projections(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value of the first layer, ``(1, heads, query, head_dim)`` each."""
        block = cast(Block, self._stacks[0][1][0])
        with torch.inference_mode():
            return block.attention.project(block.norms[0](self.embed(self.source_tokens)))

    def _variant_notes(self) -> tuple[str, ...]:
        if self._mixing is None:
            return ()
        entry, set_to = self._mixing.entry, self._mixing.entry.told(self._mixing.settings)
        notes = [f"{entry.name}{f' with {set_to}' if set_to else ''}: {entry.summary}"]
        if entry.attributes.get("implied"):
            notes.append("these are effective weights: the matrix that the variant implies and never makes")
        if entry.attributes["signed"]:
            notes.append("they are signed and no probabilities: a row need not sum to 1")
        if self.target_tokens is not None:
            notes.append("cross-attention is full attention: the variant is used for self-attention")
        return tuple(notes)

    def forward(self, x: Float[Tensor, "1 query d_model"]) -> Float[Tensor, "1 query d_model"]:
        """Send vectors through the first stack's layers, unobserved."""
        kind, stack = self._stacks[0]
        for layer, block in enumerate(stack):
            x = block(x, None, Observation(BlockFeed([]), kind, layer, ""))
        return x

    def embed(self, tokens: Tokens, *, positions: bool = True) -> Float[Tensor, "1 query d_model"]:
        """Return each word a vector that depends on the word and the seed alone, plus its position.

        Args:
            positions: Whether positions are added.
        """
        vectors = []
        for token in tokens:
            generator = torch.Generator().manual_seed(zlib.crc32(token.text.encode()) ^ self.seed)
            vectors.append(torch.randn(self._d_model, generator=generator))
        words = torch.stack(vectors).unsqueeze(0)
        return words + sinusoidal_positions(len(tokens), self._d_model) if positions else words


def open_variant(name: str, settings: Sequence[str], *, causal: bool, length: int) -> tuple[Mixing, bool]:
    """Find a variant and check its settings.

    Args:
        length: Number of tokens: parameters that would cover them all are taken smaller, unless they are set.

    Returns:
        The variant ready to use, and whether it is causal: as asked, or always where it has no other form.

    Raises:
        UsageError: There is unknown variant or parameter, or it has no causal form.
    """
    module = registry.load("variants", name)
    entry = registry.entries("variants")[name]
    has_causal = entry.attributes["causal"]
    if causal and not has_causal:
        hint = "leave --causal out, or choose another variant"
        raise UsageError(f"--causal: {name} has no causal form", hint)
    mixing = Mixing(entry, cast(Variant, module), entry.settings(settings, length=length))
    return mixing, causal or has_causal == "only"


def _spread_scores(module: nn.Module) -> None:
    """Scale query and key projections so that scores have variance 1, as Glorot's rule gives for square matrices.

    nn.Linear's own initialisation gives them a ninth of it: every map would be a uniform grey.
    """
    if isinstance(module, MultiHeadAttention):
        for projection in (module.query, module.key, module.value):
            projection.weight.data.mul_(3**0.5)


def _words(text: str, what: str) -> Tokens:
    tokens = words_of_text(text)
    if not tokens:
        raise UsageError(f"{what} is empty: there is nothing to attend to")
    return tokens
