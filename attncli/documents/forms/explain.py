"""The JSON of ``explain``: one row of attention with its numbers, or what scaling or position encoding does."""

from typing import Annotated, Literal, NotRequired, TypedDict

from attncli.documents.forms.common import (
    MADE_BY,
    Count,
    Document,
    Form,
    Fraction,
    Kind,
    Positive,
    Real,
    Size,
    Source,
    Token,
    Weight,
    about,
)


class Softened(TypedDict):
    """What softmax makes of the row's scores at one scale."""

    scale: Annotated[Real, about("What multiplies Q·K.")]
    variance: Annotated[Size, about("Of the scores of the keys that are allowed.")]
    entropy: Annotated[Size, about("Of the weights, in bits.")]
    gradient: Annotated[Size, about("Frobenius norm of ∂weights/∂scores.")]
    largest: Annotated[Weight, about("The largest weight.")]


class Projection(TypedDict):
    """How queries, keys or values were made."""

    formula: Annotated[
        str | None,
        about(
            "From the input, for example rotate(norm(x·W_Q)); ? stands for what was not found; null where "
            "nothing was."
        ),
    ]
    layer: Annotated[
        int | None,
        about(
            "The earlier layer whose keys or values these are; null where they are the layer's own, or that "
            "was not found."
        ),
    ]
    rotated: Annotated[bool, about("Rotary positions turn them.")]
    norms: Annotated[
        list[Literal["head", "all heads", "between projections", "input"]],
        about("What each normalization on the way works on."),
    ]
    modules: Annotated[list[str], about("The linear modules on the way.")]


class Operation(TypedDict):
    """The attention operation."""

    kind: Kind
    layer: Annotated[Count, about("The layer's true index.")]
    head: Annotated[Count, about("The query head.")]
    kv_head: Annotated[Count, about("The key/value head that it reads.")]
    heads: Annotated[Positive, about("Number of query heads.")]
    kv_heads: Annotated[Positive, about("Number of key/value heads.")]
    module: Annotated[str, about("The module's path.")]


class Made(TypedDict):
    """How queries, keys and values were made, found by computing."""

    Q: NotRequired[Projection]
    K: NotRequired[Projection]
    V: NotRequired[Projection]


class Scaling(TypedDict):
    """The row as the model scales it (own), and without scaling, or with 1/√d_k where the model has none (other)."""

    own: Softened
    other: Softened


class ExplainedKey(TypedDict):
    """One key. What no key of the row has is left out."""

    token: Token
    input: NotRequired[
        Annotated[list[Real], about("What was projected, where keys come from elsewhere than queries.")]
    ]
    key: Annotated[list[Real], about("As multiplied, after position encoding.")]
    key_before_position: NotRequired[Annotated[list[Real], about("Before it, where that changed it.")]]
    products: Annotated[list[Real], about("What each dimension adds to the dot product.")]
    dot: Annotated[Real, about("Q·K: the products' sum.")]
    scaled: Annotated[Real, about("The same times the scale.")]
    capped: NotRequired[Annotated[Real, about("The same after the soft-cap, where there is one.")]]
    bias: NotRequired[Annotated[Real, about("What is added, where anything is.")]]
    score: Annotated[Real, about("What goes into softmax, also where it is not allowed.")]
    allowed: Annotated[bool, about("Whether the row may attend to it.")]
    weight: Annotated[Weight, about("After softmax.")]
    value: NotRequired[Annotated[list[Real], about("Its value.")]]


class Added(TypedDict):
    """What the head adds through its part of the output projection."""

    vector: Annotated[list[Real], about("What the head adds, without the bias.")]
    between: NotRequired[
        Annotated[
            Literal["norm", "gate"] | None,
            about("What the heads' outputs go through before the output projection."),
        ]
    ]
    gate: NotRequired[Annotated[str | None, about("The module that makes the gate; null for no gate.")]]
    layer: Annotated[list[Real], about("What the layer adds: all heads and the bias.")]
    stream: Annotated[
        list[Real] | None, about("The residual stream that it is added to; null where no such sum was seen.")
    ]
    norm: Annotated[Size, about("Length of vector.")]
    layer_norm: Annotated[Size, about("Length of layer.")]
    bias_norm: Annotated[Real | None, about("Length of the bias.")]
    stream_norm: Annotated[Real | None, about("Length of stream.")]


class DiagramNode(TypedDict):
    """One node."""

    name: Annotated[str, about("By which others name it.")]
    lines: Annotated[list[str], about("What stands in it.")]
    inputs: Annotated[list[str], about("Names of the nodes that it comes from.")]


class ScalingPoint(TypedDict):
    """One size."""

    d_k: Annotated[Positive, about("Size of the vectors.")]
    scaled: Annotated[bool, about("Whether scores are divided by √d_k.")]
    variance: Annotated[Size, about("Of the scores.")]
    entropy: Annotated[Size, about("Mean of the rows' entropies, in bits.")]
    gradient: Annotated[Size, about("Mean of the norms of ∂weights/∂scores.")]
    largest_weight: Annotated[Fraction, about("Mean of the rows' largest weights.")]


class MovedWord(TypedDict):
    """A word that changed its place."""

    word: Annotated[str, about("The word.")]
    place: Annotated[Count, about("In the first order.")]
    moved_to: Annotated[Count, about("In the second.")]


class ExplainedSteps(Document):
    """One row of one head, step by step."""

    command: Annotated[Literal["explain"], MADE_BY]
    topic: Annotated[Literal["steps"], about("What was explained.")]
    source: Source
    site: Operation
    shapes: Annotated[dict[str, list[Count]], about("Of the whole tensors, by name.")]
    query_token: Annotated[Token, about("The row.")]
    input: Annotated[
        list[Real] | None, about("The row of what is projected; null where no projection was found.")
    ]
    made: NotRequired[Made]
    query: Annotated[list[Real], about("The query as multiplied, after position encoding.")]
    query_before_position: NotRequired[
        Annotated[list[Real] | None, about("Before it; null where that changed nothing or was not found.")]
    ]
    factor: NotRequired[
        Annotated[
            Real | None,
            about(
                "By how much queries and keys together were made longer between their projections and the "
                "products: 1 in most models; null where the projections were not found."
            ),
        ]
    ]
    scale: Annotated[Real, about("What multiplies Q·K.")]
    softcap: NotRequired[Annotated[Real | None, about("Bounds the scores; null for no bound.")]]
    sink: NotRequired[
        Annotated[Real | None, about("A logit that joins softmax's denominator; null for none.")]
    ]
    scaling: Scaling
    key_count: Annotated[Count, about("How many keys there are; keys may list fewer.")]
    weight_sum: Annotated[Size, about("Of all weights: 1, less where there is a sink.")]
    keys: Annotated[list[ExplainedKey], about("All keys, or with --top the strongest, by position.")]
    output: Annotated[
        list[Real] | None, about("The weighted sum of the values; null where those were not seen.")
    ]
    output_error: NotRequired[
        Annotated[Real | None, about("Its largest difference from what the model's own kernel gave.")]
    ]
    added: Annotated[Added | None, about("Null where the output projection was not found.")]
    diagram: Annotated[list[DiagramNode], about("The data-flow.")]


class ExplainedScaling(Document):
    """What 1/√d_k does."""

    command: Annotated[Literal["explain"], MADE_BY]
    topic: Annotated[Literal["scaling"], about("What was explained.")]
    key_count: Annotated[Count, about("How many keys there are; keys may list fewer.")]
    points: Annotated[list[ScalingPoint], about("One for each size of vectors, without scaling and with it.")]


class ExplainedOrder(Document):
    """What position encoding does."""

    command: Annotated[Literal["explain"], MADE_BY]
    topic: Annotated[Literal["order"], about("What was explained.")]
    source: Source
    rows: Annotated[list[MovedWord], about("One for each word.")]
    words: Annotated[list[str], about("The words in their first order.")]
    order: Annotated[list[Count], about("Where each word of the second order stands in the first.")]
    differences: Annotated[
        dict[str, list[Size]],
        about("For each way to run, each word's largest difference between its two outputs."),
    ]
    largest: NotRequired[Annotated[Real, about("The largest output.")]]
    depth: NotRequired[Annotated[Positive, about("Number of layers.")]]
    heads: NotRequired[Annotated[Positive, about("Number of heads.")]]


FORMS = {
    "explain": Form(
        "Attention, explained",
        "The JSON of attncli explain: every step of one row of attention with its numbers, or what scaling or position "
        "encoding does.",
        (ExplainedSteps, ExplainedScaling, ExplainedOrder),
    )
}
