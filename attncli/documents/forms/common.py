"""What documents have in common: numbers, tokens, provenance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

Count = Annotated[int, Meta(ge=0, lt=2**53)]
"""A whole number that every reader of JSON can hold."""

Positive = Annotated[int, Meta(ge=1, lt=2**53)]
Amount = Annotated[int, Meta(ge=0)]
"""Bytes, operations: there may be very many."""

Real = Annotated[float, Meta(ge=-1e300, le=1e300)]
"""A finite number."""

Size = Annotated[float, Meta(ge=0, le=1e300)]
AboveZero = Annotated[float, Meta(gt=0, le=1e300)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Weight = Annotated[float, Meta(ge=0, le=1.0001)]
"""A weight after softmax, rounded."""

Kind = Literal["encoder", "decoder", "cross"]


def about(text: str) -> Meta:
    """Describe a key of a structure."""
    return Meta(description=text)


MADE_BY = about("The command that made the document.")
PAIR = Meta(min_length=2, max_length=2)
"""Of a list: it has two parts."""


@dataclass(frozen=True)
class Form:
    """How the JSON of a command looks.

    Args:
        title: A heading.
        description: What it holds.
        shapes: The structures that it may have.
        rules: What types cannot say, as JSON Schema.
    """

    title: str
    description: str
    shapes: tuple[Any, ...]
    rules: Mapping[str, object] = field(default_factory=dict)


class Provenance(TypedDict):
    """With what the answer was made, so that it can be made again."""

    attncli: Annotated[str, about("Version of attncli.")]
    torch: NotRequired[Annotated[str | None, about("Version of torch, where it took part.")]]
    transformers: NotRequired[Annotated[str | None, about("Version of transformers, where it took part.")]]
    peft: NotRequired[Annotated[str | None, about("Version of peft, where an adapter was applied.")]]
    argv: Annotated[list[str], about("The command line.")]
    seed: NotRequired[Annotated[int | None, about("Seed of all randomness; null where there was none.")]]
    date: NotRequired[
        Annotated[
            str | None, about("When the answer was made, in UTC (ISO 8601); SOURCE_DATE_EPOCH sets it.")
        ]
    ]
    original: NotRequired[
        Annotated["Provenance", about("Of a saved run that was drawn again: with what the run was made.")]
    ]


class Source(TypedDict):
    """Where the attention came from."""

    name: Annotated[
        str, about("The model's name or folder as it was given, or the name of a from-scratch source.")
    ]
    kind: Annotated[
        Literal["pretrained", "scratch", "trained"],
        about("pretrained; scratch: untrained; trained: shipped with attncli."),
    ]
    family: NotRequired[Annotated[str | None, about("The model's architecture: bert, llama, whisper.")]]
    revision: NotRequired[Annotated[str | None, about("The commit of the model's files.")]]
    adapter: NotRequired[
        Annotated[
            str | None, about("The adapter (LoRA and its like) that was applied to the model, as given.")
        ]
    ]
    weights: NotRequired[
        Annotated[
            str | None,
            about(
                "SHA-256 over names, sizes and samples of the checkpoint's files: tells checkpoints apart."
            ),
        ]
    ]
    dtype: NotRequired[Annotated[str, about("Number format of the model's weights.")]]
    device: NotRequired[Annotated[str, about("Where the model ran.")]]
    capture: NotRequired[
        Annotated[
            Literal["interface", "eager", "scratch"],
            about(
                "How the weights were obtained: interface: recomputed from the queries and keys that the model's "
                "own attention used; eager: the model's own softmax; scratch: attncli's own attention."
            ),
        ]
    ]


class Document(TypedDict):
    """What every document has."""

    schema: Annotated[
        Literal[1],
        about("Version of this form. Keys may be added within a version; none changes its meaning."),
    ]
    title: NotRequired[Annotated[str, about("The answer in one line.")]]
    notes: NotRequired[
        Annotated[list[str], about("Facts that a reader of the numbers must know, one line each.")]
    ]
    provenance: Provenance


class OfLine(TypedDict):
    """Which text of many an answer is of, with --each-line."""

    line: NotRequired[Annotated[Positive, about("Number of the text's line, with --each-line.")]]
    id: NotRequired[Annotated[str | int, about("The id of the JSON object on that line, where it has one.")]]


class OfText(OfLine):
    """The text of such an answer, where it is not in it anyway."""

    text: NotRequired[Annotated[str, about("The text, with --each-line.")]]
    pair: NotRequired[Annotated[str, about("The second text of a pair, with --each-line.")]]


class Place(TypedDict):
    """A head by layer and number."""

    layer: Annotated[Count, about("True layer index, zero-based.")]
    head: Annotated[Count, about("Query head, zero-based.")]


class Site(Place):
    """A head of one kind of attention."""

    kind: Annotated[Kind, about("Which attention of the model.")]


Hexadecimal = Annotated[str, Meta(pattern="^([0-9a-f]{2})+$")]


Segment = Annotated[str, Meta(pattern=r"^(system|user|assistant|prompt|generated|img\d*)$")]


class Token(TypedDict):
    """One position of a text as the model sees it."""

    position: Annotated[Count, about("Absolute position, zero-based.")]
    id: Annotated[int | None, about("Index in the vocabulary; null where there is none.")]
    text: Annotated[
        str, about("What the token stands for, decoded and as it is: it may hold control characters.")
    ]
    label: Annotated[str, about("The text made fit to show.")]
    special: Annotated[
        bool, about("Whether the tokenizer added it ([CLS], <s>, padding): no part of the text.")
    ]
    start: Annotated[Count | None, about("Offset of its first character in the text; null for specials.")]
    end: Annotated[Count | None, about("Offset after its last character; null for specials.")]
    bytes: NotRequired[
        Annotated[Hexadecimal | None, about("Hexadecimal bytes of a piece that is no valid UTF-8 by itself.")]
    ]
    piece: NotRequired[
        Annotated[
            str | None,
            about("The vocabulary's own form: Ġthe, ▁the, ##ed; absent where it is the text itself."),
        ]
    ]
    sequence: NotRequired[
        Annotated[
            Literal[0, 1] | None,
            about("0 for the first text, 1 for the second of a pair; null for specials."),
        ]
    ]
    written: NotRequired[
        Annotated[
            str,
            about(
                "The characters from start to end as they stand in the text, where the token's text is "
                "another."
            ),
        ]
    ]
    segment: NotRequired[
        Annotated[
            Segment,
            about(
                "The part of a conversation (system, user, assistant) or of a generation (prompt, generated) "
                "that it belongs to, or the picture (img, img2); absent where the text is not divided."
            ),
        ]
    ]
