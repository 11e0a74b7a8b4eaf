"""What variants are measured against, one file each: PyTorch's own attention, and layers that are no attention.

A peer's file has an `ENTRY` with a variant's attributes, and the function ``attend`` of a variant
(`attncli.attention.variants.Variant`). It has ``weights`` only if it is attention whose output can be held against a
plain form. Besides these it may have

    flops(*, batch, heads, query_len, …, causal, **settings) -> int    where PyTorch's counter does not see its products
    about(query, key, value, causal, **settings) -> str    what really runs here, in a few words: a kernel's name
"""
