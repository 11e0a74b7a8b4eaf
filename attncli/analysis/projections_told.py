"""How queries, keys and values were made, in words and as formulas, for the steps of ``explain``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attncli.explained import Explained, Made

_NAMES = {"Q": "queries", "K": "keys", "V": "values"}


def formulas_of(made: Mapping[str, Made]) -> str:
    """Return one formula for each of Q, K and V, with a question mark for what was not found."""
    return "   ".join(f"{letter} = {one.formula or '?'}" for letter, one in made.items())


def about_made(row: Explained) -> Iterator[str]:
    """Yield what the steps on the way to Q, K and V do, and what was not found."""
    made = row.made
    yield from _inputs(row)
    rotated = [letter for letter, one in made.items() if one.rotated]
    if rotated:
        yield f"rotate: {_list(rotated)} are turned by their positions (rotary position embedding, RoPE)"
    for group, widths in _alike(made).items():
        yield f"norm: {_list(group)} are brought to one length and weighted by dimension, {_together(row, widths)}"
    for layer in sorted({one.layer for one in made.values() if one.layer is not None}):
        letters = [letter for letter, one in made.items() if one.layer == layer]
        yield f"the {_list(letters)} are those of layer {layer}: this layer projects none of its own"
    unknown = [letter for letter, one in made.items() if one.formula is None]
    if unknown:
        yield f"how the {_list(unknown)} were made was not found"
    if any("?" in (one.formula or "") for one in made.values()):
        yield "?: what was not found"


def _inputs(row: Explained) -> Iterator[str]:
    """Yield what the inputs besides x are."""
    for symbol in "yz":
        letters = [letter for letter, one in row.made.items() if f"{symbol}·" in (one.formula or "")]
        if letters and row.site.kind == "cross" and symbol == "y":
            yield f"y: the other text, from which {_list(letters)} are projected"
        elif letters:
            yield f"{symbol}: what {_list(letters)} are projected from, which is not the x of the queries"


def _alike(made: Mapping[str, Made]) -> dict[tuple[str, ...], tuple[int, ...]]:
    """Group the letters whose norms have the same widths."""
    widths = dict.fromkeys(one.normed for one in made.values() if one.normed)
    return {tuple(letter for letter, one in made.items() if one.normed == own): own for own in widths}


def _together(row: Explained, widths: tuple[int, ...]) -> str:
    dims = len(row.query)
    told = ["each head alone" if width == dims else f"{width:,} numbers together" for width in widths]
    return " and ".join(dict.fromkeys(told))


def _list(letters: list[str] | tuple[str, ...]) -> str:
    names = [_NAMES[letter] for letter in letters]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
