"""Attention variants, one file each: every way to make attention cheaper, or different.

A variant's file has an `ENTRY` whose attributes are

    exact    whether the output equals full attention's (up to rounding)
    causal   whether there is a causal form: True, False, or "only"
    cross    whether queries and keys may differ in number and origin
    signed   whether the effective weights may be negative, and rows need not sum to 1
    implied  (only where True) the weights are a matrix that the variant never makes, not even in part

and the functions of `Variant`. ``weights`` is the plain form, the specification: a dense matrix for small lengths,
defined so that ``weights @ value`` is the output. ``attend`` is the fast form, which never builds that matrix; the
contract tests hold the two together. A variant's parameters are keyword arguments of every function, checked before
they come (`registry.Parameter`); what depends on the lengths is checked by the functions (`ValueError`).

A variant whose pattern leaves pairs out (beyond the future) also has ``reach(query_len, key_len, *, causal,
**settings) -> Reach``: the pairs of ``mask`` as a few runs of keys for each row
(`attncli.attention.patterns.key_runs`), so that long sequences are counted, drawn and gone through without the
matrix. A variant without it computes all pairs, or all that are not in the future; contract tests hold it to that.
"""

from __future__ import annotations

from typing import Any, Protocol

from jaxtyping import Bool, Float
from torch import Tensor


class Variant(Protocol):
    """What a variant's module offers. ``settings`` are the values of its ENTRY's parameters."""

    def attend(
        self,
        query: Float[Tensor, "batch heads query head_dim"],
        key: Float[Tensor, "batch kv_heads key head_dim"],
        value: Float[Tensor, "batch kv_heads key value_dim"],
        *,
        causal: bool = False,
        key_mask: Bool[Tensor, "batch key"] | None = None,
        **settings: Any,
    ) -> Float[Tensor, "batch heads query value_dim"]:
        """Return the output, in the time and memory that the variant promises.

        Args:
            causal: Key j only for query i where ``j ≤ i + (key − query)``.
            key_mask: True = a real key, False = padding.
        """

    def weights(
        self,
        query: Float[Tensor, "batch heads query head_dim"],
        key: Float[Tensor, "batch kv_heads key head_dim"],
        *,
        causal: bool = False,
        key_mask: Bool[Tensor, "batch key"] | None = None,
        **settings: Any,
    ) -> Float[Tensor, "batch heads query key"]:
        """Return the effective weights as a dense matrix: the specification of `attend`, for small lengths."""

    def mask(
        self, query_len: int, key_len: int, *, causal: bool = False, **settings: Any
    ) -> Bool[Tensor, "query key"]:
        """Return which pairs the pattern computes, from the lengths alone.

        A variant whose choice depends on the content (a top-k selector) gives the pairs it may choose from; a pattern
        that differs by head gives that of head 0.
        """
