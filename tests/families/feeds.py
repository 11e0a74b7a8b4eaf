"""Families that want other inputs than their main input's name tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

Feed = Callable[[Any, str | None], dict[str, Tensor]]

FEEDS: dict[str, Feed] = {}
