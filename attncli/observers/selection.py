"""Which layers and heads are asked for: ``3``, ``0,2,5-7``, ``-1``, ``all``, ``mean``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from attncli.errors import UsageError
from attncli.record import Kind, Run

NO_MEAN = "each head is measured by itself"
"""Why rankings have no mean of heads or layers."""

_RANGE = re.compile(r"(-?\d+)(?:-(-?\d+))?")


@dataclass(frozen=True, slots=True)
class Selection:
    """Some layers or heads.

    Args:
        what: ``layer`` or ``head``, for messages.
        ranges: First and last of each range, both included, as given; negative ones count from the end. None = all.
        mean: Whether to average over those chosen, instead of giving each.
    """

    what: str
    ranges: tuple[tuple[int, int], ...] | None = None
    mean: bool = False

    def resolve(self, count: int) -> tuple[int, ...]:
        """Return the indices, each once, in the order asked for.

        Args:
            count: How many there are.

        Raises:
            UsageError: One is out of range.
        """
        if self.ranges is None:
            return tuple(range(count))
        chosen: dict[int, None] = {}
        for first, last in self.ranges:
            start, stop = self._index(first, count), self._index(last, count)
            step = 1 if start <= stop else -1
            chosen.update(dict.fromkeys(range(start, stop + step, step)))
        return tuple(chosen)

    @property
    def written(self) -> str:
        """The selection as a person writes it."""
        if self.ranges is None:
            return "mean" if self.mean else "all"
        parts = [str(first) if first == last else f"{first}-{last}" for first, last in self.ranges]
        return ",".join(parts) + (":mean" if self.mean else "")

    def refuse_missing(self, run: Run, kind: Kind, depth: int) -> None:
        """Refuse layers without attention: one that is named by itself, or all of those named.

        Of a range that crosses such layers, those that have attention are taken.

        Raises:
            UsageError: A layer that was named has none.
        """
        wanted, have = self.resolve(depth), run.layers(kind)
        missing = [layer for layer in wanted if layer not in have]
        if missing and len(missing) < len(wanted):
            alone = {self._index(first, depth) for first, last in self.ranges or () if first == last}
            missing = [layer for layer in missing if layer in alone]
        if missing:
            raise run.no_attention(kind, missing[0], self.written)

    def _index(self, index: int, count: int) -> int:
        if not -count <= index < count:
            have = f"0 to {count - 1}" if count > 1 else "only 0"
            raise UsageError(
                f"--{self.what} {index}: out of range", f"this model has {self.what}s {have} (-1 is the last)"
            )
        return index % count


def parse_selection(text: str, what: str, *, no_mean: str = "") -> Selection:
    """Read a selection.

    Args:
        text: ``3``, ``0,2,5-7``, ``-1``, ``all``, ``mean``, or a list with ``:mean`` after it (``0-3:mean``).
        what: ``layer`` or ``head``, for messages.
        no_mean: Why there is no mean of them here, where that is so.

    Raises:
        UsageError: It does not parse, or asks for a mean where there is none.

    >>> parse_selection("0,2,5-7", "layer").resolve(12)
    (0, 2, 5, 6, 7)
    >>> parse_selection("-1", "layer").resolve(12)
    (11,)
    >>> parse_selection("mean", "head")
    Selection(what='head', ranges=None, mean=True)
    """
    words, colon, suffix = text.strip().partition(":")
    mean = words == "mean" or suffix == "mean"
    if (colon and suffix != "mean") or (words == "mean" and colon):
        raise _wrong(text, what, bool(no_mean))
    if mean and no_mean:
        raise UsageError(f"--{what} mean: {no_mean}", "write all, or a list")
    if words in ("all", "mean"):
        return Selection(what, None, mean)
    ranges = []
    for part in words.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise _wrong(text, what, bool(no_mean))
        first = int(match[1])
        ranges.append((first, first if match[2] is None else int(match[2])))
    return Selection(what, tuple(ranges), mean)


def _wrong(text: str, what: str, single: bool) -> UsageError:
    words = "-1 or all" if single else "-1, all or mean"
    return UsageError(
        f"--{what} {text!r}: not a {what} selection", f"write a number, a list or a range (0,2,5-7), {words}"
    )
