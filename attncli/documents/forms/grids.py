"""The JSON of ``show``, ``mask`` and ``compare``: matrices over the same tokens. Rows are queries, columns keys."""

from collections.abc import Mapping
from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from attncli.documents.forms.common import (
    MADE_BY,
    PAIR,
    Count,
    Document,
    Form,
    Fraction,
    Kind,
    OfText,
    Positive,
    Real,
    Size,
    Source,
    Token,
    about,
)

Range = Annotated[list[Count], PAIR]
Unit = Literal["weight", "signed"]
NUMBERS = {
    key: Meta(extra_json_schema={"oneOf": [{"required": [key]}, {"required": ["top"]}]})
    for key in ("weights", "allowed")
}
"""A matrix has all its numbers, or the strongest keys."""


class Pooled(TypedDict):
    """How a map was made smaller: a row and a column stand for as many positions as there are up to the next one's."""

    how: Annotated[
        Literal["max", "mean"],
        about("What a cell holds of its pairs: the largest weight, or the mean over those that are allowed."),
    ]
    queries: Annotated[Count, about("Number of query tokens that all rows stand for together.")]
    keys: Annotated[Count, about("Number of key tokens that all columns stand for together.")]


class TopKey(TypedDict):
    """One of a query's strongest keys."""

    key: Annotated[Count, about("True position of the key.")]
    weight: Real | None


class AllowedKey(TypedDict):
    """One of the keys that a query may attend to."""

    key: Annotated[Count, about("True position of the key.")]
    allowed: Literal[0, 1]


class Matrix(TypedDict):
    """One matrix."""

    kv_head: NotRequired[
        Annotated[
            Count | None,
            about("The key/value head that the query head reads, where there are fewer of them."),
        ]
    ]
    shape: Annotated[list[Count], PAIR, about("Rows (queries) and columns (keys).")]


class Placed(TypedDict):
    """Where a matrix belongs."""

    kind: Annotated[Kind | None, about("Self-attention of an encoder or a decoder, or cross-attention.")]
    layer: Annotated[
        Count | Literal["mean", "max"] | None,
        about("The layer's true index in the model, zero-based; mean or max over the layers asked for."),
    ]
    head: Annotated[
        Count | Literal["mean", "max"] | None,
        about("Query head, zero-based; mean or max over the heads asked for."),
    ]


class MaybePlaced(TypedDict):
    """Where a matrix belongs, if anywhere."""

    kind: NotRequired[
        Annotated[
            Kind | None,
            about(
                "Self-attention of an encoder or a decoder, or cross-attention; absent or null for a pattern "
                "that belongs to no model."
            ),
        ]
    ]
    layer: NotRequired[
        Annotated[
            Count | Literal["mean", "max"] | None,
            about(
                "The layer's true index, zero-based; mean or max over the layers asked for; null or absent where "
                "there is only one."
            ),
        ]
    ]
    head: NotRequired[
        Annotated[
            Count | Literal["mean", "max"] | None,
            about(
                "Query head, zero-based; mean or max over the heads asked for; null or absent where there is only "
                "one."
            ),
        ]
    ]


class Weights(Matrix):
    """The numbers of a matrix."""

    weights: NotRequired[
        Annotated[
            list[list[Real | None]],
            about("One list for each query, one number for each key; null where it is undefined."),
        ]
    ]
    top: NotRequired[
        Annotated[
            list[list[TopKey]],
            about(
                "Only the keys of each query whose numbers are largest in absolute value, the largest first, "
                "where --top was given."
            ),
        ]
    ]
    allowed_keys: NotRequired[
        Annotated[
            list[list[Range]],
            about(
                "For each query the keys it may attend to, as ranges of column numbers (first and last, both "
                "in); absent where every query may attend to every key."
            ),
        ]
    ]


class ShownHead(Weights, Placed):
    """One head."""

    name: NotRequired[
        Annotated[str, about("A name of its own, where layer and head do not tell it from the others.")]
    ]
    on_pictures: NotRequired[
        Annotated[
            Fraction,
            about(
                "Of a text with pictures: mean weight on their tokens, over the rows shown that can see them."
            ),
        ]
    ]


class ComparedVariant(Weights, MaybePlaced):
    """One variant."""

    name: Annotated[str, about("The variant.")]
    unit: NotRequired[Annotated[Unit, about("What this variant's numbers are, where variants differ.")]]
    relative_error: Annotated[
        Size | None,
        about(
            "How far the variant's output is from exact attention's: the norm of the difference divided by "
            "the norm of the exact output; null where it is undefined."
        ),
    ]
    kl_bits: Annotated[
        Size | None,
        about(
            "Kullback–Leibler divergence of the variant's weights from exact attention's, mean over the rows,"
            " in bits; null where it is undefined (weights with a sign, or a zero where exact attention has "
            "none)."
        ),
    ]
    max_abs_error: Annotated[
        Size | None,
        about(
            "Largest absolute difference between the variant's output and exact attention's; null where it is"
            " undefined."
        ),
    ]


class KeysPerRow(TypedDict):
    """How many keys the queries may attend to."""

    min: Count
    median: Size
    max: Count


class MaskMatrix(Matrix, MaybePlaced):
    """One mask."""

    name: NotRequired[
        Annotated[str, about("A name of its own, where layer and head do not tell it from the others.")]
    ]
    allowed: NotRequired[
        Annotated[list[list[Literal[0, 1]]], about("1 where the query may attend to the key, 0 where not.")]
    ]
    top: NotRequired[
        Annotated[
            list[list[AllowedKey]],
            about("Only the first keys of each query that it may attend to, where --top was given."),
        ]
    ]
    density: NotRequired[Annotated[Fraction, about("Share of all pairs that are allowed, between 0 and 1.")]]
    keys_per_row: NotRequired[KeysPerRow]
    rows_without_keys: NotRequired[
        Annotated[Count, about("Number of queries that may attend to no key at all.")]
    ]
    path_length: NotRequired[
        Annotated[
            Count | None,
            about(
                "For a pattern with as many keys as queries: the layers that it takes until each of the rows "
                "measured from has reached every position that causality lets it see; null where one is never"
                " reached."
            ),
        ]
    ]
    path_rows: NotRequired[
        Annotated[
            Count,
            about(
                "Number of rows that the path length was measured from: all of them, or for long sequences "
                "both ends, the middle and a seeded sample."
            ),
        ]
    ]
    layers: NotRequired[
        Annotated[
            list[Count], about("For a model's mask: the layers that use this one, by their true index.")
        ]
    ]


class Grid(Document):
    """What documents with matrices have in common."""

    top: NotRequired[Annotated[Positive, about("Number of keys listed of each row, where --top was given.")]]
    query_tokens: Annotated[list[Token], about("One for each row.")]
    key_tokens: Annotated[list[Token], about("One for each column.")]


class Shown(Grid, OfText):
    """The JSON of attncli show."""

    command: Annotated[Literal["show"], MADE_BY]
    source: Source
    unit: NotRequired[
        Annotated[
            Unit,
            about(
                "What a value is. weight: after softmax, without dimension, between 0 and 1; a row sums to 1,"
                " to less where there is an attention sink, to 0 where nothing is allowed. signed: an "
                "effective weight of any size and sign, whose rows need not sum to 1 (retention)."
            ),
        ]
    ]
    pooled: NotRequired[Annotated[Pooled, about("Only where the map was made smaller.")]]
    attention: Annotated[
        list[Annotated[ShownHead, NUMBERS["weights"]]], about("The matrices, in the order asked for.")
    ]


class Mask(Grid, OfText):
    """The JSON of attncli mask."""

    command: Annotated[Literal["mask"], MADE_BY]
    source: NotRequired[Annotated[Source | None, about("The model; null or absent for a pattern.")]]
    unit: NotRequired[Annotated[Literal["mask"], about("What a value is: 1 = may attend, 0 = may not.")]]
    attention: Annotated[
        list[Annotated[MaskMatrix, NUMBERS["allowed"]]], about("The masks, in the order asked for.")
    ]


class Compared(Grid):
    """The JSON of attncli compare."""

    command: Annotated[Literal["compare"], MADE_BY]
    source: Annotated[
        Source,
        Meta(extra_json_schema={"properties": {"kind": {"const": "scratch"}}}),
        about("The from-scratch source whose queries, keys and values all variants got."),
    ]
    unit: NotRequired[
        Annotated[
            Unit,
            about(
                "What a value is. weight: between 0 and 1 in every matrix. signed: at least one variant has "
                "effective weights of any size and sign, whose rows need not sum to 1 (retention)."
            ),
        ]
    ]
    attention: Annotated[
        list[Annotated[ComparedVariant, NUMBERS["weights"]]],
        about("One matrix for each variant, in the order asked for."),
    ]


class DifferenceMaps(Grid):
    """The JSON of attncli diff --maps."""

    command: Annotated[Literal["diff"], MADE_BY]
    source: Source
    unit: Annotated[Literal["signed"], about("What a value is: a weight, or in a difference B − A.")]
    attention: Annotated[
        list[Annotated[ShownHead, NUMBERS["weights"]]],
        about("Of each head the map of A, of B, and their difference, over the aligned tokens."),
    ]


def _each(**properties: object) -> dict[str, object]:
    return {"items": {"properties": properties}}


_IN_RANGE = {"minimum": 0, "maximum": 1.0001}
_WEIGHTS = _each(weights={"items": {"items": _IN_RANGE}}, top={"items": _each(weight=_IN_RANGE)})
UNLESS_SIGNED: Mapping[str, object] = {
    "if": {"properties": {"unit": {"const": "signed"}}, "required": ["unit"]},
    "else": {"properties": {"attention": _WEIGHTS}},
}
"""Weights after softmax are not below 0 or above 1, but for rounding."""

SHAPES: Mapping[str, type[Grid]] = {
    "show": Shown,
    "mask": Mask,
    "compare": Compared,
    "diff": DifferenceMaps,
}
"""The structure of each command's document with matrices."""

FORMS = {
    "show": Form(
        "Attention weights",
        "The JSON of attncli show. Rows are queries, columns are keys.",
        (Shown,),
        UNLESS_SIGNED,
    ),
    "mask": Form(
        "Attention mask",
        "The JSON of attncli mask: which keys each query may attend to. Rows are queries, columns are keys.",
        (Mask,),
    ),
    "compare": Form(
        "Variants of attention, compared",
        "The JSON of attncli compare: what variants of attention make of the same queries, keys and values, and how "
        "far each is from exact attention. Rows are queries, columns are keys.",
        (Compared,),
        UNLESS_SIGNED,
    ),
}
