"""Numbers of rows and heads: any head metric, of each row, and its average over a head's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli import registry
from attncli.heads.metrics import RowMetric, positions_only
from attncli.observers.block_parts import InLayers, heads_in, places_in
from attncli.observers.selection import Selection
from attncli.record import Batch, Kind, Request, Site, WeightBlock


@dataclass(frozen=True)
class HeadNumbers:
    """What was measured at one head.

    Args:
        means: Each metric's mean over the rows where it is defined; NaN where it is defined nowhere.
        rows: How many rows that was.
    """

    kind: Kind
    layer: int
    head: int
    kv_head: int
    means: Mapping[str, float]
    rows: Mapping[str, int]


@dataclass
class RowNumbers(InLayers):
    """Measures the heads asked for, row by row, and keeps each head's averages.

    Args:
        kind: Which attention of the model.
        metrics: Names of head metrics that have a number for each row.
        layers: Which layers.
        heads: Which heads.
        depth: How many layers the model has, to resolve ``-1``.
        query_len: Number of query rows.
        keep_rows: Whether to keep the rows' own numbers too: 4 bytes a row, head, layer and metric.
        batch: What the text's tokens are, for metrics that ask; by default nothing is known of them.
    """

    kind: Kind
    metrics: Sequence[str]
    layers: Selection
    heads: Selection
    depth: int
    query_len: int
    keep_rows: bool = False
    batch: Batch | None = None
    _open: _Open | None = None
    _found: list[HeadNumbers] = field(default_factory=list)
    _rows: dict[int, tuple[tuple[int, ...], Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._wanted_layers = self.layers.resolve(self.depth)
        self._batch = self.batch or positions_only(self.query_len)
        self._measures = [cast(RowMetric, registry.load("metrics", name)) for name in self.metrics]

    def request(self, site: Site) -> Request | None:
        """Ask for the chosen heads and every row."""
        self._close()
        if site.kind != self.kind or site.layer not in self._wanted_layers:
            return None
        heads = self.heads.resolve(site.heads)
        values = torch.full((len(self.metrics), len(heads), self.query_len), torch.nan)
        self._open = _Open(site, heads, values)
        return Request(heads)

    def update(self, block: WeightBlock) -> None:
        """Measure a block."""
        assert self._open is not None
        heads, their_heads = heads_in(block, self._open.heads)
        rows, their_rows = places_in(block.rows, range(self.query_len))
        for number, metric in enumerate(self._measures):
            values = metric.measure(block, self._batch)[0]
            self._open.values[number, heads, rows] = values[their_heads, their_rows].to("cpu", torch.float32)

    def numbers(self) -> list[HeadNumbers]:
        """Give what each head has on average, by layer and head in the order asked for."""
        self._close()
        return sorted(self._found, key=lambda found: self._wanted_layers.index(found.layer))

    def rows(self, layer: int) -> tuple[tuple[int, ...], NDArray[np.float32]]:
        """Give a layer's heads and the numbers of their rows, ``(metrics, heads, query)``; NaN where undefined.

        Raises:
            KeyError: The layer was not measured, or `keep_rows` is off.
        """
        self._close()
        heads, values = self._rows[layer]
        return heads, values.numpy()

    def _close(self) -> None:
        """Average the layer that has just passed. Over whole rows, so that no block's size can matter."""
        if self._open is None:
            return
        site, heads, values = self._open.site, self._open.heads, self._open.values
        self._open = None
        counts = (~values.isnan()).sum(dim=-1)
        means = values.double().nansum(dim=-1) / counts
        for place, head in enumerate(heads):
            self._found.append(
                HeadNumbers(
                    site.kind,
                    site.layer,
                    head,
                    site.kv_head(head),
                    dict(zip(self.metrics, means[:, place].tolist(), strict=True)),
                    dict(zip(self.metrics, counts[:, place].tolist(), strict=True)),
                )
            )
        if self.keep_rows:
            self._rows[site.layer] = heads, values


@dataclass
class _Open:
    """The layer that passes by: ``(metrics, heads, query)``."""

    site: Site
    heads: tuple[int, ...]
    values: Tensor
