"""What stands in a cell of a terminal heatmap, by what the terminal can show.

Drawing is by *codes*, a small whole number for each cell: the step of the scale, or one of two marks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from attncli.render import Options
from attncli.render.pooling import Field
from attncli.render.scales import WEIGHTS, Scale
from attncli.render.terminal.canvas import Line, Run
from attncli.render.terminal.colors import Paint, diverging, mask_paint, scale

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORBIDDEN_CODE = -1
UNDEFINED_CODE = -2
"""No step of a scale is below 0, whatever the sign of the number that it stands for."""

_SHADES = " ░▒▓█"
_ASCII_SHADES = " .:-=+*#%@"
_SIGNED_SHADES = "≡=- ░▒█"
_ASCII_SIGNED_SHADES = "=- +#"
"""Below 0 strokes, above it blocks, so that one character tells the sign."""


@dataclass(frozen=True)
class Pen:
    """Turns weights into codes and codes into text with colour.

    Args:
        options: The terminal: its colours, its alphabet.
        unit: ``weight``, ``signed`` or ``mask``; a mask is drawn filled or empty, not through the scale.
        scale: From numbers to steps, the same for all matrices of a grid.
    """

    options: Options
    unit: str = "weight"
    scale: Scale = WEIGHTS

    @cached_property
    def paints(self) -> tuple[Paint, ...]:
        """The steps of the scale; empty without colour."""
        if self.unit == "mask":
            paint = mask_paint(self.options.color)
            return (paint,) if paint else ()
        ramp = scale(self.options.colormap, self.options.color)  # also where it only checks the name
        return diverging(self.options.color) if self.scale.signed else ramp

    @cached_property
    def shades(self) -> str:
        """The steps as characters, for use without colour."""
        if self.unit == "mask":
            return "■" if self.options.unicode else "#"
        if self.scale.signed:
            return _SIGNED_SHADES if self.options.unicode else _ASCII_SIGNED_SHADES
        return _SHADES if self.options.unicode else _ASCII_SHADES

    @property
    def halves(self) -> bool:
        """Whether one character can show two cells, one above the other.

        Not where the lowest step is the black that a terminal's ground may be too: a blank would be both.
        """
        return bool(self.paints) and self.options.unicode and not self._ground_like

    @property
    def _ground_like(self) -> bool:
        of_sizes = self.unit in ("weight", "share", "size")
        return of_sizes and self.options.color == "16" and self.options.colormap == "grey"

    @property
    def forbidden(self) -> str:
        """The mark of a pair that may not attend, among cells without numbers; a blank where no step looks like it."""
        if self.paints and not self._ground_like:
            return " "
        if self.options.unicode:
            return "╌"
        return "." if self.unit == "mask" else "_"

    @property
    def undefined(self) -> str:
        """The mark of a weight that is not a number."""
        return "×" if self.options.unicode else "?"

    def codes(self, field: Field) -> NDArray[np.int16]:
        """Return each number its step on the scale, and the rest their marks."""
        import numpy as np

        steps = len(self.paints or self.shades)
        defined = np.isfinite(field.values)
        places = self.scale.places(np.where(defined, field.values, 0))
        codes: NDArray[np.int16] = np.minimum((places * steps).astype(np.int16), steps - 1)
        codes[~defined] = UNDEFINED_CODE
        if field.allowed is not None:
            codes[~field.allowed] = FORBIDDEN_CODE
        return codes

    def cell(self, code: int, width: int, largest: bool = False) -> Run:
        """Draw one cell without a number, `width` cells wide; without colour the largest of a row has a star."""
        if code < 0:
            mark = self.forbidden if code == FORBIDDEN_CODE else self.undefined
            return mark.ljust(width), ""
        if self.paints:
            return " " * width, self.paints[code].filled
        if self.unit == "mask":
            return self.shades[code].ljust(width), ""
        return self.shades[code] * (width - largest) + "*" * largest, ""

    def number(self, text: str, code: int, width: int, bold: bool) -> Run:
        """Draw one cell with its number, `width` cells wide."""
        if code < 0:
            mark = " " if code == FORBIDDEN_CODE else self.undefined
            return mark.rjust(width - 1) + " ", ""
        if not self.paints:
            return (f"*{text}" if bold else text).rjust(width), ""
        text = text.rjust(width)
        filled = self.paints[code].filled
        return text, f"1;{filled}" if bold else filled

    def half_blocks(self, codes: NDArray[np.int16]) -> list[Line]:
        """Draw two rows of cells in each line, with ▀ in the colour of the upper on that of the lower."""
        rows = codes.tolist()
        if len(rows) % 2:
            rows.append([FORBIDDEN_CODE] * len(rows[0]))
        pairs = zip(rows[0::2], rows[1::2], strict=True)
        return [[self._half(*both) for both in zip(upper, lower, strict=True)] for upper, lower in pairs]

    def _half(self, upper: int, lower: int) -> Run:
        pair = (upper, lower)
        if pair not in self._halves_drawn:
            self._halves_drawn[pair] = self._draw_half(upper, lower)
        return self._halves_drawn[pair]

    @cached_property
    def _halves_drawn(self) -> dict[tuple[int, int], Run]:
        return {}

    def _draw_half(self, upper: int, lower: int) -> Run:
        if UNDEFINED_CODE in (upper, lower):
            return self.undefined, ""
        if upper < 0 and lower < 0:
            return " ", ""
        if upper < 0:
            return "▄", self.paints[lower].ink
        if lower < 0:
            return "▀", self.paints[upper].ink
        if upper == lower:
            return " ", self.paints[upper].filled
        return "▀", f"{self.paints[upper].ink};{self.paints[lower].ground}"

    def whole_cells(self, codes: NDArray[np.int16], width: int) -> list[Line]:
        """Draw one row of cells in each line, each `width` cells wide."""
        drawn = {code: self.cell(code, width) for code in set(codes.ravel().tolist())}
        return [[drawn[code] for code in row] for row in codes.tolist()]
