"""One row of one head of attention, every step of it kept as plain numbers: the answer of ``explain``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from attncli.record import AttentionLayer, Token, Tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
    Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Softened:
    """What softmax makes of the row's scores at one scale.

    Args:
        scale: What multiplies Q·K.
        variance: Of the scores of the keys that are allowed.
        entropy: Of the weights, in bits.
        gradient: Frobenius norm of softmax's Jacobian, ∂weights/∂scores.
        largest: The largest weight.
    """

    scale: float
    variance: float
    entropy: float
    gradient: float
    largest: float


Normed = Literal["head", "all heads", "between projections", "input"]


@dataclass(frozen=True)
class Earlier:
    """Vectors as they were before one step: of a query the rows, of keys the keys.

    Args:
        step: The step that came next.
    """

    step: Literal["rotation", "norm"]
    rows: Rows


@dataclass(frozen=True)
class Made:
    """How a head's queries, keys or values were made, as far as that was found.

    Args:
        formula: ``rotate(norm(x·W_Q))``, with a question mark in the place of what was not found; None where nothing
            was. x is the row's input; y and z are other inputs.
        layer: The earlier layer of which they are those; None where they are the layer's own, or unknown.
        rotated: Rotary positions turned them.
        norms: What each norm on the way worked on: one head's vectors, all heads' together, or what lies between two
            linear maps, or the input.
        modules: Names of the linear modules on the way.
        earlier: The vectors before each step, the last step first.
    """

    formula: str | None
    layer: int | None = None
    rotated: bool = False
    norms: tuple[Normed, ...] = ()
    modules: tuple[str, ...] = ()
    earlier: tuple[Earlier, ...] = ()

    @property
    def before_rotation(self) -> Rows | None:
        """The vectors before their positions turned them; None where nothing did, or it was not found."""
        return next((one.rows for one in self.earlier if one.step == "rotation"), None)


@dataclass(frozen=True)
class Added:
    """What the head adds to the row: its output through its own part of the output projection.

    Args:
        vector: ``output · W_O[head]``, without the bias, which belongs to no head.
        between: What the heads' outputs went through before: a norm over all heads, a gate, or nothing.
        gate: Name of the module that made the gate.
        bias: Norm of the projection's bias; None where it has none.
        all_heads: What the whole layer adds: all heads together, and the bias.
        stream: What that is added to, the residual stream; None where no sum of the two was seen.
    """

    vector: Vector
    between: Literal["norm", "gate"] | None
    gate: str | None
    bias: float | None
    all_heads: Vector
    stream: Vector | None


@dataclass(frozen=True)
class Explained:
    """Each step of one row of one head, with the model's own numbers.

    Args:
        kv_head: The key/value head that the query head reads.
        place: Of the row among the operation's.
        shapes: Of the whole tensors, by name: ``input``, ``query``, ``key``, ``value``, ``scores``,
            ``output``, ``output_projection``; what was not found is missing.
        input: The row of what is projected; None where no projection was found.
        input_from: How it comes from the residual stream; None where that was not found.
        key_input: Likewise for keys and values, where they come from elsewhere (cross-attention): of each key.
        query: As multiplied: after position encoding.
        made: How queries, keys and values were made: by letter, Q, K and V.
        factor: By how much queries and keys together were made longer between their projections and the products; 1
            in most models, 1/√d_k where a model scales its queries before. None where the projections were not found.
        dots: Q·K of each key.
        scale: What multiplies it.
        scaled: Their product.
        softcap: Bounds `scaled` to ± itself; None for no bound.
        capped: `scaled`, bounded.
        bias: Added; None where nothing is.
        scores: What goes into softmax, also of masked keys.
        allowed: Which keys may be attended to; None for all.
        sink: A logit that joins softmax's denominator; None for none.
        output: ``weights · value``; None where the value was not seen.
        output_error: Its largest difference from what the model's own kernel gave.
        own: What softmax makes of the scores as the model scales them.
        other: For contrast: without scaling; where the model does not scale, with 1/√d_k.
        added: None where the output projection was not found.
    """

    layer: AttentionLayer
    head: int
    kv_head: int
    query_token: Token
    place: int
    key_tokens: Tokens
    shapes: Mapping[str, tuple[int, ...]]
    input: Vector | None
    input_from: Literal["stream", "norm"] | None
    key_input: Rows | None
    query: Vector
    made: Mapping[str, Made]
    key: Rows
    value: Rows | None
    factor: float | None
    dots: Vector
    scale: float
    scaled: Vector
    softcap: float | None
    capped: Vector
    bias: Vector | None
    scores: Vector
    allowed: NDArray[np.bool_] | None
    sink: float | None
    weights: Vector
    output: Vector | None
    output_error: float | None
    own: Softened
    other: Softened
    added: Added | None

    @property
    def query_before(self) -> Vector | None:
        """The query before position encoding; None where it is the same or was not found."""
        rows = self.made["Q"].before_rotation
        return None if rows is None else rows[self.place]

    @property
    def key_before(self) -> Rows | None:
        """Likewise, of the keys."""
        return self.made["K"].before_rotation

    @property
    def products(self) -> Rows:
        """Q·K taken apart, ``(keys, head_dim)``: what each dimension adds."""
        return self.query * self.key


@dataclass(frozen=True)
class Reordered:
    """The same words in two orders.

    Args:
        words: In the first order.
        order: Where each word of the second order stands in the first.
        differences: For each way to run: the largest difference of each word's outputs, the order undone.
        largest: Largest output, to hold the differences against.
        depth: Number of layers.
        heads: Number of heads.
    """

    words: tuple[str, ...]
    order: tuple[int, ...]
    differences: Mapping[str, tuple[float, ...]]
    largest: float
    depth: int
    heads: int
