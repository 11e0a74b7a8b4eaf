"""How many layers a model runs that goes through some of them several times: counted in one small pass."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from attncli.capture.blocks import BlockFeed
from attncli.capture.forward_pass import Watch
from attncli.capture.layers import Stacks
from attncli.models.influence import small_inputs
from attncli.record import AttentionLayer, Kind, WeightBlock


def loops(config: Any) -> bool:
    """Return whether a config says that layers run several times."""
    named = {**vars(config), **vars(config.get_text_config())}
    return any("loop" in name and isinstance(value, int) and value > 1 for name, value in named.items())


def layers_run(model: Any, stacks: Stacks, kind: Kind) -> int:
    """Return how many layers of the main stack attend in one pass."""
    counted = _Last(kind)
    inputs = next(small_inputs(model))
    if "input_ids" in inputs and "attention_mask" in inspect.signature(model.forward).parameters:
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    with (
        torch.inference_mode(),
        Watch(model, BlockFeed([counted], verify=False), (kind,), 1, stacks=stacks).watching(),
    ):
        model(**inputs, use_cache=False)
    return counted.layers


class _Last:
    """Notes the number of layers, and looks at no weights."""

    def __init__(self, kind: Kind) -> None:
        self.layers = 0
        self._kind = kind

    def request(self, layer: AttentionLayer) -> None:
        if layer.kind == self._kind and not layer.stack:
            self.layers = max(self.layers, layer.index + 1)

    def update(self, block: WeightBlock) -> None:
        """Take no notice: nothing was asked for."""
