"""The page of a picture: its size in inches, its texts, its scale, and the colours all pictures share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from attncli.render import Options
from attncli.render.picture.fonts import has_replaced, picture_label
from attncli.render.scales import Scale
from attncli.view import MatrixGrid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

INK = "#222222"
QUIET = "#666666"
FORBIDDEN = "#ececec"
HATCH = "#c9c9c9"
ALLOWED = "#4a90d9"

SMALL = 8.0
TITLE = 11.0
_PAD = 0.14
POINT = 1 / 72
"""Inches in a point."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page with one rectangle for the drawing, all in inches, and texts above and below it."""

    left: float
    width: float
    right: float
    below: float
    height: float
    title: list[str]
    about: str
    notes: list[str]

    @property
    def _full_width(self) -> float:
        texts = [text_width(line, TITLE, "bold") for line in self.title] + [text_width(self.about, SMALL)]
        drawing = self.left + self.width + self.right
        return max(drawing, 2 * _PAD + max(texts), 4.2)

    @property
    def _note_lines(self) -> list[str]:
        room = self._full_width - 2 * _PAD
        return [line for note in self.notes for line in break_lines(picture_label(note), room, SMALL)]

    @property
    def _foot(self) -> float:
        return self.below + 0.16 * len(self._note_lines) + _PAD

    @property
    def _head(self) -> float:
        return _PAD + 0.24 * len(self.title) + (0.2 if self.about else 0) + 0.04

    @property
    def _full_height(self) -> float:
        return self._foot + self.height + self._head

    def figure(self) -> Figure:
        """Make an empty figure of the right size with its texts."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(self._full_width, self._full_height), facecolor="white")
        FigureCanvasAgg(figure)
        top = self._full_height - _PAD
        for line in self.title:
            self._write(figure, top, line, TITLE, INK, "bold")
            top -= 0.24
        if self.about:
            self._write(figure, top, picture_label(self.about), SMALL, QUIET, "normal")
        for number, line in enumerate(reversed(self._note_lines)):
            self._write(figure, _PAD + 0.16 * number + SMALL * POINT, line, SMALL, QUIET, "normal")
        return figure

    def _write(self, figure: Figure, top: float, text: str, size: float, color: str, weight: str) -> None:
        x, y = _PAD / self._full_width, top / self._full_height
        figure.text(x, y, text, size=size, color=color, weight=weight, va="top", parse_math=False)

    def axes(
        self, figure: Figure, left: float = 0, top: float = 0, width: float = 0, height: float = 0
    ) -> Axes:
        """Add axes at a place of the drawing, measured from its upper left corner; all of it by default."""
        width, height = width or self.width, height or self.height
        lower = self._foot + self.height - top - height
        return figure.add_axes(
            (
                (self.left + left) / self._full_width,
                lower / self._full_height,
                width / self._full_width,
                height / self._full_height,
            )
        )

    def mask_key(self, figure: Figure) -> None:
        """Add the meaning of a mask's two fields at the right of the drawing."""
        _mask_key(self, figure)

    def color_bar(self, figure: Figure, options: Options, scale: Scale) -> None:
        """Add the scale at the right of the drawing."""
        from matplotlib.cm import ScalarMappable

        height = min(self.height, 2.4)
        axes = self.axes(figure, self.width + 0.2, 0, 0.13, height)
        bar = figure.colorbar(ScalarMappable(norm(scale), colormap(options, scale)), cax=axes)
        bar.outline.set_visible(False)
        bar.set_ticks(list(scale.ticks), labels=scale.tick_texts())
        axes.minorticks_off()
        axes.tick_params(labelsize=SMALL, length=2, colors=QUIET)
        size = SMALL - 1
        lines = [f"{scale.name} ({scale.form})"]
        if text_width(lines[0], size) > height:
            lines = [scale.name, scale.form]
        longest = max(text_width(line, size) for line in lines)
        axes.set_ylabel(
            "\n".join(lines),
            size=size * min(1.0, height / longest),
            color=QUIET,
            parse_math=False,
        )


def _mask_key(page: Page, figure: Figure) -> None:
    for number, (color, meaning) in enumerate(((ALLOWED, "may attend"), (FORBIDDEN, "may not"))):
        axes = page.axes(figure, page.width + 0.15, 0.2 * number, 0.13, 0.13)
        bare(axes)
        axes.set_facecolor(color)
        if color == FORBIDDEN:
            hatch(axes)
        axes.text(
            1.5,
            0.5,
            meaning,
            size=SMALL - 1,
            color=QUIET,
            va="center",
            transform=axes.transAxes,
            parse_math=False,
        )


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
    if scale.signed:
        return ListedColormap(
            [[part / 255 for part in colors.diverging_color(step / 256)] for step in range(257)]
        )
    return matplotlib.colormaps["gray" if options.colormap == "grey" else options.colormap]


def hatch(axes: Axes) -> None:
    """Cover the ground of axes with the lines that mean *may not attend*."""
    axes.patch.set(hatch="/////", edgecolor=HATCH, linewidth=0)


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


@cache
def _ruler() -> RendererAgg:
    """Return a renderer that only measures, in points."""
    from matplotlib.backends.backend_agg import RendererAgg

    return RendererAgg(1, 1, 72)


def break_lines(text: str, room: float, size: float) -> list[str]:
    """Break a text into lines that fit a width in inches, at spaces."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(joined, size) > room:
            lines.append(word)
        else:
            lines[-1] = joined
    return lines


def note_texts(grid: MatrixGrid) -> list[str]:
    """Return the lines below a picture: the view's notes, and one on characters that no font could draw."""
    texts = [grid.header.title, *(token.label for token in (*grid.query_tokens, *grid.key_tokens))]
    replaced = any(has_replaced(text) for text in texts)
    return [
        *grid.header.notes,
        *(["U+… stands for a character that no installed font has"] if replaced else []),
    ]
