"""What variants are measured against, one file each: PyTorch's own attention, and layers that are no attention.

A peer's file has an `ENTRY` with a variant's attributes, and the functions ``attend``, ``flops`` and ``extra_bytes`` of
a variant (`attncli.attention.variants.Variant`). It has ``weights`` only if it is attention whose output can be held
against a plain form. Besides it may have

    about(query, key, value, causal, **settings) -> str    what really runs here, in a few words: a kernel's name
"""
