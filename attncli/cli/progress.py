"""How far something long has come, on stderr: only on a terminal, only after a while, and gone afterwards."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from attncli.cli.options import OutputOptions
from attncli.terminal import abilities

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE_SECONDS = 0.5

T = TypeVar("T")


def counted(items: Sequence[T], what: str, output: OutputOptions) -> Iterator[T]:
    """Yield items one by one, and show how many are done and how long the rest may take.

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


@contextmanager
def texts_done(
    total: int | None, output: OutputOptions, *, shown: bool = True
) -> Iterator[Callable[[int, int], None]]:
    """Show how much of a corpus is done, at what rate, and how long the rest takes.

    Args:
        total: Bytes of the corpus; None where they are not known.
        shown: Whether this process is to show it.

    Returns:
        What is to be told of each step: how many bytes more, and how many texts in all.
    """
    if not shown or not _may_move(output):
        yield lambda size, texts: None
        return
    bar, started = _texts_bar(total is not None), time.monotonic()
    task = bar.add_task("texts", total=total, texts=0, rate="")
    before: list[int] = []

    def done(size: int, texts: int) -> None:
        if not before:
            before.append(texts)  # of an earlier run
        passed = time.monotonic() - started
        if not bar.live.is_started and passed > _PATIENCE_SECONDS:
            bar.start()
        rate = (texts - before[0]) / passed if passed else 0.0
        bar.update(task, advance=size, texts=texts, rate=f"{rate:,.0f} texts/s")

    try:
        yield done
    finally:
        if bar.live.is_started:
            bar.stop()


def _texts_bar(known: bool) -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        [BarColumn(bar_width=24), TaskProgressColumn(), TimeRemainingColumn()] if known else [SpinnerColumn()]
    )
    return Progress(
        *columns,
        TextColumn("{task.fields[texts]:,} texts"),
        TextColumn("{task.fields[rate]}"),
        console=Console(stderr=True),
        transient=True,
    )


def _may_move(output: OutputOptions) -> bool:
    """Whether a line may be drawn again and again; it takes escape codes, which NO_COLOR forbids."""
    if sys.stderr is None or output.quiet or output.no_progress:
        return False
    screen = abilities(sys.stderr, color=output.color)
    return screen.tty and screen.color != "none"
