"""The data-flow of one attention operation, with the model's real shapes: the diagram of ``explain``."""

from __future__ import annotations

from attncli.explain.numerals import number
from attncli.explain.row import Explained
from attncli.view import Node


def flow(row: Explained) -> tuple[Node, ...]:
    """Give the nodes of the diagram, each after those that it comes from."""
    nodes = [*_inputs(row), *_projections(row)]
    nodes.append(Node("scores", ("Q·Kᵀ", _shape(row, "scores")), ("query", "key")))
    nodes += _chain("scores", _on_the_way(row))
    weights = nodes[-1].name
    nodes.append(Node("output", ("weights·V", _shape(row, "output")), (weights, "value")))
    nodes.append(Node("heads", _side_by_side(row), ("output",)))
    if row.added is None:
        return (*nodes, Node("projection", ("output projection", "not found"), ("heads",)))
    nodes.append(Node("projection", ("× W_O", _shape(row, "output_projection")), ("heads",)))
    if row.added.stream is not None:
        nodes.append(Node("stream", ("+ residual stream", _of(row, len(row.added.vector))), ("projection",)))
    return tuple(nodes)


def _inputs(row: Explained) -> list[Node]:
    nodes = [Node("input", ("x", _shape(row, "input")))]
    if row.site.kind == "cross":
        nodes = [Node("input", ("x (target)", _shape(row, "input")))]
        nodes.append(Node("memory", ("x (source)", _shape(row, "key_input"))))
    return nodes


def _projections(row: Explained) -> list[Node]:
    memory = "memory" if row.site.kind == "cross" else "input"
    turned = ("positions turn it",) if row.query_before is not None else ()
    return [
        Node("query", ("Q = x·W_Q", *turned, _shape(row, "query")), ("input",)),
        Node("key", ("K = x·W_K", *turned, _shape(row, "key")), (memory,)),
        Node("value", ("V = x·W_V", *([""] * len(turned)), _shape(row, "value")), (memory,)),
    ]


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
