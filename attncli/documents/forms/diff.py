"""The JSON of ``diff``: how far apart the heads of two runs are, or maps of both sides and their difference."""

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from attncli.documents.forms.common import (
    MADE_BY,
    PAIR,
    Count,
    Document,
    Form,
    Fraction,
    Place,
    Positive,
    Site,
    Size,
    Source,
    about,
)
from attncli.documents.forms.find import MapOfHeads
from attncli.documents.forms.grids import DifferenceMaps

Metric = Literal["distance", "divergence", "max_abs"]


class DiffCorpus(TypedDict):
    """What was compared."""

    texts: Annotated[Positive, about("Number of texts on each side.")]
    null_texts: Annotated[Count, about("Pairs of texts that the baseline is of.")]
    aligned: NotRequired[
        Annotated[Positive, about("Of one text: query tokens that stand beside each other.")]
    ]
    replaced: NotRequired[Annotated[Count, about("Of these, tokens with another text on the other side.")]]
    only_a: NotRequired[Annotated[Count, about("Query tokens that only the first side has.")]]
    only_b: NotRequired[Annotated[Count, about("Query tokens that only the second side has.")]]


class DiffMetrics(TypedDict):
    """How far apart the two sides are."""

    distance: Annotated[
        Fraction | None,
        about("Jensen–Shannon distance (base 2), mean over rows; over a corpus the mean over texts."),
    ]
    divergence: Annotated[Fraction | None, about("Its square, in bits: mean over rows, or over texts.")]
    max_abs: Annotated[Size, about("Largest difference of a weight.")]
    rows: Annotated[Count, about("Rows compared.")]
    stderr: Annotated[Size | None, about("Standard error of distance over texts; null for one text.")]
    baseline: Annotated[
        Fraction | None,
        about(
            "Distance of the head of the first side from itself on other texts, rows and keys by position."
        ),
    ]


class LargestRow(TypedDict):
    """The row with the largest distance."""

    distance: Annotated[Fraction | None, about("Its distance.")]
    position: Annotated[Count, about("Position of its token on the first side.")]
    other_position: Annotated[Count, about("Position of its token on the second side.")]
    token: Annotated[str, about("Its text on the first side.")]
    other_token: Annotated[str, about("Its text on the second side.")]
    label: Annotated[str, about("The text made fit to show.")]


class DifferentHead(Site):
    """A head of the first side and its counterpart."""

    other: Annotated[Place, about("The head of the second side that it was compared with.")]
    metrics: DiffMetrics
    largest_row: NotRequired[LargestRow]


class Differences(Document):
    """The JSON of attncli diff."""

    command: Annotated[Literal["diff"], MADE_BY]
    by: Annotated[Metric, about("The metric that heads are ranked by.")]
    source: Source
    other_source: Source
    names: Annotated[list[str], PAIR, about("What the two sides are called.")]
    corpus: DiffCorpus
    top: NotRequired[Annotated[Positive | None, about("How many heads were asked for; null for all.")]]
    heads: Annotated[list[DifferentHead], Meta(min_length=1), about("Heads in ranked order.")]
    maps: Annotated[
        list[MapOfHeads],
        about("The metric for all heads that were compared, also those that --top leaves out."),
    ]


FORMS = {
    "diff": Form(
        "Two runs, compared",
        "The JSON of attncli diff: heads ranked by how far their rows are apart; with --maps, the maps of the first of "
        "them on both sides and their difference.",
        (Differences, DifferenceMaps),
    )
}
