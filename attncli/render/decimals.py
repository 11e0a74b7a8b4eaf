"""The shortest decimals of float32 numbers, many at once.

`repr` of each is what takes the time when a million weights are written. Here the digits of all are worked out
as whole numbers and put in place as bytes, by array operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CHUNK = 1 << 13
_RANGE = (1e-13, 10.0)
"""Between these, powers of ten up to 10²² will do, which float64 holds exactly."""
_MOST_DIGITS = 9
_SAFE_DIGITS = 6
"""Of so many digits no two decimals round to one float32: the nearest is the only one."""
_PLACES = 12
_WIDTH = 16
"""Bytes that the longest text needs, and its separator."""
_ZERO, _POINT, _MINUS, _LINE_END = b"0.-\n"


@dataclass(frozen=True, slots=True)
class Decimals:
    """Numbers as ``whole / 10**places``, in an order of their own.

    Args:
        index: Where each stands among all numbers.
        whole: At most nine digits.
        exponent: Power of ten of the first digit.
    """

    index: NDArray[np.int64]
    whole: NDArray[np.int64]
    places: NDArray[np.int64]
    exponent: NDArray[np.int64]


def row_texts(values: NDArray[np.float32]) -> Iterator[list[str]]:
    """Write a matrix row by row, each number in the fewest digits that read back as the same float32.

    >>> import numpy as np
    >>> list(row_texts(np.array([[0.1, 1, 0], [1e-5, -12.5, np.nan]], np.float32)))
    [['0.1', '1.0', '0.0'], ['1e-05', '-12.5', 'nan']]
    """
    rows, columns = values.shape
    step = max(1, _CHUNK // max(columns, 1))
    for start in range(0, rows, step):
        chunk = values[start : start + step]
        texts = number_texts(chunk.ravel())
        for row in range(len(chunk)):
            yield texts[row * columns : (row + 1) * columns]


def number_texts(numbers: NDArray[np.float32]) -> list[str]:
    """Write a row of numbers, as `row_texts` does; undefined ones are ``nan``, ``inf`` and ``-inf``."""
    import numpy as np

    if not numbers.size:
        return []
    lines = np.zeros((numbers.size, _WIDTH), np.uint8)
    lines[:, -1] = _LINE_END
    lines[:, 1:4] = (_ZERO, _POINT, _ZERO)  # where nothing follows, the number is 0
    found = _shortest(numbers)
    lines[found.index, 0] = (numbers[found.index] < 0) * np.uint8(_MINUS)
    small = found.exponent < -4  # where Python changes to an exponent
    lines[found.index[~small], 1:-1] = _positional(_part(found, ~small)).T
    lines[found.index[small], 1:-1] = _exponential(_part(found, small)).T
    texts = lines.tobytes().translate(None, b"\0").decode("ascii").split("\n")[:-1]
    rest = numbers != 0
    rest[found.index] = False
    for index in np.flatnonzero(rest).tolist():
        texts[index] = str(numbers[index])
    return texts


def _shortest(numbers: NDArray[np.float32]) -> Decimals:
    """Find the shortest decimals by trying 6, 7, 8 and 9 digits on all numbers.

    What float64 cannot decide is left out: numbers out of range, and a product or a candidate right between two
    others. A power of two, whose neighbour is nearer below than above, could have a shorter decimal farther off
    than the nearest; none in the range has.
    """
    import numpy as np

    sizes = np.abs(numbers).astype(np.float64)
    left = np.flatnonzero((sizes >= _RANGE[0]) & (sizes < _RANGE[1]))
    size = sizes[left]
    exponent = np.floor(np.log10(size)).astype(np.int64)
    found = []
    for digits in range(_SAFE_DIGITS, _MOST_DIGITS + 1):
        places = digits - 1 - exponent
        power = _powers_of_ten()[places]
        product = size * power
        whole = np.rint(product)
        candidate = whole / power  # both exact, so this is the float64 next to the decimal
        unsure = (np.abs(np.abs(product - whole) - 0.5) < 1e-6) | _between(candidate) | (whole >= 10**digits)
        fits = (candidate.astype(np.float32) == size) & ~unsure
        found.append(Decimals(left[fits], whole[fits].astype(np.int64), places[fits], exponent[fits]))
        rest = ~fits & ~unsure
        left, size, exponent = left[rest], size[rest], exponent[rest]
    return _together(found)


def _between(candidate: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Say which float64 numbers lie right between two float32 numbers."""
    import numpy as np

    between: NDArray[np.bool_] = (candidate.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    return between


def _positional(found: Decimals) -> NDArray[np.uint8]:
    """Write ``1.25`` and ``0.00125``: one digit, the point, and places up to the last that is not 0."""
    import numpy as np

    text = np.zeros((_WIDTH - 2, len(found.index)), np.uint8)
    number = found.whole * 10 ** (_PLACES - found.places)
    text[0] = _write_places(text[2:], number, _PLACES) + _ZERO
    text[1] = _POINT
    text[2] = np.maximum(text[2], _ZERO)
    return text


def _exponential(found: Decimals) -> NDArray[np.uint8]:
    """Write ``1.25e-07``: one digit, the point and more digits where there are any, the exponent."""
    import numpy as np

    text = np.zeros((_WIDTH - 2, len(found.index)), np.uint8)
    number = found.whole * 10 ** (_MOST_DIGITS - 1 - found.exponent - found.places)
    text[0] = _write_places(text[2:], number, _MOST_DIGITS - 1) + _ZERO
    text[1] = np.where(text[2], _POINT, 0)
    text[10], text[11] = b"e-"
    text[12], text[13] = -found.exponent // 10 + _ZERO, -found.exponent % 10 + _ZERO
    return text


def _write_places(text: NDArray[np.uint8], number: NDArray[np.int64], places: int) -> NDArray[np.int64]:
    """Write a number's last digits, one an array, without zeros at the end; give what stands before them."""
    import numpy as np

    written = np.zeros(number.shape, np.bool_)
    for place in range(places - 1, -1, -1):
        before = number // 10
        digit = (number - before * 10).astype(np.uint8)
        written |= digit > 0
        text[place] = (digit + _ZERO) * written
        number = before
    return number


def _part(found: Decimals, chosen: NDArray[np.bool_]) -> Decimals:
    return Decimals(found.index[chosen], found.whole[chosen], found.places[chosen], found.exponent[chosen])


def _together(parts: list[Decimals]) -> Decimals:
    import numpy as np

    names = ("index", "whole", "places", "exponent")
    return Decimals(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _powers_of_ten() -> NDArray[np.float64]:
    import numpy as np

    return np.array([float(10**power) for power in range(23)])
