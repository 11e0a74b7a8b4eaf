"""Position encodings: without one, attention does not know the order of its input.

`sinusoidal_positions` are added to the embeddings, `apply_rotary` turns queries and keys, `alibi_bias` is added to
the scores. The frequencies that rotate are plain tensors, made by the functions of `frequencies`.
"""

from attncli.attention.positions.alibi import alibi_bias, alibi_slopes
from attncli.attention.positions.frequencies import retention_frequencies, rotary_frequencies
from attncli.attention.positions.rotary import apply_rotary
from attncli.attention.positions.sinusoidal import sinusoidal_positions

__all__ = [
    "alibi_bias",
    "alibi_slopes",
    "apply_rotary",
    "retention_frequencies",
    "rotary_frequencies",
    "sinusoidal_positions",
]
