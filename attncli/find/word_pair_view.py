"""What ``find`` shows of two words of a text: heads ranked by how they link them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from attncli.find.document import found_of, map_entry
from attncli.find.ranked_heads import (
    WORDS_RULE,
    Head,
    command_note,
    found_header,
    head_entry,
    head_maps,
    where,
)
from attncli.find.word_pair import FORMULA, HeadLink, WordPairQuery
from attncli.labels import safe_label
from attncli.maps.views import source_title
from attncli.record import Provenance, Run, Span
from attncli.view import HeadRanking


@dataclass(frozen=True)
class TextSearch:
    """What was searched for in one text.

    Args:
        names: The query word and the key word, as they stand in the text.
        spans: Where they stand.
        tokens: Number of the text's tokens.
        command: What shows a head on this text, up to the head.
        measure: What stands in the weights' place.
    """

    question: WordPairQuery
    names: tuple[str, str]
    spans: tuple[Span, Span]
    tokens: int
    command: str
    measure: str = "weight"


def link_view(
    found: Sequence[HeadLink], search: TextSearch, run: Run, made: Provenance, top: int | None
) -> HeadRanking:
    """Make the view of two words of one text.

    Args:
        found: In ranked order.
        top: Give only so many heads; None for all, few of them in the tables for people.
    """
    question, (query, key) = search.question, map(safe_label, search.names)
    by = "excess" if question.others else "weight"
    title = f'{source_title(run.source)} · heads in which "{query}" attends to "{key}"'
    header = found_header(
        run, made, title, (*_link_notes(search), command_note(search.command, _head(found[0])))
    )
    document = {
        "by": by,
        **({} if search.measure == "weight" else {"measure": search.measure}),
        "source": asdict(run.source),
        "corpus": {"texts": 1, "tokens": search.tokens, "rows": len(question.queries[question.query])},
        "searched": _searched_words(search),
        "top": top,
        "heads": [head_entry(_head(one), _link_numbers(one)) for one in found[:top]],
        "maps": [map_entry(map_) for map_ in head_maps({_head(one): getattr(one, by) for one in found})],
    }
    return found_of(document, header)


def _link_numbers(one: HeadLink) -> dict[str, object]:
    """Return a head's numbers in as many digits as the weights after them have."""
    numbers = {"weight": one.weight, "average": one.average, "excess": one.excess, "ratio": one.ratio}
    short = {name: None if value is None else np.float32(value) for name, value in numbers.items()}
    return {**short, "place": one.place}


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
        *(
            []
            if search.measure == "weight"
            else [f"for weight read the share of the row's {search.measure}: what is carried (--measure)"]
        ),
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


def _head(one: HeadLink) -> Head:
    return one.kind, one.layer, one.head
