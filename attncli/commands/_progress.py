"""How far something long has come, on stderr: only on a terminal, only after a while, and gone afterwards."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from attncli.commands._options import OutputOptions
from attncli.terminal import abilities

_PATIENCE_SECONDS = 0.5

T = TypeVar("T")


def counted(items: Sequence[T], what: str, output: OutputOptions) -> Iterator[T]:
    """Give items one by one, and show how many are done and how long the rest may take.

    Args:
        what: What is done, for the line: ``asking all heads``.
    """
    if not _may_move(output):
        yield from items
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(24), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task, started, shown = bar.add_task(what, total=len(items)), time.monotonic(), False
    try:
        for item in items:
            if not shown and time.monotonic() - started > _PATIENCE_SECONDS:
                bar.start()
                shown = True
            yield item
            bar.advance(task)
    finally:
        if shown:
            bar.stop()


def _may_move(output: OutputOptions) -> bool:
    """Whether a line may be drawn again and again; it takes escape codes, which NO_COLOR forbids."""
    if sys.stderr is None or output.quiet or output.no_progress:
        return False
    screen = abilities(sys.stderr, color=output.color)
    return screen.tty and screen.color != "none"
