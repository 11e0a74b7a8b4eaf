"""What came of one family."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Outcome:
    """What came of one family.

    Args:
        status: ``right``, ``checked`` (nothing to compare with, but the weights give the model's own output),
            ``error`` (one clear error), ``unbuildable``, or ``wrong``.
        why: The reason in one line, for all but ``right``.
        compared: How many layers were compared with eager, padding included.
        difference: The largest difference of any weight.
        sides: On which sides padding was tried.
        capture: Where the attention was seen.
        depths: How many layers attncli tells of each kind, and whether the config says so too.
        typed: What the command makes of the model's folder.
        generates: What comes of writing three tokens.
        holes: What comes of a checkpoint that lacks one kind of weight, each kind once.
    """

    family: str
    status: str
    why: str = ""
    compared: int = 0
    difference: float = 0.0
    sides: list[str] = field(default_factory=list)
    capture: list[str] = field(default_factory=list)
    layers: dict[str, list[int]] = field(default_factory=dict)
    others: int = 0
    depths: str = ""
    typed: str = ""
    generates: str = ""
    holes: dict[str, list[str]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Wrong(Exception):
    """Captured weights are not what the model computed."""
