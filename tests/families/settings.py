"""What single families want differently from the general sizes."""

from __future__ import annotations

from typing import Any

SETTINGS: dict[str, dict[str, Any]] = {}
"""Config entries by family. ``...`` leaves an entry at its default."""

AFTER: dict[str, dict[str, Any]] = {}
"""Entries set when the config has been made."""

NOT_A_MODEL: dict[str, str] = {}
"""Families that cannot be made here, and why."""
