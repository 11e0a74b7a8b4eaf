"""Writes docs/coverage.md from the sweep's results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def page(results: Sequence[dict[str, Any]]) -> str:
    """Make the page."""
    return str(len(results))
