"""How fast each pair of dimensions turns in a rotary encoding, and how pretrained models stretch it to longer texts.

A frequency is in radians a token. All are kept in float64: an angle is a frequency times a position that may be large.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float64
from torch import Tensor


def rotary_frequencies(rotary_dim: int, *, base: float = 10_000.0) -> Float64[Tensor, " pairs"]:
    """Give one frequency for each pair of dimensions: ``base^(−2t/rotary_dim)``.

    Raises:
        ValueError: `rotary_dim` is odd or not positive.

    Reference:
        Su et al. 2021, §3.4, arXiv 2104.09864.

    >>> rotary_frequencies(4)
    tensor([1.0000, 0.0100], dtype=torch.float64)
    """
    if rotary_dim < 2 or rotary_dim % 2:
        raise ValueError(f"expected an even number of dimensions to rotate, at least 2, got {rotary_dim}")
    return base ** (-torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim)


def linear_frequencies(frequencies: Float64[Tensor, " pairs"], factor: float) -> Float64[Tensor, " pairs"]:
    """Slow every pair down by a factor, so that a text `factor` times as long turns as far.

    Raises:
        ValueError: The factor is less than 1.
    """
    return frequencies / _factor(factor)


def llama3_frequencies(
    frequencies: Float64[Tensor, " pairs"],
    factor: float,
    *,
    original_length: int,
    low_frequency_factor: float = 1.0,
    high_frequency_factor: float = 4.0,
) -> Float64[Tensor, " pairs"]:
    """Slow down only the pairs that turn less than once in the original length, blending in between (Llama 3.1).

    Args:
        original_length: Length in tokens that the model was first trained on.
        low_frequency_factor: Pairs with fewer turns than this in the original length are slowed by the whole factor.
        high_frequency_factor: Pairs with more turns than this keep their frequency.

    Raises:
        ValueError: The factor is less than 1.
    """
    turns = original_length * frequencies / (2 * math.pi)
    keep = (turns - low_frequency_factor) / (high_frequency_factor - low_frequency_factor)
    return torch.lerp(frequencies / _factor(factor), frequencies, keep.clamp(0.0, 1.0))


def yarn_frequencies(
    frequencies: Float64[Tensor, " pairs"],
    factor: float,
    *,
    original_length: int,
    base: float = 10_000.0,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
) -> Float64[Tensor, " pairs"]:
    """Keep the fast pairs, slow down the slow ones, with a ramp over the pairs in between (YaRN).

    Args:
        original_length: Length in tokens that the model was first trained on.
        base: The base that the frequencies were made with.
        beta_fast: The ramp begins at the pair that turns this often in the original length.
        beta_slow: The ramp ends at the pair that turns this often in the original length.
        truncate: Whether the ramp's ends are rounded outwards to whole pairs (gpt-oss does not).

    Raises:
        ValueError: The factor is less than 1.

    Reference:
        Peng et al. 2023, §3, arXiv 2309.00071.
    """
    pairs = frequencies.shape[0]
    begin, end = (
        pairs * math.log(original_length / (turns * 2 * math.pi)) / math.log(base)
        for turns in (beta_fast, beta_slow)
    )
    if truncate:
        begin, end = math.floor(begin), math.ceil(end)
    begin, end = max(begin, 0), min(end, 2 * pairs - 1)
    ramp = (torch.arange(pairs, dtype=torch.float64) - begin) / max(end - begin, 1e-3)
    return torch.lerp(frequencies, frequencies / _factor(factor), ramp.clamp(0.0, 1.0))


def yarn_attention_factor(factor: float) -> float:
    """Give what YaRN multiplies the rotated query and key with: ``0.1·ln(factor) + 1``.

    The scores so get its square.

    Raises:
        ValueError: The factor is less than 1.

    >>> round(yarn_attention_factor(32.0), 4)
    1.3466
    """
    return 0.1 * math.log(_factor(factor)) + 1.0


def dynamic_frequencies(
    rotary_dim: int, factor: float, *, length: int, original_length: int, base: float = 10_000.0
) -> Float64[Tensor, " pairs"]:
    """Raise the base once a text is longer than the original length (dynamic NTK).

    ``base · (factor·length/original_length − (factor − 1))^(rotary_dim/(rotary_dim − 2))``

    Args:
        length: Length of this text in tokens; up to the original length nothing changes.
        original_length: Length in tokens that the model was trained on.

    Raises:
        ValueError: The factor is less than 1, or `rotary_dim` is odd or less than 4.
    """
    if rotary_dim < 4:
        raise ValueError(f"expected at least 4 dimensions to rotate, got {rotary_dim}")
    growth = _factor(factor) * max(length, original_length) / original_length - (factor - 1.0)
    return rotary_frequencies(rotary_dim, base=base * growth ** (rotary_dim / (rotary_dim - 2)))


def retention_frequencies(head_dim: int) -> Float64[Tensor, " pairs"]:
    """Give the frequencies of the rotation: ``10000^(−t/(head_dim/2 − 1))``, both ends 1 and 1/10000 included.

    Raises:
        ValueError: `head_dim` is odd.
    """
    if head_dim % 2:
        raise ValueError(f"retention turns pairs of dimensions: expected an even head_dim, got {head_dim}")
    return 10_000.0 ** -torch.linspace(0.0, 1.0, head_dim // 2, dtype=torch.float64)


def _factor(factor: float) -> float:
    if factor < 1.0:
        raise ValueError(f"expected a scaling factor of at least 1, got {factor}")
    return factor
