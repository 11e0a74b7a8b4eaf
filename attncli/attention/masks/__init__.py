"""Attention masks, one file each: which key positions a query position may attend to.

A mask's file has an `ENTRY` and a function ``mask(query_len, key_len, **settings) -> Bool[Tensor, "query key"]``,
True = may attend. Where there are more keys than queries (a cache), the last query belongs to the last key.

It may have an attribute ``causal``: ``"only"`` where no row may ever see a later position (such a mask cannot be had
without causality), True where a parameter ``causal`` decides, False (or none) where rows see later positions; and a
function ``reach(query_len, key_len, **settings) -> Reach`` that describes the same pairs as a few runs of keys for each
row (`attncli.attention.patterns.key_runs`), so that the pattern of a long sequence can be counted, drawn and gone
through without the matrix. Contract tests hold the two together.
"""
