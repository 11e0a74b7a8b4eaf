"""What stands in a cell of a terminal heatmap, by what the terminal can show.

Drawing is by *codes*, a small whole number for each cell: the step of the scale, or below 0 one of two marks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from attncli.render import Options
from attncli.render.canvas import Line, Run
from attncli.render.colors import Paint, mask_paint, scale

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORBIDDEN_CODE = -1
UNDEFINED_CODE = -2

_SHADES = " ░▒▓█"
_ASCII_SHADES = " .:-=+*#%@"


@dataclass(frozen=True)
class Pen:
    """Turns weights into codes and codes into text with colour.

    Args:
        options: The terminal: its colours, its alphabet.
        unit: ``weight`` or ``mask``; a mask is drawn filled or empty, not through the scale.
    """

    options: Options
    unit: str = "weight"

    @cached_property
    def paints(self) -> tuple[Paint, ...]:
        """The steps of the scale; empty without colour."""
        if self.unit == "mask":
            paint = mask_paint(self.options.color)
            return (paint,) if paint else ()
        return scale(self.options.colormap, self.options.color)

    @cached_property
    def shades(self) -> str:
        """The steps as characters, for use without colour."""
        if self.unit == "mask":
            return "■" if self.options.unicode else "#"
        return _SHADES if self.options.unicode else _ASCII_SHADES

    @property
    def halves(self) -> bool:
        """Whether one character can show two cells, one above the other."""
        return bool(self.paints) and self.options.unicode

    @property
    def forbidden(self) -> str:
        """The mark of a pair that may not attend; no shade looks like it."""
        if self.options.unicode:
            return "·"
        return "." if self.unit == "mask" else "_"

    @property
    def undefined(self) -> str:
        """The mark of a weight that is not a number."""
        return "×" if self.options.unicode else "?"

    def codes(self, values: NDArray[np.float32]) -> NDArray[np.int16]:
        """Give each weight its step on the square-root scale, and the rest their marks."""
        import numpy as np

        steps = len(self.paints or self.shades)
        undefined, forbidden = np.isnan(values), values < 0
        root = np.sqrt(np.clip(np.where(undefined, 0, values), 0, 1))
        codes: NDArray[np.int16] = np.minimum((root * steps).astype(np.int16), steps - 1)
        codes[forbidden] = FORBIDDEN_CODE
        codes[undefined] = UNDEFINED_CODE
        return codes

    def cell(self, code: int, width: int) -> Run:
        """Draw one cell without a number, `width` cells wide."""
        if code < 0:
            mark = self.forbidden if code == FORBIDDEN_CODE else self.undefined
            return mark.ljust(width), ""
        if self.paints:
            return " " * width, self.paints[code].filled
        if self.unit == "mask":
            return self.shades[code].ljust(width), ""
        return self.shades[code] * width, ""

    def number(self, value: float, code: int, bold: bool) -> Run:
        """Draw one cell with its number, four cells wide."""
        if code < 0:
            mark = self.forbidden if code == FORBIDDEN_CODE else self.undefined
            return f"  {mark} ", ""
        text = f" {short_number(value)}"
        if not self.paints:
            return text, ""
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


def short_number(value: float) -> str:
    """Write a weight in three cells.

    >>> short_number(0.817), short_number(0.004), short_number(0.996), short_number(0.0)
    ('.82', '.00', '1.0', '  0')
    """
    if value == 0:
        return "  0"
    return "1.0" if value >= 0.995 else f"{max(value, 0):.2f}"[1:]
