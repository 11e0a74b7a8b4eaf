"""The JSON of ``find``: heads that link two words, or that are right about labelled pairs."""

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
    Positive,
    Real,
    Site,
    Source,
    about,
)


class Word(TypedDict):
    """One of the two words."""

    text: Annotated[str, about("As it stands in the text.")]
    start: Annotated[Count, about("Offset of its first character in its text.")]
    end: Annotated[Positive, about("Offset after its last character.")]
    word: Annotated[
        Count, about("Its number among the words of its axis, zero-based; special tokens are no words.")
    ]
    tokens: Annotated[
        list[Count],
        PAIR,
        about("Positions of its first and last token."),
    ]


class Share(TypedDict):
    """How often an answer was right, over the pairs."""

    mean: Annotated[Fraction, about("Hits by rows.")]
    low: Annotated[
        Fraction, about("Lower end of Wilson's 95 % interval, which takes the pairs as independent.")
    ]
    high: Annotated[Fraction, about("Its upper end.")]
    hits: Annotated[Count, about("Pairs answered rightly.")]
    rows: Annotated[Count, about("Pairs asked.")]


class Offset(Share):
    """A constant answer: the word so many words after (negative: before) the query word."""

    offset: Annotated[int, about("In words.")]


class FindCorpus(TypedDict):
    """What was read."""

    texts: Annotated[Positive, about("Number of texts.")]
    tokens: Annotated[Positive, about("Number of their query tokens, special ones too.")]
    rows: Annotated[
        Positive, about("In one text the query word's tokens, over labelled pairs the pairs asked.")
    ]


_TwoWords = TypedDict("_TwoWords", {"from": Word, "to": Word})
_TwoTexts = TypedDict(
    "_TwoTexts",
    {
        "from": Annotated[str, about("What the query words are.")],
        "to": Annotated[str, about("What the key words are.")],
    },
)


class SearchedWords(_TwoWords):
    """Two words of a text."""

    distance: Annotated[
        int, about("From the query word to the key word, in words; negative where the key stands before.")
    ]
    others: Annotated[
        Count, about("Other query words that have a word at that distance: the average is over these.")
    ]
    rivals: Annotated[Count, about("Other words that the query word may attend to.")]
    formula: Annotated[str, about("How excess is computed.")]


class SearchedPairs(_TwoTexts):
    """Labelled pairs."""

    examples: Annotated[str, about("The shipped set's name, or the file's.")]
    pairs: Annotated[Positive, about("Pairs asked.")]
    left_out: Annotated[Count, about("Pairs whose right word a causal model cannot see.")]


class HeldOut(Site):
    """Chosen and scored apart."""

    seed: Annotated[Count, about("Of the split.")]
    chose: Share
    scored: Share
    offset: Offset


class LinkMetrics(TypedDict):
    """Of two words."""

    weight: Annotated[
        Real,
        about(
            "Weight from the query word to the key word: sum over the key word's tokens, mean over the query "
            "word's rows."
        ),
    ]
    average: Annotated[
        Real | None,
        about(
            "The head's mean weight at the same distance from the text's other words; null where none has a "
            "word there."
        ),
    ]
    excess: Annotated[Real | None, about("weight − average.")]
    ratio: Annotated[Real | None, about("weight / average.")]
    place: Annotated[
        Positive,
        about(
            "1 where the key word is the query word's strongest other word, 2 where one is stronger, and so "
            "on."
        ),
    ]


class PairMetrics(TypedDict):
    """Over labelled pairs."""

    accuracy: Share


class Agreement(TypedDict):
    """How far links between words agree with gold ones."""

    aer: Annotated[
        Real,
        about(
            "Alignment error rate: 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), with links A, sure pairs S and possible ones "
            "P; 0 at best."
        ),
    ]
    precision: Annotated[Fraction, about("|A ∩ P| / |A|; 0 where there are no links.")]
    recall: Annotated[Fraction, about("|A ∩ S| / |S|.")]
    links: Annotated[Count, about("|A|.")]


class SearchedAlignments(TypedDict):
    """Gold word alignments."""

    alignments: Annotated[str, about("The file's name.")]
    sure: Annotated[Count, about("Pairs of words that have to be found.")]


class AligningHead(Site):
    """A head, and how its links agree with gold ones."""

    metrics: Agreement
    labels: Annotated[list[str], about("None are given here.")]


class LinkingHead(Site):
    """A head, and its numbers of two words."""

    metrics: LinkMetrics
    labels: Annotated[list[str], about("None are given here.")]


class AccurateHead(Site):
    """A head, and its numbers over labelled pairs."""

    metrics: PairMetrics
    labels: Annotated[list[str], about("None are given here.")]


class MapOfHeads(TypedDict):
    """A number for each head of one kind of attention."""

    kind: Kind
    layers: Annotated[list[Count], about("True layer index of each row.")]
    heads: Annotated[list[Count], about("Query head of each column.")]
    values: Annotated[list[list[Real | None]], about("Rows of numbers; null where a layer has no such head.")]


class Found(Document):
    """What both kinds of answers have."""

    command: Annotated[Literal["find"], MADE_BY]
    source: Source
    corpus: FindCorpus
    top: NotRequired[
        Annotated[Positive | None, about("How many heads were asked for (--top); null for all.")]
    ]
    maps: NotRequired[
        Annotated[
            list[MapOfHeads],
            about(
                "The number that heads are ranked by for all heads that were searched, also those that --top "
                "leaves out; one map for each kind of attention."
            ),
        ]
    ]


class FoundLinks(Found):
    """Heads that link two words of a text."""

    by: Annotated[Literal["excess", "weight"], about("The metric that heads are ranked by.")]
    searched: SearchedWords
    heads: Annotated[list[LinkingHead], Meta(min_length=1), about("Heads in ranked order.")]


class FoundPairs(Found):
    """Heads that are right about labelled pairs."""

    by: Annotated[Literal["accuracy"], about("The metric that heads are ranked by.")]
    searched: SearchedPairs
    offset: Annotated[Offset, about("The best constant answer on the same pairs.")]
    held_out: Annotated[
        HeldOut | None,
        about(
            "A head and an offset chosen on one half of the texts and scored on the other; null with a single"
            " text."
        ),
    ]
    heads: Annotated[list[AccurateHead], Meta(min_length=1), about("Heads in ranked order.")]


class FoundAlignments(Found):
    """Heads that align the words of a text and its translation."""

    by: Annotated[Literal["aer"], about("The metric that heads are ranked by, the lowest first.")]
    searched: SearchedAlignments
    diagonal: Annotated[
        Agreement,
        about("What linking each target word to the source word at the same share of the text gives."),
    ]
    heads: Annotated[list[AligningHead], Meta(min_length=1), about("Heads in ranked order.")]


FORMS = {
    "find": Form(
        "Heads that link two words",
        "The JSON of attncli find: heads in ranked order, by how much one word of a text attends to another above the "
        "head's own average at that distance (by: excess; weight where there is no average), or by how often they are "
        "right about labelled pairs (by: accuracy), or by how they align the words of a text and its translation "
        "(by: aer).",
        (FoundLinks, FoundPairs, FoundAlignments),
    )
}
