"""The data that flows through attncli: layers, tokens, blocks of weights, and who observes them.

    text ─tokenize→ Tokens ─┐
                            ├─ source.run(observers) ─ WeightBlock* ─→ observer.finish() ─→ View
                model name ─┘

Nothing here imports torch at run time, so that saved runs are read and drawn without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from attncli.errors import UsageError
from attncli.labels import in_ranges

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor

Kind = Literal["encoder", "decoder", "cross"]
GridUnit = Literal["weight", "mask", "signed", "share", "size"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")


@dataclass(frozen=True, slots=True)
class AttentionLayer:
    """One attention operation of a model.

    Args:
        kind: Self-attention of an encoder, self-attention of a decoder, or cross-attention.
        index: The layer's true index in the model, zero-based: hybrid models skip layers.
        heads: Number of query heads.
        kv_heads: Number of key/value heads; query head ``a`` reads ``a // (heads // kv_heads)``.
        module: The module's name in the model, for messages.
        stack: The row of layers it belongs to where that is not the text model's own, such as ``vision_tower.layers``.
            Observers are shown one stack: by default the one whose name is empty.
    """

    kind: Kind
    index: int
    heads: int
    kv_heads: int
    module: str = ""
    stack: str = ""

    def kv_head(self, head: int) -> int:
        """Return the key/value head that a query head reads.

        >>> [AttentionLayer("decoder", 0, 9, 3).kv_head(head) for head in (0, 2, 3, 8)]
        [0, 0, 1, 2]
        """
        return head // (self.heads // self.kv_heads)


@dataclass(frozen=True, slots=True)
class Token:
    """One position of a text as the model sees it.

    Args:
        position: Absolute, zero-based.
        id: Index in the vocabulary; None where there is none.
        text: What the token stands for, decoded: no Ġ, ▁ or ##. May hold anything, control characters too.
        label: `text` made fit to show: marks for spaces and newlines, nothing that can harm a terminal.
        special: Added by the tokenizer ([CLS], <s>, padding) and not part of the text.
        start: Offset of its first character in the text; None for specials.
        end: Offset after its last character.
        bytes: Hexadecimal bytes of a piece that is no valid UTF-8 by itself.
        piece: The vocabulary's own form (``Ġthe``, ``##ed``), for ``--raw-tokens``.
        sequence: 0 for the first text of a pair, 1 for the second, None for specials.
        segment: The part of a conversation or of a generation that it belongs to (``system``, ``user``,
            ``assistant``, ``prompt``, ``generated``), or the picture (``img``, ``img2``); None where the text is
            not divided.
        written: The characters from `start` to `end` as they stand in the text, whatever the vocabulary makes of
            them; None where there is no text to point into.
    """

    position: int
    id: int | None
    text: str
    label: str
    special: bool = False
    start: int | None = None
    end: int | None = None
    bytes: str | None = None
    piece: str | None = None
    sequence: int | None = 0
    segment: str | None = None
    written: str | None = None

    @property
    def of_picture(self) -> bool:
        """Whether it is part of a picture in the text.

        >>> [Token(0, None, "", "", segment=name).of_picture for name in ("img2", "imgs", None)]
        [True, False, False]
        """
        name = self.segment or ""
        return name.startswith("img") and (name[3:] or "2").isdecimal()


Tokens = tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Some characters of a text.

    Args:
        start: Offset of the first of them.
        end: Offset after the last.
        sequence: 0 for the first text of a pair, 1 for the second.
    """

    start: int
    end: int
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """Where attention came from; the ``source`` of every data format.

    Args:
        name: The model's name or path as the user gave it, or ``scratch``.
        kind: ``pretrained``, ``scratch`` (untrained) or ``trained`` (shipped with attncli).
        adapter: The adapter (LoRA and its like) that was applied to it, as the user named it.
        capture: How the weights were obtained: ``interface`` (recomputed from the queries and keys that the
            model's own fast attention used), ``eager`` (the model's own softmax) or ``scratch``.
        weights: A hash that tells its checkpoint from others (`attncli.models.fingerprint`).
    """

    name: str
    kind: Literal["pretrained", "scratch", "trained"]
    family: str | None = None
    revision: str | None = None
    adapter: str | None = None
    dtype: str = "float32"
    device: str = "cpu"
    capture: Literal["interface", "eager", "scratch"] = "scratch"
    weights: str | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """With what an answer was made, so that it can be made again.

    Args:
        date: When, in UTC; ``SOURCE_DATE_EPOCH`` sets it.
        original: Of a saved run that is drawn again: with what the run was made.
    """

    attncli: str
    torch: str | None = None
    transformers: str | None = None
    peft: str | None = None
    argv: tuple[str, ...] = ()
    seed: int | None = None
    date: str | None = None
    original: Provenance | None = None


@dataclass(frozen=True, slots=True)
class WeightBlock:
    """Some rows of some heads of one attention operation, shown to observers and then dropped.

    The memory after the tensors is used again for the next block: an observer copies what it keeps.

    Args:
        layer: The operation.
        heads: The query heads that `weights` holds, in its order.
        rows: Absolute positions of the query rows that `weights` holds, in its order; consecutive.
        weights: After softmax, float32. Rows sum to 1, less where there is a sink, 0 where nothing is allowed.
        allowed: Which of the block's keys each row may attend to; None where every row may attend to all of them.
        first_key: Absolute position of the first of the block's keys. Keys of the operation that lie before or
            after those of the block are ruled out for all its rows.
        scores: What the weights are the softmax of, as far as it is known: finite, very low where not allowed.
        sums: Each row's sum of weights, where it is known already.
    """

    layer: AttentionLayer
    heads: tuple[int, ...]
    rows: range
    weights: Float[Tensor, "batch heads rows keys"]
    allowed: Bool[Tensor, "#batch #heads #rows keys"] | None
    first_key: int = 0
    scores: Float[Tensor, "batch heads rows keys"] | None = None
    sums: Float[Tensor, "batch heads rows"] | None = None

    @property
    def keys(self) -> range:
        """Absolute positions of the keys that `weights` holds, in its order."""
        return range(self.first_key, self.first_key + self.weights.shape[-1])


@dataclass(frozen=True, slots=True)
class Request:
    """What an observer wants of one layer: heads (None = all) and a range of query rows (None = all)."""

    heads: tuple[int, ...] | None = None
    rows: range | None = None


class Observer(Protocol):
    """Keeps its answer from the blocks it is shown. The answer must not depend on the blocks' size.

    Together the blocks of a layer hold each head and row that was asked for once. All blocks of some rows have the
    same range of rows and come one after another, each with some of the heads.
    """

    def request(self, layer: AttentionLayer) -> Request | None:
        """Return what is wanted of a layer, once before its blocks come; None for nothing.

        Raises:
            UsageError: What the user asked for does not exist there (a head out of range).
        """

    def update(self, block: WeightBlock) -> None:
        """Take in a block. It may hold heads and rows that were not asked for."""


class LayerObserver(Observer, Protocol):
    """An observer that can say beforehand what it looks for: when all have that, a model need not run to its end."""

    @property
    def sought(self) -> frozenset[tuple[Kind, int]]:
        """The kind and index of every layer that the observer wants."""


@dataclass(frozen=True)
class LayerReport:
    """What the self-checks measured at one layer; all are largest absolute values over the rows that were seen.

    Args:
        row_sum_error: Distance of a row's sum (sink included) from 1.
        forbidden: Weight on keys that the mask rules out.
        output_error: Difference between weights·value and what the model's own kernel returned, relative to
            the largest output; None where the value was not seen.
        dead_rows: Rows without any allowed key.
    """

    layer: AttentionLayer
    row_sum_error: float
    forbidden: float
    output_error: float | None
    dead_rows: int
    capture: str


@dataclass(frozen=True, slots=True)
class HeadRole:
    """What a head was found to do, for most texts.

    Args:
        role: ``previous_token``, ``next-token``, ``induction`` or ``alignment``.
        score: Mean weight on what its role points at, or the share of rows that have it right; between 0 and 1.
    """

    kind: Kind
    layer: int
    head: int
    role: str
    score: float


@dataclass(frozen=True)
class Run:
    """What one forward pass tells besides the observers' answers.

    Args:
        layers: Every attention operation that was seen, in order, asked for or not.
        queries: Query tokens by kind.
        keys: Key tokens by kind.
        notes: Facts that a reader of the numbers must know, one line each.
        signed: Whether the weights are effective weights of any sign, whose rows need not sum to 1.
        roles: What heads of this model are known to do, the strongest of each role first.
        stopped: Whether the model was stopped when all that was asked for had been seen.
        instead: What layers without attention of a kind have in its place: ``linear attention``.
    """

    source: SourceInfo
    attention_layers: tuple[AttentionLayer, ...]
    queries: Mapping[Kind, Tokens]
    keys: Mapping[Kind, Tokens]
    reports: tuple[LayerReport, ...] = ()
    notes: tuple[str, ...] = ()
    seed: int | None = None
    signed: bool = False
    roles: tuple[HeadRole, ...] = ()
    stopped: bool = False
    instead: Mapping[tuple[Kind, int], str] = field(default_factory=dict)

    def layers(self, kind: Kind) -> frozenset[int]:
        """Return the layers that attention of a kind was seen in, those of other stacks than the main one aside."""
        return frozenset(
            layer.index for layer in self.attention_layers if layer.kind == kind and not layer.stack
        )

    def no_attention(self, kind: Kind, layer: int, asked: str) -> UsageError:
        """Return the error that a layer has no attention of a kind.

        Args:
            asked: The layers that the user named.
        """
        what = self.instead.get((kind, layer))
        return UsageError(
            f"--layer {asked}: layer {layer} has no {kind} attention{f' ({what})' if what else ''}",
            f"layers that have: {in_ranges(self.layers(kind)) or 'none'}",
        )


class Source(Protocol):
    """Where attention comes from. One run is one forward pass at the source's normal speed."""

    def run(self, observers: Sequence[Observer]) -> Run:
        """Run forward once and show the observers what they asked for."""
