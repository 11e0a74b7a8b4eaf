"""The JSON of ``heads``: what each head does over a corpus, in ranked order."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from attncli.documents.forms.common import (
    MADE_BY,
    Count,
    Document,
    Form,
    Fraction,
    Kind,
    Place,
    Positive,
    Real,
    Site,
    Size,
    Source,
    about,
)

MetricName = Annotated[str, Meta(pattern="^[a-z0-9_]{1,40}$")]


class HeadNumber(TypedDict):
    """One metric of one head."""

    mean: Annotated[Real | None, about("Mean over all rows where it is defined.")]
    stderr: Annotated[Real | None, about("Standard error of the mean over texts; null with fewer than two.")]
    null: Annotated[
        Real | None,
        about("What the number is held against: chance, or what other tokens give in the same places."),
    ]
    rows: Annotated[
        Count, about("In how many rows it is defined; of a metric of whole texts, in how many texts.")
    ]
    chance: NotRequired[
        Annotated[
            Real | None,
            about("What rows that spread their weight evenly over what they may attend to would have."),
        ]
    ]
    shuffled: NotRequired[
        Annotated[
            Real | None,
            about(
                "What the head gives for shuffled, or other, tokens; null where these were not run or say "
                "nothing."
            ),
        ]
    ]


class RankedHead(Site):
    """One head."""

    kv_head: NotRequired[
        Annotated[Count, about("The key/value head that it reads, where there are fewer of them.")]
    ]
    excluded: NotRequired[
        Annotated[
            Size | None,
            about("Share of its weight that was left out with the special tokens (--exclude-special)."),
        ]
    ]
    metrics: Annotated[
        dict[MetricName, HeadNumber], about("Its numbers by metric: see attncli list metrics.")
    ]
    labels: Annotated[list[str], about("The roles it is named after, the strongest first.")]
    nearest: NotRequired[Annotated[Place, about("The head of the model that is most like it.")]]


class HeadChange(Site):
    """One metric of one head, in an older run and now."""

    metric: Annotated[str, about("Which number.")]
    before: Real | None
    now: Real | None
    difference: Real | None
    z: Annotated[
        Real | None,
        about("The difference in standard errors of the difference; null where they are not known."),
    ]
    labels_before: list[str]
    labels: list[str]


class HeadsCorpus(TypedDict):
    """What the numbers are of."""

    texts: Annotated[Count, about("Texts that were read.")]
    tokens: Annotated[Count, about("Their tokens, special ones included.")]
    rows: Annotated[Count, about("Rows that count.")]
    rule: NotRequired[Annotated[str, about("Which rows count.")]]
    null_texts: NotRequired[
        Annotated[Count, about("Texts that were run once more with other tokens, for the null.")]
    ]
    bad_lines: NotRequired[Annotated[Count, about("Lines that could not be used.")]]
    probe: NotRequired[Annotated[str | None, about("The probe that made the texts; null for a corpus.")]]
    sha256: NotRequired[
        Annotated[str | None, about("Of the corpus, line by line; null where it was not read whole.")]
    ]
    medium: NotRequired[Annotated[Literal["text", "sound"], about("What the texts are.")]]


class Measured(TypedDict):
    """What was measured, of which heads may give a part (--top, --where)."""

    kind: Kind
    layers: Annotated[list[Count], about("True layer indices.")]
    heads: Annotated[list[Count], about("Query heads.")]
    metrics: Annotated[list[str], about("Names of the metrics, in the order of the columns of CSV.")]
    count: NotRequired[
        Annotated[
            Count,
            about(
                "How many heads that were: fewer than layers times heads where layers differ in their heads."
            ),
        ]
    ]


class RankedHeads(Document):
    """The JSON of attncli heads."""

    command: Annotated[Literal["heads"], MADE_BY]
    complete: Annotated[bool, about("Whether the whole corpus was read; false after an interruption.")]
    source: Source
    corpus: HeadsCorpus
    by: Annotated[str, about("The number that heads are ranked by.")]
    where: NotRequired[
        Annotated[str | None, about("The condition that heads had to fulfil; null without one.")]
    ]
    thresholds: Annotated[
        dict[str, Fraction],
        about("How far above its null a head's weight must be to give it a name, by metric."),
    ]
    settings: Annotated[dict[str, Any], about("On what the numbers depend: --resume asks for the same.")]
    top: NotRequired[
        Annotated[Positive | None, about("How many heads were asked for (--top); null for all.")]
    ]
    metric_notes: NotRequired[
        Annotated[list[str], about("Those of the notes that hang on the number that heads are ranked by.")]
    ]
    measured: NotRequired[Measured]
    heads: Annotated[list[RankedHead], about("The heads in ranked order.")]
    clusters: Annotated[
        list[list[Place]], about("Heads that do the same: each two of a cluster overlap by at least 0.9.")
    ]
    compared_to: NotRequired[Annotated[str, about("The file that was given with --compare-to.")]]
    changes: NotRequired[
        Annotated[
            list[HeadChange],
            about("What changed against the run given with --compare-to, renamed heads first."),
        ]
    ]
    progress: NotRequired[
        Annotated[dict[str, Any], about("Of an interrupted run: everything that --resume needs to go on.")]
    ]


FORMS = {
    "heads": Form(
        "Ranked attention heads",
        "The JSON of attncli heads: what each head does over a corpus, in ranked order.",
        (RankedHeads,),
    )
}
