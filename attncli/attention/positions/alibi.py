"""ALiBi: attention with linear biases, a penalty on the scores that grows with distance."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def alibi_slopes(heads: int) -> Float[Tensor, " heads"]:
    """Return each head its slope: ``2^(−8a/heads)`` for a = 1…heads, where heads is a power of two.

    For any other number the slopes of the next lower power come first, then every other slope of twice that power.

    Raises:
        ValueError: There is no head.

    Reference:
        Press et al. 2022, §3, arXiv 2108.12409; the rule for other numbers of heads is that of the paper's code.

    >>> alibi_slopes(6)
    tensor([0.2500, 0.0625, 0.0156, 0.0039, 0.5000, 0.1250])
    """
    if heads < 1:
        raise ValueError(f"expected at least one head, got {heads}")
    power = 1 << (heads.bit_length() - 1)
    between = _geometric(2 * power)[::2]
    return torch.cat((_geometric(power), between[: heads - power])).float()


def alibi_bias(
    heads: int, query_len: int, key_len: int | None = None
) -> Float[Tensor, "heads query_len key_len"]:
    """Return the bias to add to the scaled scores: ``−slope · |i − j|``.

    The last query belongs to the last key, as in a causal mask. Below the diagonal this is the paper's −slope·(i−j);
    above it, where an encoder may look, distance counts the same way.

    Args:
        key_len: Number of keys; as many as queries where None.

    Raises:
        ValueError: There is no head, or a length is negative.

    >>> alibi_bias(2, 2, 3)[0]
    tensor([[-0.0625,  0.0000, -0.0625],
            [-0.1250, -0.0625,  0.0000]])
    """
    key_len = query_len if key_len is None else key_len
    if query_len < 0 or key_len < 0:
        raise ValueError(f"lengths must not be negative, got query {query_len} and key {key_len}")
    query = torch.arange(query_len).unsqueeze(-1) + (key_len - query_len)
    distance = (query - torch.arange(key_len)).abs()
    return -alibi_slopes(heads)[:, None, None] * distance + 0.0  # + 0.0 turns −0 into 0


def _geometric(heads: int) -> Tensor:
    return torch.exp2(-8.0 / heads * torch.arange(1, heads + 1, dtype=torch.float64))
