"""What ``find`` shows: heads ranked by how they link two words, or by how often they are right about labelled pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from attncli.analysis.labelled import Answers, Head, HeldOut, held_out
from attncli.analysis.linking import FORMULA, HeadLink, Question
from attncli.analysis.proportions import Share
from attncli.analysis.views import source_title
from attncli.labels import safe_label
from attncli.record import Provenance, Run, Span
from attncli.view import Column, Header, HeadMap, HeadRanking, Table

FEW = 10
"""So many heads stand in a table for people."""

WORDS_RULE = "words: weights on a word's tokens are summed, those of its rows averaged"

_SITE = (Column("kind"), Column("layer"), Column("head"))


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


@dataclass(frozen=True)
class PairSearch:
    """What was searched for over labelled pairs.

    Args:
        name: The set's name, or the file's.
        roles: What the query words and the key words are.
        texts: Number of texts.
        tokens: Number of their tokens.
        left_out: Pairs that a causal model cannot see.
        seed: Of the split.
        command: What shows a head on a text where the best head is right, up to the head.
    """

    name: str
    roles: tuple[str, str]
    texts: int
    tokens: int
    left_out: int
    seed: int
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
    header = _header(run, made, title, (*_link_notes(search), _command_note(search.command, _site(found[0]))))
    kept = found[:top]
    columns = [Column(name) for name in ("weight", "average", "excess", "ratio", "place")]
    rows = tuple((*_site(one), *_link_numbers(one).values()) for one in kept)
    people = Table(
        replace(header, title="", notes=()),
        (
            Column("rank"),
            Column("head_name", "head"),
            Column("weight"),
            Column("average"),
            Column("excess"),
            Column("ratio", digits=1),
            Column("place", "place among words", right=True),
        ),
        tuple(_link_row(number, one, question) for number, one in enumerate(kept[: top or FEW], 1)),
    )
    values = {_site(one): getattr(one, metric.name) for one in found}
    data = Table(header, (*_SITE, *columns), rows, "heads")
    heads = [_entry(_site(one), _link_numbers(one)) for one in kept]
    document = {
        "by": metric.name,
        "source": asdict(run.source),
        "corpus": {"texts": 1, "tokens": search.tokens, "rows": len(question.queries[question.query])},
        "searched": _searched_words(search),
        "heads": heads,
    }
    return HeadRanking(header, metric, _maps(values), (people,), data, document)


def _link_numbers(one: HeadLink) -> dict[str, object]:
    return {
        "weight": one.weight,
        "average": one.average,
        "excess": one.excess,
        "ratio": one.ratio,
        "place": one.place,
    }


def _link_row(rank: int, one: HeadLink, question: Question) -> tuple[object, ...]:
    place = f"{one.place} of {1 + len(question.rivals)}"
    return rank, _name(_site(one)), one.weight, one.average, one.excess, one.ratio, place


def _link_notes(search: TextSearch) -> list[str]:
    question, (query, key) = search.question, map(safe_label, search.names)
    where = _where(question.distance)
    others = len(question.others)
    about = (
        f"{FORMULA} ({others} of them have a word {where})"
        if others
        else f'no other word has one {where}: there is no average, and heads go by their weight on "{key}"'
    )
    if not question.same:
        where += " (by their places in the two texts)"
    return [
        f'"{key}" stands {where}: that is the distance' if question.same else f'"{key}" is {where}',
        WORDS_RULE,
        about,
        f'place 1: "{key}" is the strongest word for "{query}", itself and special tokens left out',
    ]


def _where(distance: int) -> str:
    """Say a distance.

    >>> _where(-7), _where(1)
    ('7 words before', '1 word behind')
    """
    size = abs(distance)
    if not size:
        return "at the same place"
    return f"{size} word{'s' if size > 1 else ''} {'before' if distance < 0 else 'behind'}"


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


def pairs_view(
    answers: Answers, search: PairSearch, run: Run, made: Provenance, top: int | None
) -> HeadRanking:
    """Make the view of labelled pairs.

    Args:
        top: Give only so many heads; None for all, few of them in the tables for people.
    """
    offset = answers.best_offset()
    against, held = answers.offset_share(offset), held_out(answers, search.seed)
    ranked = answers.ranked()
    best = answers.heads[ranked[0]]
    title = f"{source_title(run.source)} · heads that find the {search.roles[1]} of {_of(search.roles[0])}"
    notes = (*_pair_notes(answers, search, held), _command_note(search.command, best))
    header = _header(run, made, title, notes)
    quiet = replace(header, title="", notes=())
    kept = ranked[:top]
    people = Table(
        quiet,
        (
            Column("rank"),
            Column("head_name", "head"),
            Column("right", right=True),
            Column("accuracy"),
            Column("interval", "95 % interval", right=True),
            Column("above_offset"),
        ),
        tuple(
            (rank, _name(answers.heads[head]), *_share_cells(share := answers.share(head)),
             share.value - against.value)
            for rank, head in enumerate(kept[: top or FEW], 1)
        ),
    )  # fmt: skip
    data = Table(
        header,
        (*_SITE, *(Column(name) for name in ("accuracy", "low", "high", "hits", "pairs"))),
        tuple((*answers.heads[head], *_share_numbers(answers.share(head)).values()) for head in kept),
        "heads",
    )
    values = {head: answers.share(number).value for number, head in enumerate(answers.heads)}
    document = {
        "by": "accuracy",
        "source": asdict(run.source),
        "corpus": {"texts": search.texts, "tokens": search.tokens, "rows": len(answers.questions)},
        "searched": {
            "examples": search.name,
            "from": search.roles[0],
            "to": search.roles[1],
            "pairs": len(answers.questions),
            "left_out": search.left_out,
        },
        "offset": {"offset": offset, **_share_numbers(against)},
        "held_out": None if held is None else _held_document(answers, held, search.seed),
        "heads": [
            _entry(answers.heads[head], {"accuracy": _share_numbers(answers.share(head))}) for head in kept
        ],
    }
    compared = _comparison(quiet, answers, ranked[0], offset, held)
    return HeadRanking(
        header, Column("accuracy"), _maps(values), (people, compared), data, document
    )


def _comparison(
    header: Header, answers: Answers, best: int, offset: int, held: HeldOut | None
) -> Table:
    """Put the best head beside the best constant offset, on all texts and on those that had no say."""
    rows = [
        ("all", f"best head, {_name(answers.heads[best])}", answers.share(best)),
        ("all", f"best offset, {_where(offset)}", answers.offset_share(offset)),
    ]
    if held is not None:
        rows += [
            ("held out", f"head, {_name(answers.heads[held.head])}", held.scored),
            ("held out", f"offset, {_where(held.offset)}", held.offset_scored),
        ]
    columns = (
        Column("texts"),
        Column("answer"),
        Column("right", right=True),
        Column("accuracy"),
        Column("interval", "95 % interval", right=True),
    )
    return Table(header, columns, tuple((texts, what, *_share_cells(share)) for texts, what, share in rows))


def _pair_notes(answers: Answers, search: PairSearch, held: HeldOut | None) -> list[str]:
    query, key = search.roles
    notes = [
        f"{len(answers.questions)} pairs in {search.texts} texts ({safe_label(search.name)}); right is where a "
        f"head's strongest other word is the {key}",
        f"{WORDS_RULE}; special tokens do not count",
    ]
    if search.left_out:
        notes.append(
            f"{search.left_out} pairs are left out: their {key} stands behind the {query}, which a causal model "
            "cannot see"
        )
    if held is None:
        notes.append("one text only, so that nothing can be held out: the best head is chosen and scored on it")
    else:
        chose = held.chose
        notes.append(
            f"held out: half of the texts chose head and offset ({chose.hits}/{chose.of} there), the other half "
            f"scores them; seed {search.seed}"
        )
    return notes


def _of(role: str) -> str:
    return f"an {role}" if role[0] in "aeiou" else f"a {role}"


def _share_cells(share: Share) -> tuple[str, float, str]:
    low, high = share.interval
    return f"{share.hits}/{share.of}", share.value, f"{low:.3f}–{high:.3f}"


def _share_numbers(share: Share) -> dict[str, object]:
    low, high = share.interval
    return {"mean": share.value, "low": low, "high": high, "hits": share.hits, "rows": share.of}


def _held_document(answers: Answers, held: HeldOut, seed: int) -> dict[str, object]:
    kind, layer, head = answers.heads[held.head]
    return {
        "seed": seed,
        "kind": kind,
        "layer": layer,
        "head": head,
        "chose": _share_numbers(held.chose),
        "scored": _share_numbers(held.scored),
        "offset": {"offset": held.offset, **_share_numbers(held.offset_scored)},
    }


def _header(run: Run, made: Provenance, title: str, notes: Sequence[str]) -> Header:
    return Header(
        command="find", title=title, provenance=made, source=run.source, notes=(*run.notes, *notes)
    )


def _site(one: HeadLink) -> Head:
    return one.kind, one.layer, one.head


def _name(head: Head) -> str:
    return f"L{head[1]}H{head[2]}"


def _entry(head: Head, metrics: Mapping[str, object]) -> dict[str, object]:
    kind, layer, number = head
    return {"kind": kind, "layer": layer, "head": number, "metrics": metrics, "labels": []}


def _command_note(command: str, best: Head) -> str:
    return f"{_name(best)} is first; to see it: {command} --layer {best[1]} --head {best[2]} --words"


def _maps(values: Mapping[Head, float | None]) -> tuple[HeadMap, ...]:
    """Lay numbers out by layer and head."""
    maps = []
    for kind in dict.fromkeys(kind for kind, _, _ in values):
        layers = sorted({layer for its, layer, _ in values if its == kind})
        heads = sorted({head for its, _, head in values if its == kind})
        grid = [[values.get((kind, layer, head)) for head in heads] for layer in layers]
        numbers = np.array([[np.nan if v is None else v for v in row] for row in grid], np.float32)
        maps.append(HeadMap(kind, tuple(layers), tuple(heads), numbers))
    return tuple(maps)
