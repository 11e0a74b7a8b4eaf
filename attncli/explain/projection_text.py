"""How queries, keys and values were made, in words and as formulas, for the steps of ``explain``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attncli.explain.row import Added, Explained, Made, Normed

_NAMES = {"Q": "queries", "K": "keys", "V": "values"}

_NORMED: dict[Normed, str] = {
    "head": "of each head alone",
    "all heads": "of all heads together",
    "between projections": "between two projections",
    "input": "of the input",
}

_BETWEEN: dict[str | None, tuple[str, ...]] = {
    None: (),
    "gate": ("a gate comes first: each output times a number between 0 and 1, made from the same token",),
    "norm": ("a norm of all heads' outputs comes first: how large a head's part gets depends on the others",),
}


def formulas_of(made: Mapping[str, Made]) -> str:
    """Return one formula for each of Q, K and V, with a question mark for what was not found."""
    return "   ".join(f"{letter} = {one.formula or '?'}" for letter, one in made.items())


def about_made(row: Explained) -> Iterator[str]:
    """Yield what the steps on the way to Q, K and V do, and what was not found."""
    made = row.made
    yield from _inputs(row)
    modules = {one.modules for one in made.values()}
    if len(modules) == 1 and len(next(iter(modules))) == 1 and len(_matrices(made)) == 3:
        yield "W_Q, W_K and W_V are columns of one matrix"
    rotated = [letter for letter, one in made.items() if one.rotated]
    if rotated:
        yield f"rotate: {_list(rotated)} are turned by their positions (rotary position embedding, RoPE)"
    for norms, letters in _alike(made).items():
        told = " and ".join(_NORMED[norm] for norm in dict.fromkeys(norms))
        yield f"norm: a normalization on the way to {_list(letters)}, {told}"
    for layer in sorted({one.layer for one in made.values() if one.layer is not None}):
        letters = [letter for letter, one in made.items() if one.layer == layer]
        yield f"the {_list(letters)} are those of layer {layer}: this layer projects none of its own"
    unknown = [letter for letter, one in made.items() if one.formula is None]
    if unknown:
        yield f"how the {_list(unknown)} were made was not found"
    if any("?" in (one.formula or "") for one in made.values()):
        yield "?: what was not found"


def added_formula(row: Explained, added: Added) -> tuple[str, tuple[str, ...]]:
    """Return how a head's output is projected, as a formula, and what lies between, in words."""
    dims = len(row.output) if row.output is not None else 0
    part = f"[{row.head * dims}:{(row.head + 1) * dims}]"
    formula = {
        None: f"output·W_O{part}",
        "gate": f"(output · sigmoid(gate))·W_O{part}",
        "norm": f"norm(all heads' outputs){part}·W_O{part}",
    }[added.between]
    told = _BETWEEN[added.between]
    if added.gate is not None and added.gate in row.made["Q"].modules:
        told = (*told, "the matrix that makes the queries makes this gate, too")
    return formula, told


def _inputs(row: Explained) -> Iterator[str]:
    """Yield what the inputs besides x are."""
    for symbol in "yz":
        letters = [
            letter for letter, one in row.made.items() if re.search(rf"\b{symbol}\b", one.formula or "")
        ]
        if letters and not (row.layer.kind == "cross" and symbol == "y"):
            known = "" if row.input is None else ", which is not the x of the queries"
            yield f"{symbol}: what {_list(letters)} are projected from{known}"


def _alike(made: Mapping[str, Made]) -> dict[tuple[Normed, ...], list[str]]:
    """Group the letters that have the same norms."""
    kinds = dict.fromkeys(one.norms for one in made.values() if one.norms)
    return {norms: [letter for letter, one in made.items() if one.norms == norms] for norms in kinds}


def _matrices(made: Mapping[str, Made]) -> list[str]:
    return [name for name, one in made.items() if f"·W_{name}" in (one.formula or "")]


def _list(letters: list[str]) -> str:
    names = [_NAMES[letter] for letter in letters]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
