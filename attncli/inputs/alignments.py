"""Word alignments: pairs of a source word and a target word, written ``0-0 1-2``, as the aligner Pharaoh did.

Words are what blanks part. In a gold alignment ``1?2`` or ``1p2`` is a pair that may be, but need not.

References:
    Och, Ney 2003, A Systematic Comparison of Various Statistical Alignment Models, Computational Linguistics 29(1):
    AER. Koehn, Och, Marcu 2003, Statistical Phrase-Based Translation: growing along the diagonal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attncli.errors import ReadError, UsageError, did_you_mean
from attncli.inputs.corpus import BadLine, Line, read_records, read_texts
from attncli.inputs.labelled_pairs import refuse_lines
from attncli.inputs.named_spans import NamedSpan
from attncli.inputs.text import opened
from attncli.labels import safe_label
from attncli.record import Tokens
from attncli.written import written

Links = frozenset[tuple[int, int]]
"""Pairs of a source word and a target word."""

JOINS = ("intersection", "union", "grow-diag")

_LINK = re.compile(r"(\d+)([-?p])(\d+)")
_NEIGHBOURS = [(down, across) for down in (-1, 0, 1) for across in (-1, 0, 1) if down or across]


@dataclass(frozen=True)
class Gold:
    """A text, its translation, and which words of them belong together.

    Args:
        sure: Pairs that have to be found.
        possible: These, and pairs that may be found.
    """

    line: int
    text: str
    pair: str
    sure: Links
    possible: Links


@dataclass
class Agreement:
    """How far alignments agree with gold ones, added up over texts.

    >>> counts = Agreement()
    >>> counts.add(frozenset({(0, 0), (1, 1)}), Gold(1, "a b", "c d", frozenset({(0, 0)}), frozenset({(0, 0)})))
    >>> counts.precision, counts.recall, round(counts.aer, 3)
    (0.5, 1.0, 0.333)
    """

    found: int = 0
    right: int = 0
    sure: int = 0
    hit: int = 0

    def add(self, links: Links, gold: Gold) -> None:
        """Count one text's links."""
        self.found += len(links)
        self.right += len(links & gold.possible)
        self.sure += len(gold.sure)
        self.hit += len(links & gold.sure)

    @property
    def precision(self) -> float:
        """|A ∩ P| / |A|: the share of what was found that may be; 0 where nothing was."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """|A ∩ S| / |S|: the share of the sure pairs that was found."""
        return self.hit / self.sure if self.sure else 0.0

    @property
    def aer(self) -> float:
        """1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|): the alignment error rate, 0 at best."""
        most = self.found + self.sure
        return 1 - (self.hit + self.right) / most if most else 0.0


def strongest_links(weights: NDArray[np.float32], threshold: float = 0.0) -> Links:
    """Link each target word to the source word with most weight in its row; of equals to the first.

    Args:
        weights: ``(target words, source words)``.
        threshold: Least weight that makes a link; a row of zeros makes none.
    """
    if not weights.size:
        return frozenset()
    best = weights.argmax(axis=1)
    top = weights.max(axis=1)
    rows = np.flatnonzero((top > 0) & (top >= threshold)).tolist()
    return frozenset((int(best[row]), row) for row in rows)


def join_links(forward: Links, backward: Links, how: str) -> Links:
    """Join the links of both directions, both written source first.

    ``grow-diag`` begins with those that both have, and adds neighbours that one has, as long as they link a word that
    has no link yet.
    """
    both, either = forward & backward, forward | backward
    if how != "grow-diag":
        return both if how == "intersection" else either
    grown, before = set(both), -1
    while len(grown) != before:
        before = len(grown)
        for source, target in sorted(grown):
            for down, across in _NEIGHBOURS:
                one = source + down, target + across
                free = one[0] not in {s for s, _ in grown} or one[1] not in {t for _, t in grown}
                if one in either and free:
                    grown.add(one)
    return frozenset(grown)


def diagonal_links(sources: int, targets: int) -> Links:
    """Link each target word to the source word at the same share of the text: what a model must beat."""
    return (
        frozenset((target * sources // targets, target) for target in range(targets))
        if sources
        else frozenset()
    )


def written_links(links: Links) -> str:
    """Write links in one line, the source word first.

    >>> written_links(frozenset({(1, 2), (0, 0)}))
    '0-0 1-2'
    """
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def check_join(how: str | None) -> None:
    """Refuse a way to join that there is not."""
    if how is not None and how not in JOINS:
        raise UsageError(f"--join {how}: no such way", did_you_mean(how, JOINS))


def blank_words(tokens: Tokens, sequence: int = 0, texts: Sequence[str] = ()) -> list[NamedSpan]:
    """Return the words of a text, as blanks part them, with the places of their tokens.

    Args:
        sequence: Which of two texts.
        texts: What the tokens may be of.
    """
    own = [place for place, token in enumerate(tokens) if token.sequence == sequence and not token.special]
    read = written(tuple(tokens[place] for place in own), texts)
    return [
        NamedSpan(match[0], tuple(own[place] for place in read.tokens_in(*match.span())))
        for match in re.finditer(r"\S+", read.text)
    ]


def read_reverse(path: str) -> Links:
    """Read the first line of an alignment from target to source, and turn it round.

    Raises:
        ReadError: It cannot be read, or is none.
    """
    with opened(path) as stream:
        first = stream.readline().decode("utf-8", "replace")
    links = _links(first)
    if isinstance(links, str):
        raise ReadError(f"{safe_label(path)} line 1: {links}")
    return frozenset((source, target) for target, source in links[1])


def read_gold(path: str) -> list[Gold]:
    """Read texts with gold alignments: lines ``text ||| translation ||| 0-0 1-2``, or JSON with text, pair and links.

    Raises:
        ReadError: The file cannot be read, or a line of it is not right.
    """
    with opened(path) as stream:
        as_json = Path(path).suffix.lower() in (".jsonl", ".ndjson", ".json")
        read = list(_of_objects(read_records(stream)) if as_json else map(_of_line, read_texts(stream)))
    refuse_lines(path, [one for one in read if isinstance(one, BadLine)])
    if not read:
        raise ReadError(f"{safe_label(path)}: there are no alignments in it")
    return [one for one in read if isinstance(one, Gold)]


def _of_objects(records: Iterator[object]) -> Iterator[Gold | BadLine]:
    for record in records:
        if isinstance(record, BadLine):
            yield record
            continue
        values, number = record.values, record.number  # type: ignore[attr-defined]
        yield _gold(number, [values.get(name) for name in ("text", "pair", "links")])


def _of_line(line: Line | BadLine) -> Gold | BadLine:
    if isinstance(line, BadLine):
        return line
    parts = [part.strip() for part in line.text.split("|||")]
    return _gold(line.number, parts)


def _gold(number: int, parts: Sequence[object]) -> Gold | BadLine:
    if len(parts) != 3 or not all(isinstance(part, str) for part in parts):
        return BadLine(number, "it is no text ||| translation ||| 0-0 1-2 …")
    text, pair, written = map(str, parts)
    if not text or not pair:
        return BadLine(number, "its text or its translation is empty")
    links = _links(written)
    if isinstance(links, str):
        return BadLine(number, links)
    sizes = len(text.split()), len(pair.split())
    outside = [one for one in sorted(links[1]) if one[0] >= sizes[0] or one[1] >= sizes[1]]
    if outside:
        source, target = outside[0]
        return BadLine(
            number, f"{source}-{target} is none of its {sizes[0]} and {sizes[1]} words, counted from 0"
        )
    return Gold(number, text, pair, *links)


def _links(written: str) -> tuple[Links, Links] | str:
    """Read sure links, and all that are possible; what is no link gives the reason."""
    sure: set[tuple[int, int]] = set()
    possible: set[tuple[int, int]] = set()
    for part in written.split():
        match = _LINK.fullmatch(part)
        if match is None:
            return f'"{safe_label(part[:20])}" is no pair of words, as 0-0'
        link = int(match[1]), int(match[3])
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return frozenset(sure), frozenset(possible)
