"""One matrix as a picture, and how any matrix is painted and labelled."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attncli.axis_cells import even_cuts
from attncli.render import Options
from attncli.render.grid_text import fact_texts, is_time, largest_of_rows, place_names
from attncli.render.look import LEAST_FONT
from attncli.render.picture.axes import MOST_LABELS, Axis, set_ticks, token_axis
from attncli.render.picture.notes import note_texts
from attncli.render.picture.page_layout import (
    ALLOWED,
    POINT,
    Page,
    bare,
    colormap,
    fitted,
    hatch,
    letters,
    norm,
    quiet,
    scale_room,
    text_width,
)
from attncli.render.pooling import Field, field_of, pool
from attncli.render.scales import Scale, scales_of
from attncli.render.terminal.colors import is_light
from attncli.view import Matrix, MatrixGrid, Picture

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

MOST_ANNOTATED = 24
MASK_TEXT = "a filled cell: the query of its row may attend to the key of its column"

_LABELLED = 1.2
"""Letters high that a row needs for its label."""
_WIDE = 4
"""So many times as many columns as rows are many."""
_MOST_PIXELS = 2000
_MOST_LINES = 32
"""Cells of a mask beyond which no lines stand between them."""
_VEIL = 0.9
"""How much of a picture the colour of the largest weight hides; that of no weight hides nothing."""


def draw_one(grid: MatrixGrid, options: Options) -> Figure:
    """Draw one matrix as large as its labels need, with its numbers where there are few."""
    matrix = grid.matrices[0]
    rows, columns = matrix.values.shape
    scale = scales_of(grid, options.look)[0]
    natural = _natural_cell(grid)

    def laid(stretch: float) -> tuple[Page, tuple[Axis, Axis, float, float]]:
        cell = natural * stretch
        # A few rows over many columns, as a sound's, are high enough for their labels.
        few_rows = columns > _WIDE * rows and rows <= MOST_LABELS
        down = max(cell, letters(_LABELLED) * POINT) if few_rows else cell
        x_axis, y_axis = (
            token_axis(grid.key_tokens, options, cell),
            token_axis(grid.query_tokens, options, down),
        )
        width = max(columns * cell, 1.2 * min(stretch, 1))
        page = Page(
            left=y_axis.longest() + letters(3.5) * POINT + 0.1,
            # Of a photograph the original stands beside it.
            width=width if grid.picture is None else 2 * width + letters(2) * POINT + y_axis.longest() + 0.1,
            right=scale_room(None if grid.unit == "mask" else scale),
            below=x_axis.depth() + letters(3) * POINT + 0.07,
            height=max(rows * down, 0.6 * min(stretch, 1)),
            title=grid.header.title,
            about=_about(grid),
            notes=note_texts(grid),
            look=options.look,
        )
        return page, (x_axis, y_axis, cell, width)

    page, (x_axis, y_axis, cell, width) = fitted(options.look, laid)
    figure = page.figure()
    axes = page.axes(figure, page.width - width, 0, width)
    paint_matrix(axes, matrix, grid.unit, scale, options)
    if grid.picture is not None:
        lay_under(axes, grid.picture, scale)
        original = page.axes(figure, 0, 0, width)
        bare(original)
        original.imshow(grid.picture.pixels, aspect="auto")
    elif grid.unit != "mask" and max(rows, columns) <= MOST_ANNOTATED and options.look.numbers:
        write_numbers(axes, matrix, scale, options, cell)
    set_ticks(axes, x_axis, "x")
    set_ticks(axes, y_axis, "y")
    if grid.picture is None:
        _name_axes(axes, grid)
    add_scale(page, figure, grid.unit, scale, options)
    return figure


def _natural_cell(grid: MatrixGrid) -> float:
    """Return the inches of a cell where no size is asked for."""
    rows, columns = grid.matrices[0].values.shape
    longest: int = max(rows, columns, 1)
    if grid.picture is not None:
        return 3.0 / longest
    return letters(0.045) if longest <= MOST_ANNOTATED else max(0.03, min(0.2, 7.0 / longest))


def _about(grid: MatrixGrid) -> str:
    """Return the line below the title: which matrix it is, how to read it, its facts."""
    facts = (
        []
        if not grid.facts
        else mask_facts(grid.facts[0])
        if grid.unit == "mask"
        else fact_texts(grid.facts[0])
    )
    how = [grid.about] if grid.picture is not None else [MASK_TEXT] if grid.unit == "mask" else []
    return " · ".join([*_untold_names(grid), *how, *facts])


def mask_facts(facts: Mapping[str, object]) -> list[str]:
    """Tell in plain words how much of a mask is filled.

    >>> mask_facts({"density": 0.385, "keys_per_row": {"min": 1, "median": 4.0, "max": 4}})
    ['38 % of the pairs', '1–4 keys a row']
    """
    density, keys = facts.get("density"), facts.get("keys_per_row")
    said = [f"{100 * density:.2g} % of the pairs"] if isinstance(density, float) else []
    counts = [keys["min"], keys["max"]] if isinstance(keys, Mapping) else keys
    if isinstance(counts, Sequence) and counts:
        low, high = min(counts), max(counts)
        said.append(f"{low if low == high else f'{low:,}–{high:,}'} key{'s' * (high != 1)} a row")
    return said


def add_scale(page: Page, figure: Figure, unit: str, scale: Scale, options: Options) -> None:
    """Explain the colours at the right of the drawing: a scale, or a mask's two fields."""
    if unit == "mask":
        page.mask_key(figure)
    else:
        page.color_bar(figure, options, scale)


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
    if unit == "mask" and max(rows, columns) <= _MOST_LINES:
        for count, line in ((columns, axes.axvline), (rows, axes.axhline)):
            for place in range(1, count):
                line(place - 0.5, color="white", linewidth=0.6)


def lay_under(axes: Axes, picture: Picture, scale: Scale) -> None:
    """Let a picture be seen through what was painted over it, and frame the patch that attends, if one does."""
    import numpy as np
    from matplotlib.patches import Rectangle

    for image in axes.images:
        weights: NDArray[np.float32] = np.ma.filled(np.ma.asarray(image.get_array()), 0)
        image.set_alpha(_VEIL * np.clip(weights / scale.high, 0, 1) ** 0.5)
    extent = (-0.5, picture.columns - 0.5, picture.rows - 0.5, -0.5)
    axes.imshow(picture.pixels, aspect="auto", extent=extent, zorder=-1)
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
    """Write each number into its cell, those largest in their row bold if asked; what rounds to 0 stays blank.

    Where they would be too small to be read, none is written.
    """
    import numpy as np

    counted = np.isfinite(matrix.values)
    if matrix.allowed is not None:
        counted &= matrix.allowed
    texts = {
        (row, column): text
        for row, column in np.argwhere(counted).tolist()
        if (text := scale.text(float(matrix.values[row, column]))).strip("-.0")
    }
    widest = max((text_width(text, letters(0.9), "bold") for text in texts.values()), default=0)
    size = letters(0.9) * min(1, 0.82 * cell / widest) if widest else letters(0.9)
    if size < LEAST_FONT or not options.look.numbers:
        return
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


def _name_axes(axes: Axes, grid: MatrixGrid) -> None:
    name = {"size": letters(1.1), "color": quiet(), "parse_math": False}
    axes.set_xlabel("time (s)" if is_time(grid.key_tokens) else "key", **name)  # type: ignore[arg-type]
    axes.set_ylabel("time (s)" if is_time(grid.query_tokens) else "query", **name)  # type: ignore[arg-type]
