"""What ``find`` shows over labelled pairs: heads ranked by how often they are right, beside a constant answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from attncli.analysis.labelled import Answers, HeldOut, held_out
from attncli.analysis.proportions import Share
from attncli.analysis.ranked_heads import (
    FEW,
    SITE,
    WORDS_RULE,
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
from attncli.record import Provenance, Run
from attncli.view import Column, Header, HeadRanking, Table


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
    notes = (*_pair_notes(answers, search, held), command_note(search.command, best))
    header = found_header(run, made, title, notes)
    kept = ranked[:top]
    people = Table(
        replace(header, title=how_many(len(kept[: top or FEW]), len(ranked), "accuracy"), notes=()),
        (
            Column("rank"),
            Column("head"),
            Column("right", right=True),
            Column("accuracy"),
            Column("interval", "95 % interval", right=True),
            Column("above_offset"),
        ),
        tuple(
            (rank, head_name(answers.heads[head]), *_share_cells(share := answers.share(head)),
             share.value - against.value)
            for rank, head in enumerate(kept[: top or FEW], 1)
        ),
    )  # fmt: skip
    data = Table(
        header,
        (*SITE, *(Column(name) for name in ("accuracy", "low", "high", "hits", "pairs"))),
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
            head_entry(answers.heads[head], {"accuracy": _share_numbers(answers.share(head))})
            for head in kept
        ],
    }
    compared = _comparison(header, answers, ranked[0], offset, held)
    return HeadRanking(header, Column("accuracy"), head_maps(values), (people, compared), data, document)


def _comparison(header: Header, answers: Answers, best: int, offset: int, held: HeldOut | None) -> Table:
    """Put the best head beside the best constant offset, on all texts and on those that had no say."""
    rows = [
        ("all", f"best head, {head_name(answers.heads[best])}", answers.share(best)),
        ("all", f"best offset, {where(offset)}", answers.offset_share(offset)),
    ]
    if held is not None:
        rows += [
            ("held out", f"head, {head_name(answers.heads[held.head])}", held.scored),
            ("held out", f"offset, {where(held.offset)}", held.offset_scored),
        ]
    columns = (
        Column("texts"),
        Column("answer"),
        Column("right", right=True),
        Column("accuracy"),
        Column("interval", "95 % interval", right=True),
    )
    header = replace(header, title="The best head beside the best constant answer", notes=())
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
        notes.append(
            "one text only, so that nothing can be held out: the best head is chosen and scored on it"
        )
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
