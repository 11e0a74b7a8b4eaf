"""A data-flow diagram in Mermaid's notation, which GitHub draws inside Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from attncli.errors import UsageError
from attncli.registry import Entry
from attncli.render import Options
from attncli.render.grid_text import words
from attncli.view import Node, Steps, View

ENTRY = Entry(
    name="mermaid",
    summary="Data-flow diagram in Mermaid's notation",
    reference="https://mermaid.js.org/syntax/flowchart.html",
    attributes={"suffixes": (".mmd", ".mermaid"), "views": ("Steps",), "binary": False},
)


def render(view: View, options: Options) -> bytes:
    """Write a computation's data-flow."""
    return mermaid(require_steps(view, "mermaid").flow, options).encode("utf-8")


def require_steps(view: View, format_name: str) -> Steps:
    """Return the view back if it has steps.

    Raises:
        UsageError: It has none.
    """
    if isinstance(view, Steps):
        return view
    raise UsageError(f"{format_name} draws steps, and {view.header.command} gives a table or matrices")


def mermaid(flow: Sequence[Node], options: Options) -> str:
    r"""Write a flowchart, from the top down.

    >>> print(mermaid([Node("x", ("x", "(2, 4)")), Node("y", ("2·x",), ("x",))], Options()), end="")
    flowchart TD
      x["x<br/>(2, 4)"]
      y["2·x"]
      x --> y
    """
    nodes = [f'  {node.name}["{_text(node, options)}"]\n' for node in flow]
    edges = [f"  {name} --> {node.name}\n" for node in flow for name in node.inputs]
    return "".join(["flowchart TD\n", *nodes, *edges])


def _text(node: Node, options: Options) -> str:
    lines = [words(line, options).replace("&", "#amp;").replace('"', "#quot;") for line in node.lines if line]
    return "<br/>".join(lines)
