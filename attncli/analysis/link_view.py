"""What ``find`` shows of two words of a text: heads ranked by how they link them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from attncli.analysis.linking import FORMULA, HeadLink, Question
from attncli.analysis.ranked_heads import (
    FEW,
    SITE,
    WORDS_RULE,
    Head,
    command_note,
    found_header,
    head_entry,
    head_maps,
    head_name,
    how_many,
    where,
)
from attncli.analysis.views import source_title
from attncli.labels import safe_label
from attncli.record import Provenance, Run, Span
from attncli.view import Column, HeadRanking, Table


@dataclass(frozen=True)
class TextSearch:
    """What was searched for in one text.

    Args:
        names: The query word and the key word, as they stand in the text.
        spans: Where they stand.
        tokens: Number of the text's tokens.
        command: What shows a head on this text, up to the head.
    """

    question: Question
    names: tuple[str, str]
    spans: tuple[Span, Span]
    tokens: int
    command: str


def link_view(
    found: Sequence[HeadLink], search: TextSearch, run: Run, made: Provenance, top: int | None
) -> HeadRanking:
    """Make the view of two words of one text.

    Args:
        found: In ranked order.
        top: Give only so many heads; None for all, few of them in the tables for people.
    """
    question, (query, key) = search.question, map(safe_label, search.names)
    compared = bool(question.others)
    metric = Column("excess" if compared else "weight")
    title = f'{source_title(run.source)} · heads in which "{query}" attends to "{key}"'
    header = found_header(
        run, made, title, (*_link_notes(search), command_note(search.command, _site(found[0])))
    )
    kept = found[:top]
    columns = [Column(name) for name in ("weight", "average", "excess", "ratio", "place")]
    rows = tuple((*_site(one), *_link_numbers(one).values()) for one in kept)
    people = Table(
        replace(header, title=how_many(len(kept[: top or FEW]), len(found), metric.name), notes=()),
        (
            Column("rank"),
            Column("head"),
            Column("weight"),
            Column("average"),
            Column("excess"),
            Column("ratio", digits=1),
            Column("place", right=True),
        ),
        tuple(_link_row(number, one, question) for number, one in enumerate(kept[: top or FEW], 1)),
    )
    values = {_site(one): getattr(one, metric.name) for one in found}
    data = Table(header, (*SITE, *columns), rows, "heads")
    heads = [head_entry(_site(one), _link_numbers(one)) for one in kept]
    document = {
        "by": metric.name,
        "source": asdict(run.source),
        "corpus": {"texts": 1, "tokens": search.tokens, "rows": len(question.queries[question.query])},
        "searched": _searched_words(search),
        "heads": heads,
    }
    return HeadRanking(header, metric, head_maps(values), (people,), data, document)


def _link_numbers(one: HeadLink) -> dict[str, object]:
    """Give a head's numbers in as many digits as the weights behind them have."""
    numbers = {"weight": one.weight, "average": one.average, "excess": one.excess, "ratio": one.ratio}
    short = {name: None if value is None else np.float32(value) for name, value in numbers.items()}
    return {**short, "place": one.place}


def _link_row(rank: int, one: HeadLink, question: Question) -> tuple[object, ...]:
    place = f"{one.place} of {1 + len(question.rivals)}"
    return rank, head_name(_site(one)), one.weight, one.average, one.excess, one.ratio, place


def _link_notes(search: TextSearch) -> list[str]:
    question, (query, key) = search.question, map(safe_label, search.names)
    there, others = where(question.distance), len(question.others)
    stands = (
        f'"{key}" stands {there} "{query}"' if question.same else f'"{key}" is {there} "{query}" in its text'
    )
    few = f"the {others} other words that have" if others > 1 else "the one other word that has"
    about = (
        f"excess = weight − average; average: the head's mean weight at that distance, from {few} a word there"
        if others
        else "no other word has a word at that distance: there is no average, and heads go by their weight"
    )
    first = "one of these words is the first token, on which many heads of causal models rest: their average is high"
    return [
        f"{stands}; {about}",
        *([first] if question.leans_on_first else []),
        WORDS_RULE,
        f'place 1: "{key}" is the strongest word for "{query}"; itself and special tokens do not count',
    ]


def _searched_words(search: TextSearch) -> dict[str, object]:
    question = search.question
    return {
        "from": _word(search.names[0], search.spans[0], question.queries[question.query], question.query),
        "to": _word(search.names[1], search.spans[1], question.keys[question.key], question.key),
        "distance": question.distance,
        "others": len(question.others),
        "rivals": len(question.rivals),
        "formula": FORMULA,
    }


def _word(text: str, span: Span, tokens: range, number: int) -> dict[str, object]:
    return {
        "text": text,
        "start": span.start,
        "end": span.end,
        "word": number,
        "tokens": [tokens.start, tokens.stop - 1],
    }


def _site(one: HeadLink) -> Head:
    return one.kind, one.layer, one.head
