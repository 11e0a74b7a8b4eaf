"""Curves over a logarithmic axis as a picture: each named at its end, with slopes to hold them against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attncli.memory import human_bytes
from attncli.render.picture.fonts import picture_label
from attncli.render.picture.page_layout import INK, QUIET, SMALL, Page, text_width
from attncli.view import Curve, Curves, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito 2008, Color Universal Design: told apart by eyes that see no red or green.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#222222", "#8c6d1f")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
_QUIET = "#8a8a8a"

_WIDTH, _HEIGHT = 4.3, 4.2
_LEFT, _GAP, _BELOW = 0.75, 0.12, 0.52
_LINE = 0.155
"""Inches from one name to the next below it."""


@dataclass(frozen=True, slots=True)
class _Style:
    color: str
    marker: str
    line: str


def draw_curves(view: Curves) -> Figure:
    """Draw each plot of a view, side by side, with the names of the curves at their right."""
    rooms = [_LEFT + _WIDTH + _names_width(plot) for plot in view.plots]
    rows = max((len(plot.curves) for plot in view.plots), default=0)
    height = max(_HEIGHT, rows * _LINE + 0.2)
    title = [picture_label(view.header.title)] if view.header.title else []
    page = Page(0.1, sum(rooms), 0.0, _BELOW, height, title, "", list(view.header.notes))
    figure = page.figure()
    styles = _styles(view.plots)
    left = 0.0
    for plot, room in zip(view.plots, rooms, strict=True):
        axes = page.axes(figure, left + _LEFT, 0.32, _WIDTH, height - 0.32)
        _draw(axes, plot, styles)
        _write_names(axes, plot, styles, height - 0.32)
        left += room
    return figure


def _styles(plots: Sequence[Plot]) -> dict[str, _Style]:
    """Return each name the same look in all plots: what is there for comparison is grey and dashed."""
    styles: dict[str, _Style] = {}
    loud = quiet = 0
    for curve in (curve for plot in plots for curve in plot.curves):
        if curve.name in styles:
            continue
        if curve.quiet:
            styles[curve.name] = _Style(_QUIET, _MARKERS[quiet % len(_MARKERS)], "--")
            quiet += 1
        else:
            styles[curve.name] = _Style(_COLORS[loud % len(_COLORS)], _MARKERS[loud % len(_MARKERS)], "-")
            loud += 1
    return styles


def _names_width(plot: Plot) -> float:
    return _GAP + 0.45 + max((text_width(_name(curve), SMALL) for curve in plot.curves), default=0.0)


def _name(curve: Curve) -> str:
    return picture_label(f"{curve.name}  {curve.about}".strip())


def _draw(axes: Axes, plot: Plot, styles: dict[str, _Style]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("linear" if plot.linear else "log")
    title = f"{plot.title} (bits)" if plot.unit == "bits" else plot.title
    axes.set_title(title, size=SMALL + 2, color=INK, loc="left", pad=8, parse_math=False)
    axes.set_xlabel(plot.x_name, size=SMALL + 1, color=QUIET, parse_math=False)
    for curve in plot.curves:
        style = styles[curve.name]
        axes.plot(
            curve.x,
            curve.y,
            color=style.color,
            marker=style.marker,
            linestyle=style.line,
            linewidth=1.3,
            markersize=4,
            markerfacecolor="white" if curve.quiet else style.color,
            zorder=2 if curve.quiet else 3,
        )
    _set_limits(axes, plot)
    _draw_slopes(axes, plot)
    _set_ticks(axes, plot)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(True, color="#e8e8e8", linewidth=0.6)
    axes.set_axisbelow(True)


def _set_limits(axes: Axes, plot: Plot) -> None:
    x = [value for curve in plot.curves for value in curve.x] or [1.0, 2.0]
    y = [value for curve in plot.curves for value in curve.y if value > 0] or [1.0, 10.0]
    axes.set_xlim(min(x) / 1.15, max(x) * 1.15)
    if plot.linear:
        axes.set_ylim(0, max(y) * 1.08)
    else:
        axes.set_ylim(min(y) / 1.6, max(y) * 1.6)


def _draw_slopes(axes: Axes, plot: Plot) -> None:
    """Draw what grows like n, n², … as dotted lines from the lower left corner, named where they leave the axes."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    for slope in plot.slopes:
        end = min(right, left * (top / bottom) ** (1 / slope))
        axes.plot(
            [left, end], [bottom, bottom * (end / left) ** slope], ":", color="#b0b0b0", linewidth=1, zorder=1
        )
        # Above the line's end, where the curves have ended already.
        axes.annotate(
            "n" if slope == 1 else f"n^{slope}",
            (end, bottom * (end / left) ** slope),
            xytext=(0, 3 if end == right else -10),
            textcoords="offset points",
            size=SMALL,
            color=QUIET,
            ha="right",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
            zorder=1.5,  # of no curve may a point be hidden
            parse_math=False,
        )


def _set_ticks(axes: Axes, plot: Plot) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    lengths = sorted({value for curve in plot.curves for value in curve.x})
    shown = _spaced(lengths, axes.get_xlim())
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(
        shown, labels=[f"{value:,.0f}" for value in shown], size=SMALL, color=INK, parse_math=False
    )
    ticks = _even_values(axes.get_ylim()[1]) if plot.linear else _round_values(plot.unit, *axes.get_ylim())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_yticks(
        ticks, labels=[_value(tick, plot.unit) for tick in ticks], size=SMALL, color=INK, parse_math=False
    )
    axes.tick_params(length=2, color=QUIET)


def _spaced(lengths: Sequence[float], limits: tuple[float, float]) -> list[float]:
    """Leave out lengths whose labels would touch, the last one never."""
    kept: list[float] = []
    for value in reversed(lengths):
        if not kept or math.log(kept[-1] / value) / math.log(limits[1] / limits[0]) * _WIDTH > 0.5:
            kept.append(value)
    return kept[::-1]


def _round_values(unit: str, low: float, high: float) -> list[float]:
    """Return the values to name between two: powers of ten, or of two for bytes; more where there are few.

    >>> _round_values("seconds", 0.02, 20), _round_values("bytes", 2**20, 2**24)
    ([0.1, 1.0, 10.0], [1048576.0, 4194304.0, 16777216.0])
    """
    if unit == "bytes":
        powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
        step = 2 if len(powers) > 4 else 1
        return [float(2**power) for power in powers if power % step == 0]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1,) if math.log10(high / low) > 1.9 else (1, 2, 5)
    values = (float(f"{digit}e{power}") for power in powers for digit in digits)
    return [value for value in values if low <= value <= high]


def _even_values(high: float) -> list[float]:
    """Return the values to name on an axis from 0: from four to eight, a round step apart.

    >>> _even_values(5.9)
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    """
    step = 10.0 ** math.floor(math.log10(high))
    step = next(step / part for part in (0.5, 1, 2, 4, 5, 10) if high / (step / part) >= 4)
    return [index * step for index in range(math.floor(high / step) + 1)]


def _value(value: float, unit: str) -> str:
    """Write a value at an axis.

    >>> _value(0.1, "seconds"), _value(2e-5, "seconds"), _value(2.0**24, "bytes"), _value(0.25, "bits")
    ('100 ms', '20 µs', '16 MiB', '0.25')
    """
    if unit in ("", "bits"):
        return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
    if unit == "bytes":
        return human_bytes(value)
    for size, name in ((1e-6, "µs"), (1e-3, "ms")):
        if value < size * 999:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g} s"


def _write_names(axes: Axes, plot: Plot, styles: dict[str, _Style], height: float) -> None:
    """Write each curve's name at the right, as near to its end as the others allow, with a line that leads there."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    ended = [curve for curve in plot.curves if curve.y]
    ends = [
        curve.y[-1] / top if plot.linear else math.log(curve.y[-1] / bottom) / math.log(top / bottom)
        for curve in ended
    ]
    for curve, end, place in zip(ended, ends, spread_out(ends, _LINE / height), strict=True):
        x = math.log(curve.x[-1] / left) / math.log(right / left)
        color = styles[curve.name].color
        axes.annotate(
            _name(curve),
            (x, end),
            xytext=(1 + (_GAP + 0.18) / _WIDTH, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            size=SMALL,
            color=QUIET if curve.quiet else color,
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "linewidth": 0.5,
                "alpha": 0.6,
                "shrinkA": 1,
                "shrinkB": 4,
                "relpos": (0, 0.5),
            },
            annotation_clip=False,
            parse_math=False,
        )


def spread_out(places: Sequence[float], gap: float) -> list[float]:
    """Move places apart until each two are a gap apart, in the same order and as near as can be to where they were.

    >>> [round(place, 2) for place in spread_out([0.5, 0.5, 0.9], 0.1)]
    [0.45, 0.55, 0.9]
    """
    groups: list[list[int]] = []
    order = sorted(range(len(places)), key=lambda index: places[index])
    for index in order:
        groups.append([index])
        while (
            len(groups) > 1
            and _middle(groups[-1], places) - _middle(groups[-2], places)
            < gap * (len(groups[-1]) + len(groups[-2])) / 2
        ):
            groups[-2:] = [groups[-2] + groups[-1]]
    found = [0.0] * len(places)
    for group in groups:
        start = _middle(group, places) - gap * (len(group) - 1) / 2
        for number, index in enumerate(group):
            found[index] = start + number * gap
    return found


def _middle(group: Sequence[int], places: Sequence[float]) -> float:
    return sum(places[index] for index in group) / len(group)
