"""A drawing of texts, boxes and lines, placed in inches from its upper left corner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import matplotlib

from attncli.render.look import LEAST_FONT, Look
from attncli.render.picture.fonts import picture_label
from attncli.render.picture.page_layout import POINT, Page, bare, ink, letters, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARGIN = 0.14
_SMALLER = 0.94


@dataclass(frozen=True, slots=True)
class _Text:
    x: float
    y: float
    text: str
    size: float
    color: str
    weight: str
    align: str


@dataclass(frozen=True, slots=True)
class _Box:
    x: float
    y: float
    width: float
    height: float
    color: str
    edge: str


@dataclass(frozen=True, slots=True)
class _Line:
    points: tuple[tuple[float, float], ...]
    arrow: bool


@dataclass
class Sheet:
    """What is drawn, in the order in which it is.

    Args:
        height: How far down it reaches.
    """

    width: float
    height: float = 0.0
    items: list[_Text | _Box | _Line] = field(default_factory=list)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 1.0,
        color: str = "",
        weight: str = "normal",
        align: str = "left",
    ) -> None:
        """Write a text whose middle is at a height; its size is a part of ordinary text's."""
        shown = picture_label(text) if text else ""
        self.items.append(_Text(x, y, shown, letters(size), color or ink(), weight, align))

    def box(self, x: float, y: float, width: float, height: float, color: str, edge: str = "none") -> None:
        """Draw a box from its upper left corner."""
        self.items.append(_Box(x, y, width, height, color, edge))

    def line(self, *points: tuple[float, float], arrow: bool = False) -> None:
        """Draw a line through points, with an arrow's head at its end if asked."""
        self.items.append(_Line(points, arrow))

    def add(self, other: Sheet, x: float, y: float) -> None:
        """Put another sheet on this one."""
        for item in other.items:
            if isinstance(item, _Line):
                self.items.append(_Line(tuple((a + x, b + y) for a, b in item.points), item.arrow))
            elif isinstance(item, _Box):
                self.box(item.x + x, item.y + y, item.width, item.height, item.color, item.edge)
            else:
                self.items.append(
                    _Text(item.x + x, item.y + y, item.text, item.size, item.color, item.weight, item.align)
                )
        self.height = max(self.height, y + other.height)

    def draw(self, axes: Axes) -> None:
        """Draw everything into axes as large as the sheet."""
        from matplotlib.patches import Rectangle

        bare(axes)
        axes.patch.set_alpha(0)
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        for item in self.items:
            if isinstance(item, _Box):
                box = Rectangle((item.x, item.y), item.width, item.height, facecolor=item.color)
                box.set(edgecolor=item.edge, linewidth=0.8 if item.edge != "none" else 0, clip_on=False)
                axes.add_patch(box)
            elif isinstance(item, _Line):
                _draw_line(axes, item)
            else:
                axes.text(
                    item.x,
                    item.y,
                    item.text,
                    size=item.size,
                    color=item.color,
                    weight=item.weight,
                    ha=item.align,
                    va="center_baseline",
                    parse_math=False,
                )


def _draw_line(axes: Axes, line: _Line) -> None:
    x, y = zip(*line.points, strict=True)
    axes.plot(x, y, color=quiet(), linewidth=0.9, solid_joinstyle="round", zorder=0.5)
    if line.arrow:
        head = {"arrowstyle": "-|>", "color": quiet(), "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", line.points[-1], line.points[-2], arrowprops={**head, "mutation_scale": letters()})


def draw_sheet(
    make: Callable[[float], Sheet],
    natural: float,
    page_of: Callable[[Sheet], Page],
    look: Look,
) -> tuple[Figure, Page, Sheet]:
    """Draw a sheet on a page of its own: as wide as asked for, in letters so small that it is no higher than asked for.

    Args:
        make: Fills a sheet of a width.
        natural: That width where no size is asked for.
        page_of: Makes the sheet's page.
    """
    while True:
        sheet = make(natural)
        page = page_of(sheet)
        if look.size is not None:
            sheet = make(look.size[0] - page.left - page.right)
            page = page_of(sheet)
        fits = look.size is None or look.size[1] is None or page.stretch >= min(1, _room(page, sheet))
        if fits or letters(_SMALLER) < LEAST_FONT:
            break
        matplotlib.rcParams["font.size"] = letters(_SMALLER)
    figure = page.figure()
    sheet.draw(page.axes(figure))
    return figure, page, sheet


def _room(page: Page, sheet: Sheet) -> float:
    """Return how many times as wide as a sheet its page is, without what stands beside it."""
    return (page.full_width - page.left - page.right) / sheet.width


def line_height(size: float = 1.0) -> float:
    """Return the inches from one line of text to the next."""
    return 1.5 * letters(size) * POINT


def widest(texts: Sequence[str], size: float = 1.0, weight: str = "normal") -> float:
    """Return the width in inches of the longest of some texts."""
    from attncli.render.picture.page_layout import text_width

    return max((text_width(picture_label(text), letters(size), weight) for text in texts if text), default=0)
