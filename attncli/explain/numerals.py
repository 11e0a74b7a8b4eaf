"""Numbers as people read them in a column: few digits, and as many as their neighbours have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_PRODUCTS = 3
"""Of a dot product, so many of its largest terms are shown."""


def number(value: float) -> str:
    """Write a number for people in three digits.

    >>> number(229.461), number(3.5853), number(0.00026), number(-1.2e-9), number(0), number(48123.4)
    ('229', '3.59', '0.00026', '-1.2e-09', '0', '48123')
    """
    value = float(value)
    return f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def aligned(values: NDArray[np.float32]) -> list[str]:
    """Write a column of numbers with as many decimals as the largest of them needs.

    >>> aligned(np.array([12.483, -0.0285], np.float32)), aligned(np.array([0.5, 0.0123], np.float32))
    (['12.48', '-0.03'], ['0.500', '0.012'])
    """
    finite = values[np.isfinite(values)]
    largest = float(np.abs(finite).max(initial=0.0))
    digits = 0 if largest >= 1000 else 1 if largest >= 100 else 2 if largest >= 10 else 3
    if 0 < largest < 0.01:
        return [number(value) for value in values]
    return [f"{value:.{digits}f}" for value in values]


def first_numbers(vector: NDArray[np.float32], count: int) -> str:
    """Write a vector's first numbers in columns, in as many digits as the largest of them needs.

    >>> first_numbers(np.array([0.5, -1.25, 3, 7], np.float32), 3)
    '+0.50 -1.25 +3.00 …'
    """
    first = vector[:count]
    largest = float(np.abs(first).max(initial=0.0))
    digits = 0 if largest >= 100 else 1 if largest >= 10 else 2 if largest >= 0.1 or largest == 0 else 3
    return " ".join(f"{value:+.{digits}f}" for value in first) + (" …" if len(vector) > count else "")


def largest_terms(products: NDArray[np.float32], count: int = MOST_PRODUCTS) -> str:
    """Write the largest of the terms that a dot product sums up, each with its dimension; then the others' sum.

    >>> largest_terms(np.array([0.5, -2, 0.25, 3], np.float32), 2)
    '[3] +3.00  [1] -2.00  rest +0.75'
    """
    order = np.argsort(-np.abs(products), kind="stable")[:count]
    terms = [f"[{place}] {products[place]:+.2f}" for place in order]
    rest = float(products.sum(dtype=np.float64) - products[order].sum(dtype=np.float64))
    return "  ".join([*terms, *([f"rest {rest:+.2f}"] if len(products) > count else [])])
