"""One matrix as a picture, and how any matrix is painted and labelled."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attncli.axis_cells import even_cuts
from attncli.render import Options
from attncli.render.grid_text import fact_texts, largest_of_rows, place_names
from attncli.render.picture.axes import MOST_LABELS, Axis, set_ticks, token_axis
from attncli.render.picture.fonts import picture_label
from attncli.render.picture.page_layout import (
    ALLOWED,
    FORBIDDEN,
    QUIET,
    SMALL,
    Page,
    bare,
    colormap,
    hatch,
    norm,
    note_texts,
    text_width,
)
from attncli.render.pooling import Field, field_of, pool
from attncli.render.scales import Scale, scale_of
from attncli.render.terminal.colors import is_light
from attncli.view import Matrix, MatrixGrid, Picture

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

MOST_ANNOTATED = 24
_LABELLED = 0.13
"""Inches that a row needs for its label."""
_WIDE = 4
"""So many times as many columns as rows are many."""
_MOST_PIXELS = 2000
_NUMBER_SIZE = 7.0
_VEIL = 0.35, 0.85
"""How much of a picture its patches' colours hide, where there is no weight and where there is most."""
_DARKEST = -80
"""What would be black: no picture's pixel, which would be lost under the colour of no weight."""
_GREY = (0.299, 0.587, 0.114)
"""How bright red, green and blue are (ITU-R BT.601)."""


def draw_one(grid: MatrixGrid, options: Options) -> Figure:
    """Draw one matrix as large as its labels need, with its numbers where there are few."""
    matrix = grid.matrices[0]
    rows, columns = matrix.values.shape
    few = max(rows, columns) <= MOST_ANNOTATED
    annotated = few and grid.picture is None
    cell = 0.36 if few else max(0.03, min(0.2, 7.0 / max(rows, columns, 1)))
    # A few rows over many columns, as a sound's, are high enough for their labels.
    down = max(cell, _LABELLED) if columns > _WIDE * rows and rows <= MOST_LABELS else cell
    width, height = max(columns * cell, 1.2), max(rows * down, 0.6)
    y_axis = token_axis(grid.query_tokens, options, down)
    x_axis = token_axis(grid.key_tokens, options, cell)
    left = y_axis.longest() + 0.48
    below = x_axis.depth() + 0.4
    title = [picture_label(grid.header.title)] if grid.header.title else []
    facts = fact_texts(grid.facts[0]) if grid.facts else []
    about = " · ".join([*_untold_names(grid), *([grid.about] if grid.picture else []), *facts])
    scale = scale_of(grid)
    page = Page(left, width, scale_width(grid.unit, scale), below, height, title, about, note_texts(grid))
    figure = page.figure()
    axes = page.axes(figure)
    paint_matrix(axes, matrix, grid.unit, scale, options)
    if grid.picture is not None:
        lay_under(axes, grid.picture, scale)
    if annotated and grid.unit != "mask":
        write_numbers(axes, matrix, scale, options, cell)
    _write_ticks(axes, x_axis, y_axis)
    if grid.picture is None:
        _name_axes(axes)
    add_scale(page, figure, grid.unit, scale, options)
    return figure


def add_scale(page: Page, figure: Figure, unit: str, scale: Scale, options: Options) -> None:
    """Explain the colours at the right of the drawing: a scale, or a mask's two fields."""
    if unit == "mask":
        page.mask_key(figure)
    else:
        page.color_bar(figure, options, scale)


def scale_width(unit: str, scale: Scale) -> float:
    """Return the inches at the right of the drawing that `add_scale` needs."""
    ticks = [] if unit == "mask" else scale.tick_texts()
    return max(1.0, 0.75 + max((text_width(text, SMALL) for text in ticks), default=0))


def _untold_names(grid: MatrixGrid) -> list[str]:
    """Name the one matrix, unless the title does: of ``encoder L4H7`` it says *encoder*, *layer 4* and *head 7*."""
    matrix, title = grid.matrices[0], grid.header.title
    parts = (
        [matrix.label]
        if matrix.label
        else [
            matrix.kind,
            None if matrix.layer is None else f"layer {matrix.layer}",
            None if matrix.head is None else f"head {matrix.head}",
        ]
    )
    told = all(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", title) for part in parts if part)
    return [] if told else [name for name in place_names(grid.matrices) if name]


def paint_matrix(axes: Axes, matrix: Matrix, unit: str, scale: Scale, options: Options) -> None:
    """Paint a matrix's cells; what may not attend is grey and hatched, an undefined weight a cross."""
    import numpy as np
    from matplotlib.colors import ListedColormap

    bare(axes)
    field = _pooled(matrix, unit, _dots(axes, options))
    values = field.values
    forbidden = np.zeros(values.shape, np.bool_) if field.allowed is None else ~field.allowed
    axes.set_facecolor(FORBIDDEN)
    if forbidden.any():
        hatch(axes)
    undefined = ~np.isfinite(values) & ~forbidden
    shown = np.ma.masked_array(values, mask=forbidden | undefined)
    rows, columns = matrix.values.shape
    extent = (-0.5, columns - 0.5, rows - 0.5, -0.5)
    colors = ListedColormap([ALLOWED]) if unit == "mask" else colormap(options, scale)
    axes.imshow(shown, cmap=colors, norm=norm(scale), aspect="auto", interpolation="nearest", extent=extent)
    if undefined.any():
        down, across = np.nonzero(undefined)
        wide, high = columns / values.shape[1], rows / values.shape[0]
        x, y = (across + 0.5) * wide - 0.5, (down + 0.5) * high - 0.5
        axes.scatter(x, y, marker="x", s=9, linewidths=0.7, color="#c0392b")


def lay_under(axes: Axes, picture: Picture, scale: Scale) -> None:
    """Let a picture be seen through what was painted over it, and frame the patch that attends, if one does."""
    import numpy as np
    from matplotlib.patches import Rectangle

    thinnest, thickest = _VEIL
    for image in axes.images:
        weights: NDArray[np.float32] = np.ma.filled(np.ma.asarray(image.get_array()), 0)
        image.set_alpha(thinnest + (thickest - thinnest) * scale.places(weights))
    grey = picture.pixels @ _GREY
    extent = (-0.5, picture.columns - 0.5, picture.rows - 0.5, -0.5)
    axes.imshow(grey, cmap="gray", vmin=_DARKEST, vmax=255, aspect="auto", extent=extent, zorder=-1)
    if picture.query is not None and picture.query >= 0:
        row, column = divmod(picture.query, picture.columns)
        axes.add_patch(
            Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="white", linewidth=1.5)
        )


def _dots(axes: Axes, options: Options) -> tuple[int, int]:
    """Return how many dots axes have down and across: a cell that gets none would be left out of the picture."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    inches, box = figure.get_size_inches(), axes.get_position()
    across, down = box.width * inches[0] * options.dpi, box.height * inches[1] * options.dpi
    return min(_MOST_PIXELS, max(1, int(down))), min(_MOST_PIXELS, max(1, int(across)))


def _pooled(matrix: Matrix, unit: str, dots: tuple[int, int]) -> Field:
    """Shrink what has more cells than a picture has dots."""
    cuts = [even_cuts(length, most) for length, most in zip(matrix.values.shape, dots, strict=True)]
    return pool(field_of(matrix, unit), *cuts)


def write_numbers(
    axes: Axes, matrix: Matrix, scale: Scale, options: Options, cell: float, *, bold: bool = True
) -> None:
    """Write each number into its cell, those largest in their row bold if asked."""
    import numpy as np

    counted = np.isfinite(matrix.values)
    if matrix.allowed is not None:
        counted &= matrix.allowed
    texts = {
        (row, column): scale.text(float(matrix.values[row, column]))
        for row, column in np.argwhere(counted).tolist()
    }
    widest = max((text_width(text, _NUMBER_SIZE) for text in texts.values()), default=0)
    size = _NUMBER_SIZE * min(1, 0.8 * cell / widest) if widest else _NUMBER_SIZE
    largest = largest_of_rows(matrix) if bold else set()
    shades = colormap(options, scale)(norm(scale)(matrix.values), bytes=True)
    for (row, column), text in texts.items():
        red, green, blue, _ = shades[row, column].tolist()
        axes.text(
            column,
            row,
            text,
            size=size,
            color="black" if is_light((red, green, blue)) else "white",
            weight="bold" if (row, column) in largest else "normal",
            ha="center",
            va="center",
            parse_math=False,
        )


def _write_ticks(axes: Axes, x_axis: Axis, y_axis: Axis) -> None:
    set_ticks(axes, x_axis, "x")
    set_ticks(axes, y_axis, "y")


def _name_axes(axes: Axes) -> None:
    axes.set_xlabel("key", size=SMALL + 1, color=QUIET, parse_math=False)
    axes.set_ylabel("query", size=SMALL + 1, color=QUIET, parse_math=False)
