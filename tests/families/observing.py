"""Observers that keep weights whole, for every text of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from families.outcome import Wrong
from torch import Tensor

from attncli.models.direction import kind_of_single_stack
from attncli.models.loading import Loaded, LoadOptions
from attncli.models.prepared_text import from_inputs
from attncli.models.pretrained import PretrainedSource
from attncli.record import AttentionLayer, Kind, Request, WeightBlock


@dataclass
class Everything:
    """Keeps all weights of the main stack, whole, for every text of the batch."""

    kept: dict[tuple[Kind, int], list[WeightBlock]] = field(default_factory=dict)
    allowed: dict[tuple[Kind, int], bool] = field(default_factory=dict)

    def request(self, layer: AttentionLayer) -> Request:
        return Request()

    def update(self, block: WeightBlock) -> None:
        copied = replace(block, weights=block.weights.clone(), scores=None)
        self.kept.setdefault((block.layer.kind, block.layer.index), []).append(copied)

    def weights(self, kind: Kind, layer: int) -> Tensor:
        blocks = self.kept[kind, layer]
        first = min(block.keys.start for block in blocks)
        shape = max(block.rows.stop for block in blocks), max(block.keys.stop for block in blocks) - first
        whole = blocks[0].weights.new_full((len(blocks[0].weights), blocks[0].layer.heads, *shape), torch.nan)
        for block in blocks:
            heads, rows = list(block.heads), slice(block.rows.start, block.rows.stop)
            if not bool(whole[:, heads, rows].isnan().all()):
                raise Wrong(f"{kind} layer {layer} rows from {rows.start} were shown twice")
            whole[:, heads, rows] = 0.0
            whole[:, heads, rows, block.keys.start - first : block.keys.stop - first] = block.weights
        return whole


@dataclass
class First(Everything):
    """Keeps one layer, and says so beforehand: the model is stopped after it."""

    place: tuple[Kind, int] = ("encoder", 0)

    @property
    def sought(self) -> frozenset[tuple[Kind, int]]:
        return frozenset([self.place])

    def request(self, layer: AttentionLayer) -> Request | None:
        return Request() if (layer.kind, layer.index) == self.place else None


def source_of(model: Any, inputs: Mapping[str, Tensor]) -> PretrainedSource:
    """Make a model and its inputs a source of attention."""
    loaded = Loaded(model.config.model_type, model, None, LoadOptions(), None)
    return PretrainedSource(loaded, from_inputs(loaded, inputs, _lengths(model, inputs)))


def _lengths(model: Any, inputs: Mapping[str, Tensor]) -> dict[Kind, tuple[int, int]]:
    """Give the axes' lengths where tokens are read; 0 where they come of pictures or sound and are not known."""
    source = inputs["input_ids"].shape[1] if "input_ids" in inputs else 0
    target = inputs["decoder_input_ids"].shape[1] if "decoder_input_ids" in inputs else 0
    if getattr(model.config, "is_encoder_decoder", False):
        return {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    return {kind_of_single_stack(model): (source, source)}
