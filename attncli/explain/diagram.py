"""The data-flow of one attention operation, with the model's real shapes: the diagram of ``explain``."""

from __future__ import annotations

import re

from attncli.explain.numerals import number
from attncli.explain.row import Explained
from attncli.view import Node

_WIDE = 24
"""A formula with more characters is broken into lines."""


def flow(row: Explained) -> tuple[Node, ...]:
    """Return the nodes of the diagram, each after those that it comes from."""
    nodes = [*_inputs(row), *_projections(row)]
    nodes.append(Node("scores", ("Q·Kᵀ", _shape(row, "scores")), ("query", "key")))
    nodes += _chain("scores", _on_the_way(row))
    weights = nodes[-1].name
    nodes.append(Node("output", ("weights·V", _shape(row, "output")), (weights, "value")))
    nodes.append(Node("heads", _side_by_side(row), ("output",)))
    if row.added is None:
        return (*nodes, Node("projection", ("output projection", "not found"), ("heads",)))
    between = {None: "", "norm": "norm, ", "gate": "gate, "}[row.added.between]
    nodes.append(Node("projection", (f"{between}× W_O", _shape(row, "output_projection")), ("heads",)))
    if row.added.stream is not None:
        nodes.append(Node("stream", ("+ residual stream", _of(row, len(row.added.vector))), ("projection",)))
    return tuple(nodes)


def _inputs(row: Explained) -> list[Node]:
    """Return what queries, keys and values come from, as far as that is known."""
    names = ("x (target)", "y (source)") if row.layer.kind == "cross" else ("x",)
    texts = dict(zip(("input", "memory"), names, strict=False))
    shapes = {"input": "input", "memory": "key_input"}
    used = dict.fromkeys(name for letter in row.made for name in _sources(row, letter))
    return [
        Node(
            name, (texts[name], _shape(row, shapes[name])) if name in texts else (name.replace("_", " "), "")
        )
        for name in used
    ]


def _projections(row: Explained) -> list[Node]:
    lines = {letter: _formula(row, letter) for letter in row.made}
    height = max(map(len, lines.values()))
    nodes = []
    for letter, name in (("Q", "query"), ("K", "key"), ("V", "value")):
        padding = [""] * (height - len(lines[letter]))
        nodes.append(Node(name, (*lines[letter], *padding, _shape(row, name)), _sources(row, letter)))
    return nodes


def _formula(row: Explained, letter: str) -> list[str]:
    formula = row.made[letter].formula
    text = f"{letter}: how it is made was not found" if formula is None else f"{letter} = {formula}"
    return (
        re.sub(r"(, |rotate\((?!x)|was )", r"\1\n", text).replace(" \n", "\n").split("\n")
        if len(text) > _WIDE
        else [text]
    )


def _sources(row: Explained, letter: str) -> tuple[str, ...]:
    """Name what a formula starts from."""
    made = row.made[letter]
    if made.layer is not None:
        return (f"layer_{made.layer}",)
    names = {"x": "input"} | ({"y": "memory"} if row.layer.kind == "cross" else {})
    symbols = dict.fromkeys(re.findall(r"\b[xyz]\b", made.formula or ""))
    return tuple(names.get(symbol, symbol) for symbol in symbols)


def _on_the_way(row: Explained) -> list[tuple[str, tuple[str, ...]]]:
    """Name what lies between the products and the weights."""
    root = (
        f"/ √{len(row.query)}" if abs(row.scale - len(row.query) ** -0.5) < 1e-6 else f"× {number(row.scale)}"
    )
    found = [("scale", (root,))]
    if row.softcap is not None:
        cap = number(row.softcap)
        found.append(("cap", (f"{cap}·tanh(· / {cap})",)))
    if row.bias is not None:
        found.append(("bias", ("+ bias",)))
    if row.allowed is not None and not row.allowed.all():
        found.append(("mask", ("mask",)))
    sink = " with a sink" if row.sink is not None else ""
    return [*found, ("weights", (f"softmax{sink}", _shape(row, "scores")))]


def _chain(first: str, links: list[tuple[str, tuple[str, ...]]]) -> list[Node]:
    names = [first, *(name for name, _ in links)]
    return [Node(name, lines, (before,)) for before, (name, lines) in zip(names, links, strict=False)]


def _side_by_side(row: Explained) -> tuple[str, ...]:
    batch, heads, rows, dim = row.shapes["output"]
    return f"{heads} heads side by side" if heads > 1 else "the one head", f"({batch}, {rows}, {heads * dim})"


def _of(row: Explained, size: int) -> str:
    batch, _, rows, _ = row.shapes["query"]
    return f"({batch}, {rows}, {size})"


def _shape(row: Explained, name: str) -> str:
    shape = row.shapes.get(name)
    return "not found" if shape is None else f"({', '.join(map(str, shape))})"
