"""The small trained models that come with attncli: where their files lie and what their cards say. Loads no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from attncli.record import HeadRole

MODELS = Path(__file__).parent.parent / "shipped_models"

DEFAULT = "tiny-decoder"
"""The model that attends where none is named."""


@dataclass(frozen=True)
class Card:
    """What a model's ``card.json`` says of it.

    Args:
        shape: Sizes, the arguments of `attncli.attention.transformer.Shape`.
        length: The number of tokens of the texts it was trained on.
        held_out: Figures measured on text it was not trained on, by name.
        roles: Heads that do something that has a name, the strongest of each role first.
        document: All of it.
    """

    name: str
    summary: str
    shape: Mapping[str, Any]
    length: int
    held_out: Mapping[str, float]
    roles: tuple[HeadRole, ...]
    document: Mapping[str, Any]

    @property
    def is_pair(self) -> bool:
        """Whether it is an encoder–decoder, which reads one text and writes another."""
        return bool(self.shape["encoder_layers"] and self.shape["decoder_layers"])


def shipped_models() -> tuple[str, ...]:
    """Name the models, in alphabetical order."""
    return tuple(sorted(path.parent.name for path in MODELS.glob("*/card.json")))


def shipped_folder(name: str | None) -> Path | None:
    """Return the folder of a shipped model; None where `name` is none. A path (``./tiny-decoder``) never is."""
    return MODELS / name if name in shipped_models() else None


@cache
def card(name: str) -> Card:
    """Read a shipped model's card."""
    return read_card(MODELS / name)


def roles_of(name: str) -> tuple[HeadRole, ...]:
    """Return what the heads of a model are known to do: nothing where it is no shipped one."""
    return card(name).roles if name in shipped_models() else ()


def read_card(folder: Path) -> Card:
    """Read the card in a folder."""
    document = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    return Card(
        name=document["name"],
        summary=document["summary"],
        shape=document["shape"],
        length=document["training"]["length"],
        held_out=document["held_out"]["figures"],
        roles=tuple(HeadRole(**role) for role in document["roles"]),
        document=document,
    )
