"""Progress on stderr: only on a terminal, only after a moment, and gone afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import TypeVar

from attncli.cli.options import OutputOptions
from attncli.terminal import abilities

_PATIENCE_SECONDS = 0.5

T = TypeVar("T")
Update = Callable[[str | None, float], None]


@contextmanager
def progress(
    what: str, output: OutputOptions, *, total: float | None = None, shown: bool = True
) -> Iterator[Update]:
    """Show what is being done, and of a known total how much is done and how long the rest may take.

    Args:
        what: What is done, for the line: ``asking all heads``.
        total: How much there is to do; None where it is not known.
        shown: Whether this process shows it.

    Returns:
        What is called after each step, with a new line of text (or None) and how much more is done.
    """
    if not shown or not _may_move(output):
        yield lambda text, more: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    measured = () if total is None else (BarColumn(24), TaskProgressColumn(), TimeRemainingColumn())
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *measured)
    bar = Progress(*columns, console=Console(file=sys.stderr), transient=True)
    task = bar.add_task(what, total=total)
    timer = Timer(_PATIENCE_SECONDS, bar.start)
    timer.start()
    try:
        yield lambda text, more: bar.update(task, description=text, advance=more)
    finally:
        timer.cancel()
        timer.join()
        if bar.live.is_started:
            bar.stop()


def counted(items: Sequence[T], what: str, output: OutputOptions) -> Iterator[T]:
    """Yield items one by one, and show how many are done."""
    with progress(what, output, total=len(items)) as update:
        for item in items:
            yield item
            update(None, 1)


def _may_move(output: OutputOptions) -> bool:
    """Whether a line may be drawn again and again; it takes escape codes, which NO_COLOR forbids."""
    if sys.stderr is None or output.quiet or output.no_progress:
        return False
    screen = abilities(sys.stderr, color=output.color)
    return screen.tty and screen.color != "none"
