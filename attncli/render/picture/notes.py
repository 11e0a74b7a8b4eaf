"""The lines below a picture: facts about the data, and nothing about the program."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attncli.render.picture.fonts import has_replaced
from attncli.view import MatrixGrid

_OPTION = re.compile(
    r"(?<![\w-])--?[a-z][\w-]*|\battncli\b|(?<!\w)(?:~|\.{0,2})/[\w.]|\.(?:npz|json|txt|jsonl)\b"
)
_MACHINE = re.compile(r"^noise: |GFLOP/s")
_ASIDE = re.compile(r"\s*\([^()]*(?<![\w-])--[a-z][^()]*\)")


def facts_only(notes: Iterable[str]) -> list[str]:
    """Leave out of notes what is about the program or the machine: options, commands, files, its load.

    >>> facts_only(["above 3 errors (--threshold)", "the adapter is applied: --no-adapter leaves it out"])
    ['above 3 errors', 'the adapter is applied']
    >>> facts_only(["--query it is row 8"])
    []
    """
    kept = []
    for note in notes:
        if _MACHINE.search(note):
            continue
        clauses = []
        for clause in _ASIDE.sub("", note).split("; "):
            parts = clause.split(": ")
            about = next((place for place, part in enumerate(parts) if _OPTION.search(part)), len(parts))
            clauses.append(": ".join(parts[:about]))
        if " " in clauses[0]:  # of a mere name nothing is left to say
            kept.append("; ".join(filter(None, clauses)))
    return kept


def note_texts(grid: MatrixGrid) -> list[str]:
    """Return the lines below a picture: the view's notes, and one on characters that no font could draw."""
    texts = [grid.header.title, *(token.label for token in (*grid.query_tokens, *grid.key_tokens))]
    replaced = any(has_replaced(text) for text in texts)
    return [
        *grid.header.notes,
        *(["U+… stands for a character that no installed font has"] if replaced else []),
    ]
