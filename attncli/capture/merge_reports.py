"""Several passes told as one: of each number that the self-checks measured at a layer, the worst."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from attncli.record import AttentionLayer, LayerReport


def joined_reports(reports: Iterable[LayerReport]) -> list[LayerReport]:
    """Make one report of all reports on a layer: of each number the worst, of rows without keys the sum."""
    found: dict[AttentionLayer, LayerReport] = {}
    for report in reports:
        so_far = found.get(report.layer)
        found[report.layer] = report if so_far is None else _worse(so_far, report)
    return list(found.values())


def _worse(a: LayerReport, b: LayerReport) -> LayerReport:
    errors = [error for error in (a.output_error, b.output_error) if error is not None]
    return replace(
        a,
        row_sum_error=max(a.row_sum_error, b.row_sum_error),
        forbidden=max(a.forbidden, b.forbidden),
        output_error=max(errors, default=None),
        dead_rows=a.dead_rows + b.dead_rows,
    )
