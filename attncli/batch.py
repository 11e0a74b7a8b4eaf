"""The texts of one forward pass, padded to one length: what metrics know of the tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtyping import Bool, Int
    from torch import Tensor


@dataclass(frozen=True)
class Axis:
    """The tokens of a batch of texts along one axis, padded to one length.

    Args:
        ids: Index in the vocabulary; negative in padding, and where there is none.
        present: Which places hold a token and no padding.
        special: Which tokens the tokenizer has added ([CLS], <s>).
        punctuation: Which tokens are nothing but punctuation marks.
    """

    ids: Int[Tensor, "batch length"]
    present: Bool[Tensor, "batch length"]
    special: Bool[Tensor, "batch length"]
    punctuation: Bool[Tensor, "batch length"]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The place of each text's first token: not 0 where padding stands before it."""
        places: list[int] = self.present.int().argmax(dim=1).tolist()
        return tuple(places)


@dataclass(frozen=True)
class Batch:
    """What the texts of one forward pass are made of, prepared once for all layers, heads and metrics.

    Places count along the padded axes, as the rows and keys of blocks do.

    Args:
        queries: Tokens of the rows.
        keys: Tokens of the keys; the same object where a text attends to itself.
        rows: Which rows are counted.
    """

    queries: Axis
    keys: Axis
    rows: Bool[Tensor, "batch query"]

    @cached_property
    def same_token(self) -> tuple[Tensor, Tensor, Tensor]:
        """Pairs of a row and another place of the same text that holds the same token: texts, rows, keys."""
        texts, rows, keys = self._same_pairs()
        return texts, rows, keys

    @cached_property
    def after_same_token(self) -> tuple[Tensor, Tensor, Tensor]:
        """Pairs of a row and the place after another one that holds the same token: texts, rows, keys."""
        texts, rows, keys = self._same_pairs()
        inside = keys + 1 < self.keys.ids.shape[1]
        texts, rows, keys = texts[inside], rows[inside], keys[inside] + 1
        there = self.keys.present[texts, keys] & ~self.keys.special[texts, keys]
        return texts[there], rows[there], keys[there]

    def _same_pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Compare only rows that are counted; specials and padding are like nothing."""
        query, key = self.queries, self.keys
        rows = self.rows & ~query.special & (query.ids >= 0)
        columns = key.present & ~key.special
        same = (query.ids.unsqueeze(2) == key.ids.unsqueeze(1)) & rows.unsqueeze(2) & columns.unsqueeze(1)
        texts, places, others = same.nonzero(as_tuple=True)
        if key is query:
            apart = places != others
            texts, places, others = texts[apart], places[apart], others[apart]
        return texts, places, others


@dataclass(frozen=True, slots=True)
class Shuffled:
    """Where the tokens of a batch have come from, when those between the special tokens were shuffled.

    Args:
        queries: For each place of the rows' axis, the place in the true text of the token that now stands there.
        keys: Likewise along the keys' axis.
    """

    queries: Int[Tensor, "batch query"]
    keys: Int[Tensor, "batch key"]
