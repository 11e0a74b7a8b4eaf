"""Which place of which picture each image token of a text stands for, as a processor has laid them out.

Processors write a picture as a run of image tokens, row by row; or as several runs: rows with a mark after each
(Pixtral), tiles of the picture with the whole of it beside them (Idefics 3, InternVL), or the whole and then finer
rows, each with a token that ends it (LLaVA-NeXT).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt

_TILE = re.compile(r"row_(\d+)_col_(\d+)")
GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class Run:
    """Image tokens without another token between them.

    Args:
        places: Where they stand in the text.
        before: The vocabulary's forms of the tokens between the run before, or the start of the text, and this one.
    """

    places: range
    before: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A picture, or a tile of it, as the model was given it.

    Args:
        name: ``global`` or ``tile2``; empty where the picture has one view.
        places: Where its tokens stand in the text, row by row.
        rows: How many it has down; 0 where its tokens are no places of the picture.
        tile: Row and column among the tiles, for a tile.
    """

    name: str
    places: tuple[int, ...]
    rows: int = 0
    columns: int = 0
    tile: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one picture's tokens besides where they stand.

    Args:
        size: The picture's height and width.
        grid: How many tokens down and across, where the processor says so (Qwen2-VL).
        fine: Likewise of the finer rows after the whole picture (LLaVA-NeXT); each has a token more, its end.
        tile_length: How many tokens a tile has, where the processor says so.
        tiled: Whether the processor has cut the picture up.
        resampled: Whether the tokens are those of a resampler, which are no places.
    """

    size: tuple[int, int]
    grid: tuple[int, int] | None = None
    fine: tuple[int, int] | None = None
    tile_length: int | None = None
    tiled: bool = False
    resampled: bool = False


def runs_of(image: Sequence[bool], pieces: Sequence[str]) -> list[Run]:
    """Find the runs of image tokens in a text.

    Args:
        image: Whether each token is one.
        pieces: The vocabulary's form of each.
    """
    edges = [place for place in range(1, len(image)) if image[place] != image[place - 1]]
    found, end = [], 0
    for start, stop in pairwise([0, *edges, len(image)]):
        if image[start]:
            found.append(Run(range(start, stop), tuple(pieces[end:start])))
            end = stop
    return found


def views_of(runs: Sequence[Run], facts: Facts) -> tuple[tuple[View, ...], dict[int, str]]:
    """Lay out one picture's tokens.

    Returns:
        Its views, and for each of its tokens what it is: ``r3c5``, ``global r0c1``, ``r3 end``.
    """
    places = tuple(place for run in runs for place in run.places)
    if facts.resampled:
        return (View("", places),), {place: f"#{number}" for number, place in enumerate(places)}
    ends: dict[int, str] = {}
    if facts.grid is not None and facts.grid[0] * facts.grid[1] == len(places):
        views = [View("", places, *facts.grid)]
    elif facts.fine is not None:
        views, ends = _whole_and_fine(places, facts)
    elif not facts.tiled and _are_rows(runs):
        views = [View("", places, len(runs), len(runs[0].places))]
    else:
        views = _tiles(runs, facts)
    return tuple(views), {place: name for view in views for place, name in _names(view)} | ends


def merged(views: Sequence[View]) -> list[View]:
    """Put tiles together to one view of the picture; the others stay as they are."""
    tiles = [view for view in views if view.tile is not None and view.rows]
    if not tiles:
        return [view for view in views if view.rows]
    down, across = (1 + max((view.tile or (0, 0))[axis] for view in tiles) for axis in (0, 1))
    rows, columns = tiles[0].rows, tiles[0].columns
    at = {view.tile: view.places for view in tiles}
    if len(at) != down * across:
        return [view for view in views if view.rows]
    places = tuple(
        at[row // rows, column // columns][row % rows * columns + column % columns]
        for row in range(down * rows)
        for column in range(across * columns)
    )
    whole = View("tiles", places, down * rows, across * columns)
    return [whole, *(view for view in views if view.tile is None and view.rows)]


def _are_rows(runs: Sequence[Run]) -> bool:
    """Return whether the runs are rows of a picture: equally long, with one and the same mark between them."""
    between = {run.before for run in runs[1:]}
    return len(runs) > 1 and len({len(run.places) for run in runs}) == len(between) == 1 == len(between.pop())


def _whole_and_fine(places: tuple[int, ...], facts: Facts) -> tuple[list[View], dict[int, str]]:
    assert facts.fine is not None
    rows, columns = facts.fine
    whole = len(places) - rows * (columns + 1)
    rest = places[whole:]
    fine = tuple(place for number, place in enumerate(rest) if number % (columns + 1) < columns)
    ends = {place: f"r{row} end" for row, place in enumerate(rest[columns :: columns + 1])}
    return [*_square(places[:whole], GLOBAL, facts), View("", fine, rows, columns)], ends


def _tiles(runs: Sequence[Run], facts: Facts) -> list[View]:
    """Tell the tiles of a picture from the whole of it, by what is written before each, or by their order."""
    length = facts.tile_length or 0
    parts: list[tuple[tuple[int, ...], str]] = []
    for run in runs:
        step = length if length and len(run.places) % length == 0 else len(run.places)
        cuts = range(run.places.start, run.places.stop, step)
        parts += [(tuple(range(cut, cut + step)), "".join(run.before)) for cut in cuts]
    if len(parts) == 1:
        return _square(parts[0][0], "", facts)
    named = [_TILE.findall(before) for _, before in parts]
    if any(named):
        tiles = [(int(found[-1][0]) - 1, int(found[-1][1]) - 1) if found else None for found in named]
    else:
        # One run of all tiles ends with the whole (InternVL); where each stands apart, it comes first (Gemma 3).
        last = "global" in parts[-1][1].lower() or len(runs) == 1
        across = _across(len(parts) - 1, facts.size)
        numbers = [divmod(number, across) for number in range(len(parts) - 1)]
        tiles = [*numbers, None] if last else [None, *numbers]
    views, count = [], 0
    for (places, _), tile in zip(parts, tiles, strict=True):
        count += tile is not None
        (view,) = _square(places, GLOBAL if tile is None else f"tile{count}", facts, whole=False)
        views.append(View(view.name, view.places, view.rows, view.columns, tile))
    return views


def _across(tiles: int, size: tuple[int, int]) -> int:
    """Return in how many columns tiles lie: as many as make them look most like the picture."""
    height, width = size
    fitting = [columns for columns in range(1, tiles + 1) if tiles % columns == 0]
    return min(fitting, key=lambda columns: abs(columns * columns / tiles - width / height))


def _square(places: tuple[int, ...], name: str, facts: Facts, *, whole: bool = True) -> list[View]:
    """Lay tokens out as a square, or in the shape of the picture; with a class token before them, if need be."""
    side = isqrt(len(places))
    if side * side == len(places):
        return [View(name, places, side, side)]
    height, width = facts.size
    rows = round((len(places) * height / width) ** 0.5)
    if whole and rows and len(places) % rows == 0 and abs(len(places) / rows**2 - width / height) < 0.1:
        return [View(name, places, rows, len(places) // rows)]
    first, rest = places[:1], places[1:]
    side = isqrt(len(rest))
    if whole and side * side == len(rest):
        return [View(f"{name} [CLS]".strip(), first), View(name, rest, side, side)]
    return [View(name, places)]


def _names(view: View) -> list[tuple[int, str]]:
    if not view.rows:
        many = len(view.places) > 1
        return [
            (place, f"{view.name} #{number}".strip() if many else view.name)
            for number, place in enumerate(view.places)
        ]
    at = (divmod(number, view.columns) for number in range(len(view.places)))
    return [
        (place, f"{view.name} r{row}c{column}".strip())
        for place, (row, column) in zip(view.places, at, strict=True)
    ]
