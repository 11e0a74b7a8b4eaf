"""Attention masks, one file each: which key positions a query position may attend to.

A mask's file has an `ENTRY` and a function ``mask(query_len, key_len, **settings) -> Bool[Tensor, "query key"]``,
True = may attend. Where there are more keys than queries (a cache), the last query belongs to the last key.
"""
