"""The page of a picture: its size in inches, its texts, its scale, and the colours all pictures share.

Sizes of letters follow Matplotlib's ``font.size`` and inks its ``text.color`` and ``axes.labelcolor``, which
`figure.settings` sets, so that one look holds for a whole picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from attncli.render import Options
from attncli.render.look import LEAST_FONT, PLAIN, Look
from attncli.render.picture.fonts import picture_label
from attncli.render.picture.notes import facts_only
from attncli.render.scales import Scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

T = TypeVar("T")

ALLOWED = "#4a90d9"
TITLE = 1.375
"""How much larger a title is than ordinary text."""
POINT = 1 / 72
"""Inches in a point."""

_PAD = 0.14
_NARROWEST = 4.2
_COMFORTABLE = 8.5
"""Inches: the letters of a wider page grow with it, since it will be made smaller to be looked at."""
_LARGEST_LETTERS = 1.5
_LARGEST_STRETCH = 6.0


def letters(factor: float = 1.0) -> float:
    """Return the size of ordinary text in points, or so many times that."""
    import matplotlib

    return factor * float(matplotlib.rcParams["font.size"])


def least_letters() -> float:
    """Return the size in points below which a label is left out rather than written."""
    return max(LEAST_FONT, letters(0.75))


def ink() -> str:
    """Return the colour of labels."""
    import matplotlib

    return str(matplotlib.rcParams["text.color"])


def quiet() -> str:
    """Return the colour of what explains."""
    import matplotlib

    return str(matplotlib.rcParams["axes.labelcolor"])


@dataclass(frozen=True, slots=True)
class Page:
    """A page with one rectangle for the drawing, all in inches, and texts above and below it."""

    left: float
    width: float
    right: float
    below: float
    height: float
    title: str
    about: str
    notes: list[str]
    look: Look = PLAIN

    @property
    def full_width(self) -> float:
        """Its width with all that stands beside the drawing."""
        if self.look.size is not None:
            return self.look.size[0]
        return max(self.left + self.width + self.right, _NARROWEST)

    @property
    def _full_height(self) -> float:
        if self.look.size is not None and self.look.size[1] is not None:
            return self.look.size[1]
        return self._foot + self.height + self._head

    def _lines(self, texts: Iterable[str], size: float, weight: str = "normal") -> list[str]:
        room = self.full_width - 2 * _PAD
        shown = [picture_label(text) for text in texts if text]
        return [line for text in shown for line in break_lines(text, room, size, weight)]

    @property
    def _title_lines(self) -> list[str]:
        said = self.title if self.look.title is None else self.look.title
        return self._lines([said], letters(TITLE), "bold")

    @property
    def _about_lines(self) -> list[str]:
        return self._lines([self.about], letters())

    @property
    def _note_lines(self) -> list[str]:
        return self._lines(facts_only(self.notes), letters()) if self.look.notes else []

    @property
    def _foot(self) -> float:
        return self.below + 1.44 * letters() * POINT * len(self._note_lines) + _PAD

    @property
    def _head(self) -> float:
        lines = 2.16 * len(self._title_lines) + 1.5 * len(self._about_lines)
        return _PAD + lines * letters() * POINT + 0.08

    @property
    def spare_height(self) -> float:
        """How many inches of a page of a given height the drawing leaves empty."""
        return max(0.0, self._full_height - self._foot - self.height - self._head)

    @property
    def stretch(self) -> float:
        """How many times as large the drawing can be on a page of a given size."""
        assert self.look.size is not None
        width, height = self.look.size
        factors = [(width - self.left - self.right) / self.width]
        if height is not None:
            factors.append((height - self._head - self._foot) / self.height)
        return max(0.1, min(factors))

    def figure(self) -> Figure:
        """Make an empty figure of the right size with its texts."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(self.full_width, self._full_height))
        FigureCanvasAgg(figure)
        top = self._full_height - _PAD
        for line in self._title_lines:
            self._write(figure, top, line, letters(TITLE), ink(), "bold")
            top -= 2.16 * letters() * POINT
        for line in self._about_lines:
            self._write(figure, top, line, letters(), quiet(), "normal")
            top -= 1.5 * letters() * POINT
        for number, line in enumerate(reversed(self._note_lines)):
            above = _PAD + (1.44 * number + 1) * letters() * POINT
            self._write(figure, above, line, letters(), quiet(), "normal")
        return figure

    def _write(self, figure: Figure, top: float, text: str, size: float, color: str, weight: str) -> None:
        x, y = _PAD / self.full_width, top / self._full_height
        figure.text(x, y, text, size=size, color=color, weight=weight, va="top", parse_math=False)

    def axes(
        self, figure: Figure, left: float = 0, top: float = 0, width: float = 0, height: float = 0
    ) -> Axes:
        """Add axes at a place of the drawing, measured from its upper left corner; all of it by default."""
        width, height = width or self.width, height or self.height
        lower = self._foot + self.spare_height / 2 + self.height - top - height
        aside = max(self.full_width - self.left - self.width - self.right, 0) / 2 if self.look.size else 0
        box = ((self.left + aside + left), lower, width, height)
        sides = (self.full_width, self._full_height) * 2
        return figure.add_axes(tuple(part / side for part, side in zip(box, sides, strict=True)))  # type: ignore[arg-type]

    def mask_key(self, figure: Figure) -> None:
        """Add the meaning of a mask's two fields at the right of the drawing."""
        for number, meaning in enumerate(("may attend", "may not")):
            side = letters(1.2) * POINT
            axes = self.axes(figure, self.width + 0.15, 1.8 * letters() * POINT * number, side, side)
            bare(axes)
            if number:
                hatch(axes)
            else:
                axes.set_facecolor(ALLOWED)
            place = {"va": "center", "transform": axes.transAxes, "parse_math": False}
            axes.text(1.5, 0.5, meaning, size=letters(0.9), color=quiet(), **place)  # type: ignore[arg-type]

    def color_bar(
        self, figure: Figure, options: Options, scale: Scale, top: float = 0, height: float = 0
    ) -> None:
        """Add the scale at the right of the drawing, from `top` inches below its upper edge."""
        from matplotlib.cm import ScalarMappable

        height = height or min(self.height, max(2.4, 0.6 * self.height))
        axes = self.axes(figure, self.width + 0.2, top, 0.13, height)
        bar = figure.colorbar(ScalarMappable(norm(scale), colormap(options, scale)), cax=axes)
        bar.outline.set_visible(False)
        few = len(scale.ticks) * letters(1.2) * POINT > height
        kept = slice(None, None, len(scale.ticks) - 1 if few else 1)
        bar.set_ticks(list(scale.ticks)[kept], labels=scale.tick_texts()[kept])
        axes.minorticks_off()
        axes.tick_params(labelsize=letters(), length=2, colors=quiet())
        name = _scale_name(scale, height)
        longest = max(flowing_width(line, letters(0.9)) for line in name)
        size = letters(0.9) * min(1.0, height / longest)
        axes.set_ylabel("\n".join(name), size=size, color=quiet(), parse_math=False)


def _scale_name(scale: Scale, height: float) -> list[str]:
    """Return a scale's name in one line, or in two where it would be longer than the scale."""
    line = f"{scale.name} ({scale.form})"
    if text_width(line, letters(0.9)) <= height:
        return [line]
    return [part for text in (scale.name, scale.form) for part in break_lines(text, height, LEAST_FONT)]


def scale_room(scale: Scale | None) -> float:
    """Return the inches at the right of the drawing that a scale needs, or a mask's key."""
    if scale is None:
        return 0.3 + letters(1.8) * POINT + text_width("may attend", letters(0.9))
    ticks = max(text_width(text, letters()) for text in scale.tick_texts())
    return 0.5 + ticks + letters(2.4) * POINT


def fitted(look: Look, laid: Callable[[float], tuple[Page, T]]) -> tuple[Page, T]:
    """Lay a page out so that it has the size asked for; where none is, make the letters of a wide one larger.

    Args:
        laid: Lays it out with the drawing so many times as large as it is by itself.
    """
    import matplotlib

    if look.size is None:
        page, rest = laid(1.0)
        if page.full_width <= _COMFORTABLE:
            return page, rest
        matplotlib.rcParams["font.size"] *= min(_LARGEST_LETTERS, page.full_width / _COMFORTABLE)
        return laid(1.0)
    # What stands beside the drawing depends on its size, and not evenly: labels come and go.
    sizes = [_LARGEST_STRETCH * 0.9**step for step in range(60)]
    fitting = next((size for size in sizes if laid(size)[0].stretch >= 1), sizes[-1])
    for finer in (1.08, 1.04, 1.02):
        if laid(fitting * finer)[0].stretch >= 1:
            fitting *= finer
    return laid(fitting)


def best_columns(
    count: int, width: float, height: float, look: Look, target: float = 4 / 3, least: float = 0.0
) -> int:
    """Return how many of some equal panels should stand side by side for a page of a good shape, without many gaps.

    Args:
        target: How many times as wide as high the page should be, where its size is not given.
        least: Inches across that a panel needs at least.

    >>> [best_columns(count, 1, 1, Look()) for count in (3, 4, 8, 9, 12)]
    [3, 2, 4, 3, 4]
    """
    if look.columns is not None:
        return min(look.columns, count)
    if look.size is not None and look.size[1] is not None:
        target = look.size[0] / look.size[1]

    def badness(columns: int) -> float:
        rows = -(-count // columns)
        shape = columns * width / (rows * height) / target
        return abs(math.log(shape)) + 3 * (1 - count / (rows * columns))

    most = count if look.size is None or not least else min(count, max(1, int(look.size[0] / least)))
    return min(range(1, most + 1), key=badness)


def bare(axes: Axes) -> None:
    """Take away the ticks and the frame of axes."""
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)


def norm(scale: Scale) -> Any:
    """Return a scale as Matplotlib has them: from numbers to places between 0 and 1."""
    from matplotlib.colors import FuncNorm

    return FuncNorm((scale.places, scale.values_at), vmin=scale.low, vmax=scale.high, clip=True)


def colormap(options: Options, scale: Scale) -> Colormap:
    """Return the colour map asked for, or the one that diverges; what is masked out stays clear."""
    import matplotlib
    from matplotlib.colors import ListedColormap

    from attncli.render.terminal import colors

    colors.scale(options.colormap, "none")  # the one check of the name
    if not scale.signed and options.colormap != "light":
        return matplotlib.colormaps["gray" if options.colormap == "grey" else options.colormap]
    steps = [step / 256 for step in range(257)]
    drawn = [
        colors.diverging_color(step) if scale.signed else colors.color_at("light", step) for step in steps
    ]
    return ListedColormap([[part / 255 for part in color] for color in drawn])


def hatch(axes: Axes) -> None:
    """Cover the ground of axes with the lines that mean *may not attend*."""
    import matplotlib

    axes.patch.set(hatch="/////", edgecolor=matplotlib.rcParams["hatch.color"], linewidth=0)


@lru_cache(maxsize=4096)
def text_width(text: str, size: float, weight: str = "normal") -> float:
    """Measure a text in inches, in the fonts of the current settings."""
    from matplotlib.font_manager import FontProperties

    if not text:
        return 0.0
    width, _, _ = _ruler().get_text_width_height_descent(
        text, FontProperties(size=size, weight=weight), False
    )
    return float(width) * POINT


def flowing_width(text: str, size: float) -> float:
    """Measure a text in inches where the next one follows at once: without rounding letters to whole dots."""
    return text_width(text, 20 * size) / 20


@cache
def _ruler() -> RendererAgg:
    """Return a renderer that only measures, in points."""
    from matplotlib.backends.backend_agg import RendererAgg

    return RendererAgg(1, 1, 72)


def break_lines(text: str, room: float, size: float, weight: str = "normal") -> list[str]:
    """Break a text into lines that fit a width in inches: at spaces, and words that are longer anywhere."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}".strip()
        if not lines[-1] or text_width(joined, size, weight) <= room:
            lines[-1] = joined
        else:
            lines.append(word)
        while len(lines[-1]) > 1 and text_width(lines[-1], size, weight) > room:
            long = lines.pop()
            cut = next(
                n for n in range(len(long) - 1, 0, -1) if n == 1 or text_width(long[:n], size, weight) <= room
            )
            lines += [long[:cut], long[cut:]]
    return lines
