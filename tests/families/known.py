"""Families whose ``output_attentions`` is not what the model computes with."""

from __future__ import annotations

EAGER_IS_WRONG: dict[str, str] = {}
