"""Holds the number of layers that attncli tells against what a family's config says."""

from __future__ import annotations

from typing import Any

from families.observing import source_of

from attncli.models.loops import loops
from attncli.record import Kind

_PLAIN = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "depth")
_SIDES = {
    "encoder": ("encoder_layers", "num_encoder_layers", "encoder_num_hidden_layers", "encoder_n_layers", *_PLAIN),
    "decoder": ("decoder_layers", "num_decoder_layers", "decoder_num_hidden_layers", "decoder_num_layers", *_PLAIN),
}  # fmt: skip


def told(model: Any, inputs: Any, layers: dict[Kind, list[int]]) -> str:
    """Say how many layers attncli tells of each kind that was captured: 3, or 2 + 3; and what is wrong with it."""
    source = source_of(model, inputs)
    numbers = []
    for kind, seen in layers.items():
        depth, wanted = source.depth(kind), by_config(model.config, kind)
        if depth <= max(seen):
            return f"WRONG: {kind} layer {max(seen)} of {depth}"
        if loops(model.config):
            wanted = None
        if wanted is not None and depth != wanted:
            return f"WRONG: {kind} {depth}, config {wanted}"
        numbers.append(f"{depth}" if wanted is not None else f"{depth} (not in the config)")
    return " + ".join(numbers[:2])


def by_config(config: Any, kind: Kind) -> int | None:
    """Read the number of layers off a config; None where it has none."""
    side = "encoder" if kind == "encoder" else "decoder"
    two_stacks = bool(getattr(config, "is_encoder_decoder", False))
    own = next(
        (sub for name in (side, f"{side}_config") if (sub := getattr(config, name, None)) is not None), None
    )
    if own is None:
        own = config if any(hasattr(config, name) for name in _PLAIN) else config.get_text_config()
    if isinstance(stages := getattr(own, "depths", None), (list, tuple)):
        return sum(stages)
    names = _SIDES[side] if two_stacks else _PLAIN
    return next((value for name in names if isinstance(value := getattr(own, name, None), int)), None)
