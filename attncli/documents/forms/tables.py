"""The JSON of ``tokens``, ``list`` and ``doctor``."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from attncli.documents.forms.common import MADE_BY, Amount, Count, Document, Form, OfLine, Real, Token, about


class TokenList(Document, OfLine):
    """The JSON of attncli tokens."""

    command: Annotated[Literal["tokens"], MADE_BY]
    model: NotRequired[
        Annotated[
            str | None,
            about("The model's name or folder as it was given; null where the text was split into words."),
        ]
    ]
    text: Annotated[str, about("The text.")]
    pair: NotRequired[Annotated[str | None, about("The second text of a pair.")]]
    tokens: Annotated[list[Token], about("In the model's order.")]


class Choice(TypedDict):
    """One choice."""

    name: Annotated[str, about("As typed on the command line.")]
    summary: str
    parameters: NotRequired[Annotated[list[str], about("Parameters with their defaults, name=default.")]]
    reference: NotRequired[
        Annotated[str, about("Paper, year, section, arXiv id; empty where there is none.")]
    ]


class Parameter(TypedDict):
    """What --set name=value accepts."""

    name: str
    default: Annotated[
        bool | int | Real | str | None, about("Used where nothing is set; its type is the parameter's.")
    ]
    meaning: Annotated[str, about("One line, with the unit.")]
    minimum: NotRequired[Annotated[Real | None, about("Smallest value allowed, itself included.")]]
    maximum: NotRequired[Annotated[Real | None, about("Largest value allowed, itself included.")]]
    choices: NotRequired[
        Annotated[list[str], about("The only words allowed; empty where there is no such list.")]
    ]


class ListedKind(TypedDict):
    """One kind of choice."""

    kind: Literal["sources", "variants", "masks", "inputs", "metrics", "formats", "peers", "models"]
    count: Count
    names: list[str]


class ListedModel(TypedDict):
    """A model, and where it lies."""

    name: str
    summary: NotRequired[Annotated[str | None, about("Of a model that comes with attncli.")]]
    folder: str


class Detail(TypedDict):
    """What a table has no room for."""

    parameters: list[Parameter]
    attributes: Annotated[
        dict[str, Any],
        about("Facts that only entries of this kind have: a format's suffixes, a variant's exactness."),
    ]


class Choices(Document):
    """The JSON of attncli list."""

    command: Annotated[Literal["list"], MADE_BY]
    kinds: NotRequired[Annotated[list[ListedKind], about("Each kind of choice, where none was asked for.")]]
    sources: NotRequired[Annotated[list[Choice], about("The sources, by name.")]]
    variants: NotRequired[Annotated[list[Choice], about("The variants, by name.")]]
    masks: NotRequired[Annotated[list[Choice], about("The masks, by name.")]]
    inputs: NotRequired[Annotated[list[Choice], about("What `show` reads besides texts, by name.")]]
    metrics: NotRequired[Annotated[list[Choice], about("The metrics, by name.")]]
    formats: NotRequired[Annotated[list[Choice], about("The formats, by name.")]]
    peers: NotRequired[Annotated[list[Choice], about("What variants are measured against, by name.")]]
    models: NotRequired[
        Annotated[list[ListedModel], about("Models that come with attncli, and those in the hub's cache.")]
    ]
    cache: NotRequired[Annotated[str, about("The hub's cache folder, beside models.")]]
    details: NotRequired[
        Annotated[dict[str, Detail], about("By an entry's name, what a table has no room for.")]
    ]


class Check(TypedDict):
    """One check and its verdict."""

    topic: Annotated[str, about("versions, device, memory, fonts, terminal, models.")]
    item: str
    value: Annotated[str, about("What was found, as text.")]
    status: Annotated[
        Literal["ok", "warn", "fail"], about("ok; warn: works, with less; fail: some command cannot work.")
    ]
    hint: Annotated[str, about("What to do about it; empty where nothing is to be done.")]


class Checks(Document):
    """The JSON of attncli doctor."""

    command: Annotated[Literal["doctor"], MADE_BY]
    ok: Annotated[bool, about("Whether no check failed; where one did, the exit code is 3.")]
    memory_bytes: NotRequired[
        Annotated[
            Amount | None,
            about(
                "Memory that can still be taken, in bytes: the system's, or the control group's where that is"
                " less; null where the system does not say."
            ),
        ]
    ]
    checks: Annotated[list[Check], about("In the order shown.")]


FORMS = {
    "tokens": Form(
        "Tokens",
        "The JSON of attncli tokens: what a model sees of a text. Offsets count characters (code points).",
        (TokenList,),
    ),
    "list": Form(
        "What there is to choose from",
        "The JSON of attncli list: an overview under kinds, or the choices of one kind under that kind's name.",
        (Choices,),
        {
            "oneOf": [
                {"required": [kind]}
                for kind in (
                    "kinds",
                    "sources",
                    "variants",
                    "masks",
                    "inputs",
                    "metrics",
                    "formats",
                    "peers",
                    "models",
                )
            ]
        },
    ),
    "doctor": Form(
        "What attncli runs on",
        "The JSON of attncli doctor: versions, devices, memory, fonts, terminal, cache, each with a verdict.",
        (Checks,),
    ),
}
