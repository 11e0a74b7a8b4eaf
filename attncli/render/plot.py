"""One matrix as a picture, and the pieces that every picture is made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from attncli.render import Options
from attncli.render.colors import is_light
from attncli.render.figure import note_texts
from attncli.render.fonts import picture_label
from attncli.render.grids import fact_texts, site_name, token_labels
from attncli.render.pooling import even_cuts, pool_max
from attncli.view import Matrix, MatrixGrid

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

MOST_ANNOTATED = 24
_MOST_LABELS = 48
_LONGEST_LABEL = 24
_MOST_PIXELS = 2000

INK = "#222222"
QUIET = "#666666"
FORBIDDEN = "#ececec"
HATCH = "#c9c9c9"
ALLOWED = "#4a90d9"

SMALL = 8.0
TITLE = 11.0
_PAD = 0.14
_POINT = 1 / 72


@dataclass(frozen=True, slots=True)
class Axis:
    """Labels along one axis: where they stand, what they say, their size in points."""

    places: tuple[int, ...]
    labels: tuple[str, ...]
    size: float

    def longest(self) -> float:
        """Give the length of the longest label in inches."""
        return max((text_width(label, self.size) for label in self.labels), default=0.0)


def draw_one(grid: MatrixGrid, options: Options) -> Figure:
    """Draw one matrix as large as its labels need, with its numbers where there are few."""
    matrix = grid.matrices[0]
    rows, columns = matrix.values.shape
    annotated = max(rows, columns) <= MOST_ANNOTATED
    cell = 0.36 if annotated else max(0.03, min(0.2, 7.0 / max(rows, columns, 1)))
    width, height = max(columns * cell, 1.2), max(rows * cell, 0.6)
    y_axis = token_axis(
        token_labels(grid.query_tokens, options), [t.position for t in grid.query_tokens], cell
    )
    x_axis = token_axis(token_labels(grid.key_tokens, options), [t.position for t in grid.key_tokens], cell)
    left = y_axis.longest() + 0.48
    below = x_axis.longest() + 0.4
    title = [picture_label(grid.header.title)] if grid.header.title else []
    about = " · ".join(
        [*filter(None, [site_name(matrix)]), *(fact_texts(grid.facts[0]) if grid.facts else [])]
    )
    page = Page(left, width, 1.0, below, height, title, about, note_texts(grid))
    figure = page.figure()
    axes = page.axes(figure)
    paint_matrix(axes, matrix, grid.unit, options, hatched=True)
    if annotated and grid.unit == "weight":
        _write_numbers(axes, matrix, options)
    _write_ticks(axes, x_axis, y_axis)
    _name_axes(axes)
    page.color_bar(figure, options, grid.unit)
    return figure


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
        texts = [text_width(line, TITLE) for line in self.title] + [text_width(self.about, SMALL)]
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
            self._write(figure, _PAD + 0.16 * number + SMALL * _POINT, line, SMALL, QUIET, "normal")
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

    def color_bar(self, figure: Figure, options: Options, unit: str) -> None:
        """Add the scale at the right of the drawing; a mask has a key of two fields instead."""
        if unit == "mask":
            _mask_key(self, figure)
            return
        from matplotlib.cm import ScalarMappable

        height = min(self.height, 2.4)
        axes = self.axes(figure, self.width + 0.2, 0, 0.13, height)
        bar = figure.colorbar(ScalarMappable(norm(), colormap(options)), cax=axes)
        bar.outline.set_visible(False)
        bar.set_ticks([0, 0.05, 0.25, 0.5, 1], labels=["0", ".05", ".25", ".5", "1"])
        axes.minorticks_off()
        axes.tick_params(labelsize=SMALL, length=2, colors=QUIET)
        axes.set_ylabel("weight (square-root scale)", size=SMALL - 1, color=QUIET, parse_math=False)


def _mask_key(page: Page, figure: Figure) -> None:
    for number, (color, meaning) in enumerate(((ALLOWED, "may attend"), (FORBIDDEN, "may not"))):
        axes = page.axes(figure, page.width + 0.15, 0.2 * number, 0.13, 0.13)
        _bare(axes)
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


def _bare(axes: Axes) -> None:
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)


def norm() -> Any:
    """Give the scale of all pictures: 0 to 1, square root, so that small weights are seen."""
    from matplotlib.colors import PowerNorm

    return PowerNorm(0.5, vmin=0, vmax=1, clip=True)


def colormap(options: Options) -> Colormap:
    """Give the colour map asked for; what is masked out stays clear."""
    import matplotlib

    from attncli.render.colors import scale

    scale(options.colormap, "none")  # the one check of the name
    return matplotlib.colormaps["gray" if options.colormap == "grey" else options.colormap]


def hatch(axes: Axes) -> None:
    """Cover the ground of axes with the lines that mean *may not attend*."""
    axes.patch.set(hatch="/////", edgecolor=HATCH, linewidth=0)


def paint_matrix(axes: Axes, matrix: Matrix, unit: str, options: Options, *, hatched: bool) -> None:
    """Paint a matrix's cells; what may not attend is grey and hatched, an undefined weight a cross."""
    import numpy as np
    from matplotlib.colors import ListedColormap

    _bare(axes)
    values, forbidden = _pooled(matrix, unit)
    axes.set_facecolor(FORBIDDEN)
    if hatched and forbidden.any():
        hatch(axes)
    undefined = np.isnan(values) & ~forbidden
    shown = np.ma.masked_array(values, mask=forbidden | undefined)
    rows, columns = matrix.values.shape
    extent = (-0.5, columns - 0.5, rows - 0.5, -0.5)
    colors = ListedColormap([ALLOWED]) if unit == "mask" else colormap(options)
    axes.imshow(shown, cmap=colors, norm=norm(), aspect="auto", interpolation="nearest", extent=extent)
    if undefined.any():
        down, across = np.nonzero(undefined)
        scale = columns / values.shape[1], rows / values.shape[0]
        x, y = (across + 0.5) * scale[0] - 0.5, (down + 0.5) * scale[1] - 0.5
        axes.scatter(x, y, marker="x", s=9, linewidths=0.7, color="#c0392b")


def _pooled(matrix: Matrix, unit: str) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Shrink what has more cells than a picture has dots; a cell is forbidden where all it covers is."""
    import numpy as np

    from attncli.render.pooling import cell_values

    values = cell_values(matrix, unit)
    cuts = [even_cuts(length, _MOST_PIXELS) for length in values.shape]
    values = pool_max(values, *cuts)
    return values, np.asarray(values < 0)


def _write_numbers(axes: Axes, matrix: Matrix, options: Options) -> None:
    from attncli.render.cells import short_number

    scale, colors = norm(), colormap(options)
    allowed = matrix.allowed
    for row, values in enumerate(matrix.values.tolist()):
        largest = max((value for value in values if value == value), default=None)
        for column, value in enumerate(values):
            if value != value or (allowed is not None and not allowed[row, column]):
                continue
            red, green, blue, _ = colors(scale(value), bytes=True)
            color = "black" if is_light((int(red), int(green), int(blue))) else "white"
            weight = "bold" if value == largest else "normal"
            text = short_number(value).strip()
            axes.text(
                column,
                row,
                text,
                size=7,
                color=color,
                weight=weight,
                ha="center",
                va="center",
                parse_math=False,
            )


def token_axis(labels: Sequence[str], positions: Sequence[int], cell: float, smallest: float = 6.0) -> Axis:
    """Label an axis: each token where there is room, otherwise some, with their positions.

    Args:
        cell: Inches from one token to the next.
        smallest: Points that a label must have to be read.
    """
    size = min(SMALL + 1, cell / _POINT * 0.82)
    if size >= smallest and len(labels) <= _MOST_LABELS:
        return Axis(tuple(range(len(labels))), tuple(picture_label(_short(label)) for label in labels), size)
    step = round_step(smallest * 1.5 * _POINT / cell, len(labels))
    places = tuple(range(0, len(labels), step))
    return Axis(
        places,
        tuple(picture_label(_placed(positions[place], _short(labels[place]))) for place in places),
        smallest + 0.5,
    )


def _placed(position: int, label: str) -> str:
    return label if label == str(position) else f"{position} {label}"


def round_step(least: float, length: int) -> int:
    """Choose a step that people count in, at least `least`, and not more than 40 steps in a length.

    >>> round_step(2.4, 30), round_step(0.1, 1000)
    (5, 25)
    """
    least = max(least, length / 40)
    sizes = (digit * 10**power for power in range(9) for digit in (1, 2, 2.5, 5))
    return next(int(size) for size in sizes if size >= least and size == int(size))


def _short(label: str) -> str:
    from attncli.labels import fit

    return fit(label, _LONGEST_LABEL)


def _write_ticks(axes: Axes, x_axis: Axis, y_axis: Axis) -> None:
    set_ticks(axes, x_axis, "x")
    set_ticks(axes, y_axis, "y")


def set_ticks(axes: Axes, labels: Axis, which: str) -> None:
    """Write an axis's labels, those along x upright."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks(
        list(labels.places),
        labels=list(labels.labels),
        size=labels.size,
        color=INK,
        parse_math=False,
        rotation=90 if which == "x" else 0,
    )
    axis.set_tick_params(length=0, pad=3)


def _name_axes(axes: Axes) -> None:
    axes.set_xlabel("key", size=SMALL + 1, color=QUIET, parse_math=False)
    axes.set_ylabel("query", size=SMALL + 1, color=QUIET, parse_math=False)


@lru_cache(maxsize=4096)
def text_width(text: str, size: float) -> float:
    """Measure a text in inches, in the fonts of the current settings."""
    from matplotlib.font_manager import FontProperties

    if not text:
        return 0.0
    width, _, _ = _ruler().get_text_width_height_descent(text, FontProperties(size=size), False)
    return float(width) * _POINT


@cache
def _ruler() -> RendererAgg:
    """Give a renderer that only measures, in points."""
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
