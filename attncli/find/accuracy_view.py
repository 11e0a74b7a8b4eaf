"""What ``find`` shows over labelled pairs: heads ranked by how often they are right, beside a constant answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from attncli.find.accuracy import Answers, HeldOut, held_out
from attncli.find.document import found_of, map_entry
from attncli.find.ranked_heads import (
    WORDS_RULE,
    command_note,
    found_header,
    head_entry,
    head_maps,
)
from attncli.find.wilson import Share
from attncli.labels import safe_label
from attncli.maps.views import source_title
from attncli.record import Provenance, Run
from attncli.view import HeadRanking


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
    held = held_out(answers, search.seed)
    ranked = answers.ranked()
    best = answers.heads[ranked[0]]
    title = f"{source_title(run.source)} · heads that find the {search.roles[1]} of {_of(search.roles[0])}"
    notes = (*_pair_notes(answers, search, held), command_note(search.command, best))
    header = found_header(run, made, title, notes)
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
        "offset": {"offset": offset, **_share_numbers(answers.offset_share(offset))},
        "held_out": None if held is None else _held_document(answers, held, search.seed),
        "top": top,
        "heads": [
            head_entry(answers.heads[head], {"accuracy": _share_numbers(answers.share(head))})
            for head in ranked[:top]
        ],
        "maps": [map_entry(map_) for map_ in head_maps(values)],
    }
    return found_of(document, header)


def _pair_notes(answers: Answers, search: PairSearch, held: HeldOut | None) -> list[str]:
    query, key = search.roles
    notes = [
        f"{len(answers.questions)} pairs in {search.texts} texts ({safe_label(search.name)}); right is where a "
        f"head's strongest other word is the {key}",
        f"{WORDS_RULE}; special tokens do not count",
    ]
    if search.left_out:
        notes.append(
            f"{search.left_out} pairs are left out: their {key} stands after the {query}, which a causal model "
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
