"""Which heads link one word to another, more than they do at that distance anyway.

With W(a → b) the weight from word a to word b (`WordWeights`), and d the distance from the one to the other in words,

    average(a, d) = mean of W(c → c + d) over the other words c of the text that have a word c + d
    excess(a → b) = W(a → b) − average(a, d)

A head that looks at the previous token whatever it is has the same weight there in all rows, so its excess is none.
Special tokens are no words: they are neither counted nor compared with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attncli.observers.word_pairs import LayerWords

FORMULA = (
    "excess = weight − the head's mean weight at the same distance in words, over the text's other words"
)


@dataclass(frozen=True)
class WordPairQuery:
    """One word of a text, another, and the words around them.

    Args:
        queries: The words of the query axis, as ranges of positions.
        keys: The words of the key axis.
        query: Which of `queries` attends.
        key: Which of `keys` it attends to.
        same: Whether both axes are of the same text, so that a word may attend to itself.
        causal: Whether a word sees none after it.
    """

    queries: tuple[range, ...]
    keys: tuple[range, ...]
    query: int
    key: int
    same: bool = True
    causal: bool = False

    @property
    def distance(self) -> int:
        """From the query word to the key word, in words; negative where the key stands before it."""
        return self.key - self.query

    @cached_property
    def others(self) -> tuple[int, ...]:
        """The other query words that have a key word at the same distance."""
        rows = range(len(self.queries))
        return tuple(row for row in rows if row != self.query and 0 <= row + self.distance < len(self.keys))

    @property
    def leans_on_first(self) -> bool:
        """Whether the average takes in weight on the first token of a causal model, where many heads rest."""
        return self.causal and any(0 in self.keys[row + self.distance] for row in self.others)

    @cached_property
    def rivals(self) -> tuple[int, ...]:
        """The other key words that the query word may attend to, itself left out."""
        last = self.query if self.causal else len(self.keys)
        return tuple(key for key in range(last) if key != self.key and not (self.same and key == self.query))

    @property
    def pairs(self) -> list[tuple[range, range]]:
        """All that must be measured to answer: the pair, the others at its distance, the rivals."""
        at_distance = [(self.queries[row], self.keys[row + self.distance]) for row in self.others]
        against = [(self.queries[self.query], self.keys[key]) for key in self.rivals]
        return [(self.queries[self.query], self.keys[self.key]), *at_distance, *against]


@dataclass(frozen=True, slots=True)
class HeadLink:
    """How strongly one head links two words.

    Args:
        weight: W(query word → key word).
        average: What the head gives to that distance elsewhere; None where no other word has one there.
        place: 1 where the key word is the head's strongest other word, 2 where one is stronger, …
    """

    kind: str
    layer: int
    head: int
    weight: float
    average: float | None
    place: int

    @property
    def excess(self) -> float | None:
        """What the weight has above the average."""
        return None if self.average is None else self.weight - self.average

    @property
    def ratio(self) -> float | None:
        """How many times the average the weight is; None where that is 0."""
        return self.weight / self.average if self.average else None


def links(question: WordPairQuery, measured: Iterable[LayerWords]) -> list[HeadLink]:
    """Rank heads by excess; by weight where there is none to compare with."""
    found = [
        _link(question, layer, place, head) for layer in measured for place, head in enumerate(layer.heads)
    ]
    return sorted(found, key=lambda one: one.weight if one.excess is None else one.excess, reverse=True)


def _link(question: WordPairQuery, words: LayerWords, place: int, head: int) -> HeadLink:
    values = words.values[place]
    weight, others = float(values[0]), values[1 : 1 + len(question.others)]
    stronger = int(np.count_nonzero(values[1 + len(others) :] > weight))
    average = float(others.mean()) if len(others) else None
    return HeadLink(words.layer.kind, words.layer.index, head, weight, average, 1 + stronger)
