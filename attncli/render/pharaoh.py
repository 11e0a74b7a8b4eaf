"""A word alignment in one line: ``0-0 1-2``, the source word before the target word."""

from __future__ import annotations

from attncli.errors import UsageError
from attncli.registry import Entry
from attncli.render import Options
from attncli.view import MatrixGrid, View

ENTRY = Entry(
    name="pharaoh",
    summary="Word alignment, 0-0 1-2 …: the source word that each target word attends to most",
    reference="Koehn 2004, Pharaoh: a beam search decoder for phrase-based statistical machine translation models",
    attributes={"suffixes": (".pharaoh",), "views": ("MatrixGrid",), "binary": False},
)


def render(view: View, options: Options) -> bytes:
    """Write the links of an alignment; its rows are target words, its columns source words.

    Raises:
        UsageError: The matrices are no alignment.
    """
    if not isinstance(view, MatrixGrid) or not view.links:
        raise UsageError(
            "--format pharaoh is for show with two texts", "attncli show TEXT --pair TRANSLATION -m …"
        )
    lines = []
    for matrix in view.matrices:
        pairs = [] if matrix.allowed is None else zip(*matrix.allowed.T.nonzero(), strict=True)
        lines.append(" ".join(f"{source}-{target}" for source, target in pairs) + "\n")
    return "".join(lines).encode()
