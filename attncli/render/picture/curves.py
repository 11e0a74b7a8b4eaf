"""Curves over a logarithmic axis as a picture: each named at its end, with slopes to hold them against."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attncli.memory import human_bytes
from attncli.render import Options
from attncli.render.picture.fonts import picture_label
from attncli.render.picture.page_layout import (
    POINT,
    Page,
    best_columns,
    break_lines,
    fitted,
    ink,
    letters,
    quiet,
    text_width,
)
from attncli.render.scales import even_values
from attncli.view import Curve, Curves, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito 2008, Color Universal Design: told apart by eyes that see no red or green.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f", "#8c6d1f")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
_QUIET = "#8a8a8a"

_WIDTH, _HEIGHT = 4.5, 3.0
_NARROWEST = 1.4
_GAP = 0.12
_LINE = 1.4
"""Letters from one name to the next below it."""
_POWER = re.compile(r"\^(-?\d+(?:\.\d*[1-9])?)(?:\.0+)?")
_RAISED = str.maketrans("-0123456789.", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹·")


@dataclass(frozen=True, slots=True)
class _Style:
    color: str
    marker: str
    line: str


@dataclass(frozen=True, slots=True)
class _Room:
    """Inches of a plot's frame, of what stands at its left, of its title and of the names at its right."""

    width: float
    height: float
    left: float
    above: float
    names: float


def draw_curves(view: Curves, options: Options) -> Figure:
    """Draw each plot of a view with the names of the curves at their right, as a page of about 3 to 2."""

    def laid(stretch: float) -> tuple[Page, tuple[_Room, int]]:
        longest = max((len(plot.curves) for plot in view.plots), default=0)
        line = letters(_LINE) * POINT
        height = max(_HEIGHT * stretch, longest * line)
        names = max(map(_names_width, view.plots), default=0)
        width = _WIDTH * stretch
        lines = max((len(_title_lines(plot, width + names)) for plot in view.plots), default=1)
        room = _Room(width, height, letters(6.8) * POINT, letters(1.4 + 1.7 * lines) * POINT, names)
        wide, high = room.left + room.width + names, room.above + height + letters(4.2) * POINT
        across = best_columns(
            max(len(view.plots), 1), wide, high, options.look, 3 / 2, room.left + names + _NARROWEST
        )
        down = -(-len(view.plots) // across) or 1
        title, notes = view.header.title, list(view.header.notes)
        page = Page(0.1, across * wide, 0.0, 0.0, down * high, title, "", notes, options.look)
        return page, (room, across)

    page, (room, across) = fitted(options.look, laid)
    page, room = _filled(page, room, -(-len(view.plots) // across) or 1)
    figure = page.figure()
    styles = _styles(view.plots)
    for number, plot in enumerate(view.plots):
        down, right = divmod(number, across)
        left = right * page.width / across + room.left
        top = down * (room.above + room.height + letters(4.2) * POINT) + room.above
        axes = page.axes(figure, left, top, room.width, room.height)
        _draw(axes, plot, styles, room)
        _write_names(axes, plot, styles, room)
    return figure


def _title_lines(plot: Plot, room: float) -> list[str]:
    title = f"{plot.title} (bits)" if plot.unit == "bits" else plot.title
    return break_lines(title, room, letters(1.2))


def _filled(page: Page, room: _Room, down: int) -> tuple[Page, _Room]:
    """Make plots higher, up to squares, where a page of a given height has room."""
    higher = max(0.0, min(page.spare_height / down, room.width - room.height))
    return replace(page, height=page.height + higher * down), replace(room, height=room.height + higher)


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
    return _GAP + 0.35 + max((text_width(_name(curve), letters()) for curve in plot.curves), default=0.0)


def _name(curve: Curve) -> str:
    return picture_label(raised(f"{curve.name}  {curve.about}".strip()))


def raised(text: str) -> str:
    """Write powers as people do.

    >>> raised("n^2"), raised("n^1.98")
    ('n²', 'n¹·⁹⁸')
    """
    return _POWER.sub(lambda found: found[1].translate(_RAISED), text)


def _draw(axes: Axes, plot: Plot, styles: dict[str, _Style], room: _Room) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("linear" if plot.linear else "log")
    title = "\n".join(_title_lines(plot, room.width + room.names))
    axes.set_title(title, size=letters(1.2), color=ink(), loc="left", pad=8, parse_math=False)
    axes.set_xlabel(plot.x_name, size=letters(1.1), color=quiet(), parse_math=False)
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
            markerfacecolor="none" if curve.quiet else style.color,
            zorder=2 if curve.quiet else 3,
        )
    _set_limits(axes, plot)
    _draw_slopes(axes, plot)
    _set_ticks(axes, plot, room.width)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(True, color=_QUIET, alpha=0.25, linewidth=0.6)
    axes.patch.set_alpha(0)
    for spine in axes.spines.values():
        spine.set_color(quiet())
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
    import matplotlib

    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    ground = matplotlib.rcParams["figure.facecolor"]
    for slope in plot.slopes:
        end = min(right, left * (top / bottom) ** (1 / slope))
        axes.plot(
            [left, end], [bottom, bottom * (end / left) ** slope], ":", color="#b0b0b0", linewidth=1, zorder=1
        )
        # Above the line's end, where the curves have ended already.
        axes.annotate(
            "n" if slope == 1 else raised(f"n^{slope}"),
            (end, bottom * (end / left) ** slope),
            xytext=(0, 3 if end == right else -10),
            textcoords="offset points",
            size=letters(),
            color=quiet(),
            ha="right",
            bbox={"facecolor": ground, "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
            zorder=1.5,  # of no curve may a point be hidden
            parse_math=False,
        )


def _set_ticks(axes: Axes, plot: Plot, width: float) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    lengths = sorted({value for curve in plot.curves for value in curve.x})
    shown = _spaced(lengths, axes.get_xlim(), width)
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(
        shown, labels=[f"{value:,.0f}" for value in shown], size=letters(), color=ink(), parse_math=False
    )
    ticks = even_values(axes.get_ylim()[1]) if plot.linear else _round_values(plot.unit, *axes.get_ylim())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_yticks(
        ticks,
        labels=[_value(tick, plot.unit) for tick in ticks],
        size=letters(),
        color=ink(),
        parse_math=False,
    )
    axes.tick_params(length=2, color=quiet())


def _spaced(lengths: Sequence[float], limits: tuple[float, float], width: float) -> list[float]:
    """Leave out lengths whose labels would touch, the last one never."""
    kept: list[float] = []
    for value in reversed(lengths):
        apart = math.log((kept[-1] if kept else math.inf) / value) / math.log(limits[1] / limits[0]) * width
        if apart > letters(0.75 * len(f"{value:,.0f}") + 0.5) * POINT:
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


def _write_names(axes: Axes, plot: Plot, styles: dict[str, _Style], room: _Room) -> None:
    """Write each curve's name at the right, as near to its end as the others allow, with a line that leads there."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    ended = [curve for curve in plot.curves if curve.y]
    ends = [
        curve.y[-1] / top if plot.linear else math.log(curve.y[-1] / bottom) / math.log(top / bottom)
        for curve in ended
    ]
    for curve, end, place in zip(
        ended, ends, spread_out(ends, letters(_LINE) * POINT / room.height), strict=True
    ):
        x = math.log(curve.x[-1] / left) / math.log(right / left)
        color = styles[curve.name].color
        axes.annotate(
            _name(curve),
            (x, end),
            xytext=(1 + (_GAP + 0.18) / room.width, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            size=letters(),
            color=quiet() if curve.quiet else color,
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
