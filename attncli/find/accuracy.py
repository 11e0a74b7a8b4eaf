"""How often a head's strongest word is the right one, over labelled pairs of words.

A head says of a query word: the other word that it attends to most. Special tokens are no words, and the word itself
does not count. That is compared with the best constant answer, always the word so many words before or after, and
with chance in the choosing: the best of many heads on some pairs looks better than it is, so that one half of the texts
chooses the head and the other half scores it.

Reference:
    Clark, Khandelwal, Levy, Manning 2019, What Does BERT Look At?, §4.2 and §5; arXiv 1906.04341.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attncli.find.ranked_heads import Head
from attncli.find.wilson import Share
from attncli.observers.word_pairs import LayerWords


@dataclass(frozen=True)
class PairQuestion:
    """One labelled pair in its text.

    Args:
        words: The text's words, as ranges of positions.
        query: Which of them attends.
        targets: Which of them would be right.
        causal: Whether a word sees none after it.
        text: Number of its text: pairs of one text stay on one side of a split.
    """

    words: tuple[range, ...]
    query: int
    targets: frozenset[int]
    causal: bool = False
    text: int = 0

    @cached_property
    def candidates(self) -> tuple[int, ...]:
        """The words that may be the answer."""
        last = self.query if self.causal else len(self.words)
        return tuple(word for word in range(last) if word != self.query)

    @property
    def answerable(self) -> bool:
        """Whether the right word can be seen at all."""
        return not self.targets.isdisjoint(self.candidates)

    @property
    def pairs(self) -> list[tuple[range, range]]:
        """What must be measured: the query word's weight on each candidate."""
        return [(self.words[self.query], self.words[word]) for word in self.candidates]

    def hits(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return for each head whether its strongest candidate is right; of equals the first, and none where all are 0.

        Args:
            values: ``(heads, candidates)``.
        """
        right = np.array([word in self.targets for word in self.candidates])
        found: NDArray[np.bool_] = right[values.argmax(axis=1)] & (values.max(axis=1) > 0)
        return found

    def offset_hits(self, offset: int) -> bool:
        """Whether the word that many words after (negative: before) is right."""
        return self.query + offset in self.targets


@dataclass(frozen=True)
class Answers:
    """What all heads said to all pairs.

    Args:
        heads: Which head each row of `hits` is.
        hits: ``(heads, pairs)``.
    """

    questions: tuple[PairQuestion, ...]
    heads: tuple[Head, ...]
    hits: NDArray[np.bool_]

    def share(self, head: int, pairs: Sequence[int] | None = None) -> Share:
        """Return how often a head was right, on all pairs or some."""
        hits = self.hits[head] if pairs is None else self.hits[head, list(pairs)]
        return Share(int(hits.sum()), len(hits))

    def offset_share(self, offset: int, pairs: Sequence[int] | None = None) -> Share:
        """Return how often a constant offset was right."""
        chosen = range(len(self.questions)) if pairs is None else pairs
        return Share(sum(self.questions[pair].offset_hits(offset) for pair in chosen), len(chosen))

    def ranked(self) -> list[int]:
        """Rank heads by how often they were right; of equals the earlier layer and head first."""
        order: list[int] = np.argsort(-self.hits.sum(axis=1), kind="stable").tolist()
        return order

    def best_head(self, pairs: Sequence[int]) -> int:
        """Find the head that was right most often on some pairs."""
        return int(self.hits[:, list(pairs)].sum(axis=1).argmax())

    def best_offset(self, pairs: Sequence[int] | None = None) -> int:
        """Find the constant offset that is right most often; of equals the nearest."""
        chosen = range(len(self.questions)) if pairs is None else pairs
        asked = (self.questions[pair] for pair in chosen)
        counts = Counter(word - question.query for question in asked for word in question.targets)
        return min(counts, key=lambda offset: (-counts[offset], abs(offset), offset))


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What remains of the best head on texts that had no say in choosing it.

    Args:
        head: The row of `Answers.hits` that was best on the half that chose.
        chose: How it did there.
        scored: How it did on the other half.
        offset: The constant offset that was best on the half that chose.
        offset_scored: How that did on the other half.
    """

    head: int
    chose: Share
    scored: Share
    offset: int
    offset_scored: Share


def held_out(answers: Answers, seed: int) -> HeldOut | None:
    """Choose the head on one half of the texts, drawn with a seed, and score it on the other; None with one text."""
    texts = np.array([question.text for question in answers.questions])
    order = np.random.default_rng(seed).permutation(np.unique(texts))
    if len(order) < 2:
        return None
    chosen_by = np.isin(texts, order[: len(order) // 2])
    choosing, scoring = np.flatnonzero(chosen_by).tolist(), np.flatnonzero(~chosen_by).tolist()
    head, offset = answers.best_head(choosing), answers.best_offset(choosing)
    return HeldOut(
        head,
        answers.share(head, choosing),
        answers.share(head, scoring),
        offset,
        answers.offset_share(offset, scoring),
    )


def answers_of(
    questions: Sequence[PairQuestion], measured: Sequence[LayerWords]
) -> Mapping[Head, NDArray[np.bool_]]:
    """Return for each head which of a text's pairs it answers rightly.

    Args:
        measured: What was kept of the questions' pairs, one question after the other.
    """
    edges = np.cumsum([0, *(len(question.candidates) for question in questions)])
    found: dict[Head, NDArray[np.bool_]] = {}
    for words in measured:
        hits = np.stack(
            [
                question.hits(words.values[:, start:stop])
                for question, start, stop in zip(questions, edges[:-1], edges[1:], strict=True)
            ]
        )
        for place, head in enumerate(words.heads):
            found[(words.layer.kind, words.layer.index, head)] = hits[:, place]
    return found
